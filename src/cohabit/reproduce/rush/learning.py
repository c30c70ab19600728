"""R5 and R12 to R15: four learners on the control jobs, asked about applications never seen; the deployed models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cohabit.predict.variability import VariabilityModel
from cohabit.predict.variability_data import Runs
from cohabit.predict.variability_learners import ADABOOST, EXTRA_TREES, FOREST, KINDS, KNN
from cohabit.predict.variability_scores import f1, mean_f1, pooled
from cohabit.predict.variability_training import (
    TrainedVariability,
    about_unseen,
    choose,
    choose_columns,
    compare,
    fit,
)
from cohabit.reproduce.rows import Row, expected, joined, missing, own, stated
from cohabit.reproduce.rush.control import Collected, History, collected, in_bursts
from cohabit.reproduce.rush.lab import TAUGHT
from cohabit.reproduce.rush.plan import FULL, NOT_HERE, Plan
from cohabit.reproduce.tasks import Task

OF_BURSTS = ADABOOST  # the learner of rush-paying's model: the paper's best, and the smallest file
ALL_NODES, OWN_NODES = "all nodes", "job nodes"
TITLES = {ADABOOST: "AdaBoost", EXTRA_TREES: "extra trees", FOREST: "decision forest", KNN: "nearest neighbours"}


@dataclass(frozen=True, eq=False)
class Trained:
    """The models of one history, each of the learner that does best on its runs; trained when needed.

    Columns are eliminated (R13) or all of them used. The probabilities of the two models that see every application
    are calibrated with answers about applications left out.
    """

    data: Collected
    seed: int
    eliminating: bool
    learner: str = ""  # empty: chosen

    @cached_property
    def whole(self) -> TrainedVariability:
        """The model of all applications, with the library's own object."""
        return self._fit(self.data.all_nodes, calibrated=True)

    @property
    def full(self) -> VariabilityModel:
        """The model of all applications."""
        return self.whole.deployed

    @cached_property
    def some(self) -> TrainedVariability:
        """The model of the applications PDPA does not run."""
        taught = np.array([name in TAUGHT for name in self.data.all_nodes.app])
        return self._fit(self.data.all_nodes.only(taught))

    @property
    def partial(self) -> VariabilityModel:
        """The same, as a gate asks it."""
        return self.some.deployed

    @cached_property
    def of_bursts(self) -> TrainedVariability:
        """The model of rush-paying (ours): taught by bursts of many lengths, with the last minute beside the window."""
        kind = self.learner or OF_BURSTS
        return self._fit(in_bursts(self.data.history), calibrated=True, kind=kind)

    @property
    def paying(self) -> VariabilityModel:
        """The same, as a gate asks it."""
        return self.of_bursts.deployed

    @cached_property
    def job_nodes(self) -> VariabilityModel:
        """The model of counters of the nodes planned for a run."""
        return self._fit(self.data.job_nodes, calibrated=True).deployed

    def _fit(self, runs: Runs, calibrated: bool = False, kind: str = "") -> TrainedVariability:
        everything = np.ones(len(runs), bool)
        kind = kind or self.learner or learner_of(runs, self.seed)
        columns = choose_columns(runs, kind, everything, self.seed)[0] if self.eliminating else None
        unseen = about_unseen(runs, kind, self.seed, three=True) if calibrated else ()
        return fit(runs, kind, self.seed, columns, unseen)


def learner_of(runs: Runs, seed: int) -> str:
    """The learner that does best on applications left out of these runs (R12), before any experiment."""
    scores = {kind: mean_f1(about_unseen(runs, kind, seed)) or 0.0 for kind in KINDS}
    return max(KINDS, key=lambda kind: scores[kind])


def lesson(history: History, seed: int, eliminating: bool) -> dict[Any, Any]:
    """Scores of all learners with both kinds of features; of the best also with columns eliminated inside the folds."""
    data = collected(history)
    found: dict[Any, Any] = {"runs": len(data.all_nodes), "times": _times(data.all_nodes)}
    for nodes, runs in ((ALL_NODES, data.all_nodes), (OWN_NODES, data.job_nodes)):
        for kind in KINDS:
            compared = compare(runs, kind, seed)
            found[nodes, kind] = mean_f1(compared.grouped)
            found[nodes, kind, "pooled"] = f1(*pooled(compared.grouped))
            found[nodes, kind, "known"] = mean_f1(compared.stratified)
    if eliminating:
        best = max(KINDS, key=lambda kind: found[ALL_NODES, kind] or 0.0)
        chosen = choose(data.all_nodes, best, seed)
        found["eliminated"] = mean_f1(chosen.grouped)
        found["columns"] = len(chosen.columns)
    return found


def _times(runs: Runs) -> dict[str, tuple[list[float], list[float]]]:
    """By application: days and run times, as multiples of the least (the paper's Fig. 1)."""
    names = np.array(runs.app)
    found = {}
    for name in runs.applications:
        own = runs.times_s[names == name]
        found[name] = ((runs.start_s[names == name] / 86_400).tolist(), (own / own.min()).tolist())
    return found


# ---- rows ---------------------------------------------------------------------------------------------------------

Lesson = dict[Any, Any]
Statistic = Callable[[Sequence[Lesson]], float | None]
MANY_TIMES = 2.0  # the paper: several applications vary by more than this
LOW_TAIL = (
    "loads are drawn without the rarest disasters: a tail up to 14 would make the deviation so large that hardly any "
    "run of the experiments could lie 1.5 of them above the mean"
)


def tasks(plan: Plan) -> list[Task]:
    """One comparison of learners per history."""
    sizes = plan.sizes
    return [
        Task(
            f"lesson {number}",
            lesson,
            {"history": plan.history(number), "seed": plan.seed("models"), "eliminating": sizes.eliminating},
            80.0,
        )
        for number in range(sizes.lessons)
    ]


def gathered(plan: Plan, results: dict[str, Any]) -> list[Lesson]:
    """The lessons in order."""
    return [results[f"lesson {number}"] for number in range(plan.sizes.lessons)]


def best_score(one: Lesson, nodes: str) -> tuple[float, str]:
    """Return the best learner and its score."""
    return max((one[nodes, kind] or 0.0, TITLES[kind]) for kind in KINDS)


def best_f1(members: Sequence[Lesson]) -> float | None:
    """Return F1 of the best learner with all nodes; with columns eliminated inside the folds where that was done."""
    one = members[0]
    return max(best_score(one, ALL_NODES)[0], one.get("eliminated") or 0.0)


def ratios(one: Lesson) -> dict[str, float]:
    """The longest run of every application over its shortest."""
    return {name: max(times) for name, (_, times) in one["times"].items()}


def own_against_all(members: Sequence[Lesson]) -> float:
    """Return how much better the best learner is with the counters of the job's own nodes."""
    return best_score(members[0], OWN_NODES)[0] - best_score(members[0], ALL_NODES)[0]


def applications_over_2(members: Sequence[Lesson]) -> float:
    """Return how many applications vary by more than MANY_TIMES."""
    return float(sum(one > MANY_TIMES for one in ratios(members[0]).values()))


def score(key: Any) -> Statistic:
    """Return a score of a lesson."""
    return lambda members: None if members[0][key] is None else float(members[0][key])


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The contract, every other learner, and how much control jobs vary."""
    if not plan.sizes.lessons:
        return [missing(expected(name), NOT_HERE) for name in ("R15.f1", "R15.jobnodes_vs_all")]
    lessons = gathered(plan, results)
    size = joined(
        plan.shortened(len(lessons), FULL.lessons, "histories"),
        plan.shortened(lessons[0]["runs"], round(FULL.days * FULL.runs_per_day) * 7, "control runs"),
        "" if plan.sizes.eliminating else "no columns eliminated",
    )

    best = ", ".join(sorted({best_score(one, ALL_NODES)[1] for one in lessons}))
    claims = [
        stated("R15.f1", best_f1, f"best: {best}; the paper: AdaBoost"),
        stated("R15.jobnodes_vs_all", own_against_all),
    ]
    for kind in KINDS:
        name, paper = kind.replace("-", "_"), 0.95 if kind == ADABOOST else None
        for nodes, tag in ((ALL_NODES, "all"), (OWN_NODES, "own")):
            words = f"{TITLES[kind]}, {nodes}, applications never seen"
            claims.append(own(f"R15.{name}_{tag}_f1", words, score((nodes, kind)), paper))
        words = f"{TITLES[kind]}, stratified folds, applications known"
        claims.append(own(f"R15.{name}_known_f1", words, score((ALL_NODES, kind, "known"))))
    if plan.sizes.eliminating:
        claims.append(own("R13.columns", "columns left by recursive elimination, of 282", score("columns")))
    most = "longest run over shortest, application that varies most"
    over_2 = "applications whose longest run is more than twice the shortest"
    claims += [
        own("R5.most_variation", most, lambda members: max(ratios(members[0]).values()), 14.0, note=LOW_TAIL),
        own("R5.applications_over_2", over_2, applications_over_2, note="the paper: several"),
    ]
    return [plan.measured(one, [[each] for each in lessons], size) for one in claims]
