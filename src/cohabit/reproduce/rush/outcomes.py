"""R23 and R40 to R62: what the gate changes, from the trials of all sets. Statistics and rows; nothing is run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cohabit.reproduce.rows import CHECK, Claim, Row, expected, joined, missing, own, row, stated
from cohabit.reproduce.rush.lab import (
    ADAA,
    ADPA,
    CALM_NODES,
    COST_AWARE,
    EXPERIMENTS,
    FCFS,
    JOB_NODES,
    NEVER,
    ORACLE,
    PDPA,
    RANDOM,
    RUSH,
    SS,
    WS,
)
from cohabit.reproduce.rush.plan import FULL, NOT_HERE, Plan
from cohabit.reproduce.rush.trials import PATIENT, THROUGHOUT, Trial, gathered, learners
from cohabit.reproduce.rush.trials import tasks as tasks
from cohabit.trace.rush_programs import APPLICATIONS

Statistic = Callable[[Sequence[Trial]], float | None]
SENSITIVE = ("Laghos", "LBANN", "sw4lite")
SOONER = ("Kripke", "AMG")
GATED = (ADAA, RUSH)  # experiment and policy of most rows
PER_TRIAL = {"Laghos": "almost none", "LBANN": "almost none"}

FALSE_ALARMS = (
    "jobs wait on warnings that are not right (R52.precision): noise that is there but ends before it matters, and "
    "noise that has just passed but is still in the window; with true answers it would be R61.oracle_*"
)


def with_policy(sets: Sequence[Sequence[Trial]], policy: str) -> list[list[Trial]]:
    """Return only the trials with this policy."""
    return [[one for one in trials if policy in one] for trials in sets]


# ---- statistics of one set ----------------------------------------------------------------------------------------


def varying(policy: str, app: str = "") -> Statistic:
    """Varying runs per trial, of all applications or of one."""
    return lambda trials: float(np.mean([of_app(one[policy], "varies", app).sum() for one in trials]))


def of_app(outcome: dict[str, Any], what: str, app: str) -> Any:
    """A column of a trial, of one application only where one is named."""
    if not app:
        return outcome[what]
    return outcome[what][np.array([name.split(".")[0] == app for name in outcome["program"]])]


def reduction(policy: str = RUSH) -> Statistic:
    """Percent fewer varying runs than under FCFS+EASY; None where nothing varied."""

    def statistic(trials: Sequence[Trial]) -> float | None:
        before, after = varying(FCFS)(trials), varying(policy)(trials)
        return 100.0 * (1.0 - after / before) if before and after is not None else None

    return statistic


def longest_change(app: str, nodes: str = "") -> Statistic:
    """Percent by which the longest run of an application over all trials changes."""

    def statistic(trials: Sequence[Trial]) -> float | None:
        longest = {}
        for policy in (FCFS, RUSH):
            times = [
                run_s
                for one in trials
                for name, run_s in zip(one[policy]["program"], one[policy]["run_s"], strict=True)
                if _fits(name, app, nodes)
            ]
            if not times:
                return None
            longest[policy] = float(max(times))
        return 100.0 * (longest[RUSH] / longest[FCFS] - 1.0)

    return statistic


def _fits(program: str, app: str, nodes: str) -> bool:
    name, _, size = program.partition(".")
    at = size.lstrip("weaksrong") or "16"
    return name == app and nodes in ("", at)


def longest_changes(trials: Sequence[Trial], nodes: str = "") -> list[float]:
    """Return the change of the longest run of every application that ran."""
    return [value for app in APPLICATIONS if (value := longest_change(app, nodes)(trials)) is not None]


def best_longest_change(trials: Sequence[Trial]) -> float | None:
    """Return the change for the application whose longest run gains most."""
    return min(longest_changes(trials), default=None)


def worst_longest_change(trials: Sequence[Trial]) -> float | None:
    """Return the change for the application whose longest run gains least, or loses most."""
    return max(longest_changes(trials), default=None)


def mean_longest_change(nodes: str) -> Statistic:
    """Return the mean change over applications of the longest run on so many nodes."""

    def statistic(trials: Sequence[Trial]) -> float | None:
        known = longest_changes(trials, nodes)
        return float(np.mean(known)) if known else None

    return statistic


def mean_run_change(app: str) -> Statistic:
    """Percent by which the mean run time changes."""

    def statistic(trials: Sequence[Trial]) -> float | None:
        means = [
            float(np.mean([of_app(one[policy], "run_s", app).mean() for one in trials])) for policy in (FCFS, RUSH)
        ]
        return 100.0 * (means[1] / means[0] - 1.0)

    return statistic


def makespan_change(policy: str = RUSH) -> Statistic:
    """Return the change of the makespan in seconds."""
    return lambda trials: float(np.mean([one[policy]["makespan_s"] - one[FCFS]["makespan_s"] for one in trials]))


def wait_change(app: str = "", policy: str = RUSH) -> Statistic:
    """Return the change of the wait in seconds, for jobs submitted after the start."""

    def late_wait(outcome: dict[str, Any]) -> float:
        return float(of_app(outcome, "wait_s", app)[of_app(outcome, "late", app)].mean())

    return lambda trials: float(np.mean([late_wait(one[policy]) - late_wait(one[FCFS]) for one in trials]))


def share_of_jobs(counted: str) -> Statistic:
    """Return the percentage of jobs in a count of the gate: skipped at least once, or as often as allowed."""
    return lambda trials: 100.0 * float(np.mean([one[RUSH][counted] / len(one[RUSH]["run_s"]) for one in trials]))


def in_vivo(what: str) -> Statistic:
    """Precision, recall or F1 of the gate's answers at the moments it was asked (R52)."""

    def statistic(trials: Sequence[Trial]) -> float | None:
        (_, fp), (fn, tp) = sum(one[RUSH]["confusion"] for one in trials).tolist()
        below = {"precision": tp + fp, "recall": tp + fn, "f1": tp + (fp + fn) / 2}[what]
        return tp / below if below else None

    return statistic


def moved_schedule(trials: Sequence[Trial]) -> float:
    """Seconds between the starts under a judge that never delays and under FCFS+EASY, at most (R62)."""
    return max(float(np.abs(one[NEVER]["start_s"] - one[FCFS]["start_s"]).max()) for one in trials)


def beats_random(sets: Sequence[Sequence[Trial]], rng: np.random.Generator) -> tuple[float, float, float]:
    """1 if fewer runs vary than under random skipping with 97.5 % confidence over trials; and both means."""
    pairs = np.array(
        [
            (one[RUSH]["varies"].sum(), one[RANDOM]["varies"].sum())
            for trials in sets
            for one in trials
            if RANDOM in one
        ],
        float,
    )
    drawn = rng.integers(0, len(pairs), (2000, len(pairs)))
    fewer = pairs[:, 1] - pairs[:, 0]
    low = float(np.quantile(fewer[drawn].mean(axis=1), 0.025))
    return float(low > 0.0), float(pairs[:, 0].mean()), float(pairs[:, 1].mean())


# ---- rows ---------------------------------------------------------------------------------------------------------


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return the rows of the contract, then all others of the paper and ours."""
    sets = {name: gathered(plan, results, name) for name in (*EXPERIMENTS, THROUGHOUT)}
    size = joined(
        plan.shortened(plan.sizes.sets, FULL.sets, "sets"),
        plan.shortened(plan.sizes.trials, FULL.trials, "trials"),
        f"of other experiments than ADAA {plan.sizes.others} trials a set",
        plan.shortened(plan.sizes.days, FULL.days, "days of control jobs"),
        plan.models(),
    )

    def measured(claims: list[Claim]) -> list[Row]:
        return [
            plan.measured(one, with_policy(sets[one.of[0]], one.of[1]), size)
            if any(with_policy(sets[one.of[0]], one.of[1]))
            else missing(one.about, NOT_HERE)
            for one in claims
        ]

    means = {
        policy: float(np.mean([varying(policy)(trials) or 0.0 for trials in with_policy(sets[ADAA], policy)]))
        for policy in (FCFS, RUSH, RANDOM, ORACLE, PATIENT)
    }
    why = joined(_why(means), f"learner, by F1 on applications left out: {', '.join(learners(plan, results))}")
    contract = measured(_contract(why))
    return [
        *contract[:2],
        _over(plan, sets, size),
        *contract[2:],
        _beats(plan, sets[ADAA], size),
        *measured(_of_experiments() + _of_applications() + _ours() + _beyond()),
    ]


def _contract(why: str) -> list[Claim]:
    noise = "calibrated once with the strength of the noise job"
    most = "of the application that gains most, as the paper's 'up to'; see R42.worst_max_change_pct"
    canaries = joined(FALSE_ALARMS, "canaries are charged to RUSH only (R51)")
    counted = (
        "a skip is counted once per window of telemetry, that is a minute; the paper counts every attempt; changed "
        "with hindsight, after 37 and 43 % had been seen"
    )
    return [
        stated("R40.base_varying", varying(FCFS), noise, GATED),
        stated("R40.reduction_pct", reduction(), why, GATED),
        stated("R42.max_runtime_change_pct", best_longest_change, most, GATED),
        stated("R43.makespan_change_s", makespan_change(), canaries, GATED),
        stated("R44.wait_change_s", wait_change(), FALSE_ALARMS, GATED),
        stated("R23.threshold_reached_pct", share_of_jobs("at_threshold"), counted, GATED),
    ]


def _why(means: dict[str, float]) -> str:
    return (
        f"varying runs per trial: FCFS+EASY {means[FCFS]:.1f}, RUSH {means[RUSH]:.1f}, random skips "
        f"{means[RANDOM]:.1f}, an oracle with ten {means[ORACLE]:.1f}, RUSH without threshold {means[PATIENT]:.1f}"
    )


def _over(plan: Plan, sets: dict[str, list[list[Trial]]], size: str) -> Row:
    """R41: of all sets together, since the reduction of a single set can be near zero."""
    about = expected("R41.pdpa_over_adpa")

    def both(numbers: Sequence[int]) -> tuple[float, float]:
        flat = ([one for at in numbers for one in sets[name][at]] for name in (ADPA, PDPA))
        known, unknown = (reduction()(trials) for trials in flat)
        return known or 0.0, unknown or 0.0

    count = len(sets[ADPA])
    known, unknown = both(range(count))
    words = joined(f"reduction ADPA {known:.0f} %, PDPA {unknown:.0f} %", size)
    if known <= 0.0:
        return missing(about, joined("no reduction with known applications to compare with", words))
    rng = plan.resampling(about.id)
    drawn = [both(rng.integers(0, count, count).tolist()) for _ in range(500 if count > 1 else 0)]
    ratios = [second / first for first, second in drawn if first > 0.0]
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist() if ratios else (None, None)
    return row(about, unknown / known, words, interval=(low, high), n_seeds=count)


def _beats(plan: Plan, sets: list[list[Trial]], size: str) -> Row:
    about = expected("R61.beats_random_skip")
    better, own, random = beats_random(sets, plan.resampling(about.id))
    words = f"varying runs per trial: RUSH {own:.1f}, random skips at its rate {random:.1f}, paired over trials"
    return row(about, better, joined(words, size), n_seeds=len(sets))


def _of_experiments() -> list[Claim]:
    """Return what the paper's figures 4, 8, 9 and 10 say of each experiment."""
    found = []
    for name in EXPERIMENTS:
        low, of = name.lower(), (name, RUSH)
        varied, saved = f"varying runs per {name} trial under", f"makespan, {name} (paper: 18 to 66 s less)"
        grows = "the paper: no maximum grows" if name in (WS, SS) else ""
        least, most = (f"longest run, who gains {which}, {name}" for which in ("least", "most"))
        paper = 4.0 if name == ADAA else None
        found += [
            own(f"R40.{low}_varying_rush", f"{varied} RUSH", varying(RUSH), paper, of=of),
            own(f"R43.{low}_makespan_change_s", saved, makespan_change(), of=of),
            own(f"R42.{low}_worst_max_change_pct", least, worst_longest_change, note=grows, of=of),
        ]
        if name != ADAA:
            found += [
                own(f"R41.{low}_varying_fcfs", f"{varied} FCFS+EASY", varying(FCFS), of=of),
                own(f"R41.{low}_reduction_pct", f"fewer varying runs under RUSH, {name}", reduction(), of=of),
                own(f"R44.{low}_wait_change_s", f"mean wait of late jobs, {name}", wait_change(), of=of),
                own(f"R42.{low}_best_max_change_pct", most, best_longest_change, of=of),
            ]
    note = "the paper: the effect is smaller at 32 nodes"
    for nodes in ("8", "16", "32"):
        words = f"longest run at {nodes} nodes, WS, mean over applications"
        found.append(own(f"R42.ws_{nodes}_max_change_pct", words, mean_longest_change(nodes), note=note, of=(WS, RUSH)))
    return found


def _of_applications() -> list[Claim]:
    """Return the rows of figures 5, 6, 9 and 11."""
    found = []
    for app in APPLICATIONS:
        low, varied = app.lower(), f"varying runs of {app} per ADAA trial"
        after = f"the paper: {PER_TRIAL.get(app, 'between 0 and 1.5')} under RUSH"
        before = "the paper: between 1.5 and 3.5 under FCFS+EASY"
        named = "one of the three the paper names" if app in SENSITIVE else ""
        falls = "the paper: falls for every application"
        waits = "the paper: longer" if app in SENSITIVE else "the paper: shorter" if app in SOONER else ""
        longest, late = longest_change(app), f"mean wait of {app}, late ones, ADAA"
        found += [
            own(f"R40.{low}_varying_fcfs", f"{varied}, FCFS+EASY", varying(FCFS, app), note=before, of=GATED),
            own(f"R40.{low}_varying_rush", f"{varied}, RUSH", varying(RUSH, app), note=after, of=GATED),
            own(f"R42.{low}_max_change_pct", f"longest run of {app}, ADAA", longest, note=named, of=GATED),
            own(f"R42.{low}_ss_max_change_pct", f"longest run of {app}, SS", longest, note=falls, of=(SS, RUSH)),
            own(f"R44.{low}_mean_run_change_pct", f"mean run time of {app}", mean_run_change(app), of=GATED),
            own(f"R44.{low}_wait_change_s", late, wait_change(app), note=waits, of=GATED),
        ]
    return found


# Brackets, the gate's answers, and the other world: name, claim, statistic, note, (experiment, policy).
OURS: tuple[tuple[str, str, Statistic, str, tuple[str, str]], ...] = (
    ("R52.precision", "share of the gate's warnings that were right, ADAA", in_vivo("precision"),
     "what would have happened at every decision, beside a machine as full as usual; asked again about the same "
     "counters is the same decision", GATED),
    ("R52.recall", "share of starts that would have varied which the gate warned of, ADAA", in_vivo("recall"), "",
     GATED),
    ("R52.f1", "F1 of the gate's answers in the experiment, ADAA", in_vivo("f1"), "", GATED),
    ("R52.f1_pdpa", "the same for applications never seen, PDPA", in_vivo("f1"), "", (PDPA, RUSH)),
    ("R23.skipped_pct", "jobs skipped at least once, ADAA", share_of_jobs("skipped_jobs"), "", GATED),
    ("R61.random_varying", "varying runs per ADAA trial, random skips at RUSH's rate", varying(RANDOM), "",
     (ADAA, RANDOM)),
    ("R61.oracle_varying", "varying runs per ADAA trial, skips by who knows the weather", varying(ORACLE), "",
     (ADAA, ORACLE)),
    ("R61.oracle_reduction_pct", "fewer varying runs with true answers instead of the model's", reduction(ORACLE),
     "the most ten skips can do here", (ADAA, ORACLE)),
    ("R23.patient_reduction_pct", "fewer varying runs under RUSH without a threshold (ours)", reduction(PATIENT), "",
     (ADAA, PATIENT)),
    ("R23.patient_wait_change_s", "and what that costs late submissions", wait_change(policy=PATIENT), "",
     (ADAA, PATIENT)),
    ("R61.oracle_makespan_change_s", "makespan with true answers instead of the model's", makespan_change(ORACLE),
     "what Algorithm 2 costs in this world with perfect answers", (ADAA, ORACLE)),
    ("R61.oracle_wait_change_s", "mean wait of late jobs with true answers", wait_change(policy=ORACLE), "",
     (ADAA, ORACLE)),
)  # fmt: skip


def _ours() -> list[Claim]:
    """Return rows on brackets, the gate's answers, and the other world."""
    still, never, other = "starts with a judge that never objects", (ADAA, NEVER), (THROUGHOUT, RUSH)
    canaries = "both without canaries"
    suffering = "fewer varying runs where programs suffer all the time"
    uncalibrated = "the present weather, but sensitive throughout; its noise is not calibrated anew"
    return [
        *(own(name, words, statistic, note=note, of=of) for name, words, statistic, note, of in OURS),
        own("R62.constant_judge_shift_s", still, moved_schedule, 0.0, 0.0, 0.0, CHECK, note=canaries, of=never),
        own("R40.reduction_pct_throughout", suffering, reduction(), note=uncalibrated, of=other),
        own("R40.base_varying_throughout", "varying runs under FCFS+EASY there", varying(FCFS), of=other),
    ]


def _beyond() -> list[Claim]:
    """Return what the gate can do beyond the paper, each against the plain gate in the same trials."""
    found = []
    for policy, plain, tag, words in (
        (COST_AWARE, RUSH, "cost_aware", "a gate that weighs costs (ours)"),
        (CALM_NODES, JOB_NODES, "choose_nodes", "a gate that chooses nodes first (ours)"),
        (JOB_NODES, RUSH, "jobnodes", "a gate that sees the job's nodes only (ours)"),
    ):
        against = {RUSH: "RUSH", JOB_NODES: "the gate of the job's nodes"}[plain]
        for name, claim, statistic in (
            ("reduction_pct", "fewer varying runs than FCFS+EASY", reduction(policy)),
            ("more_varying", f"varying runs per trial more than {against}", _more_varying(policy, plain)),
            ("delays_pct", f"delays more than {against}", _more_delays(policy, plain)),
            ("makespan_change_s", "makespan against FCFS+EASY", makespan_change(policy)),
            ("wait_change_s", "mean wait of late jobs against FCFS+EASY", wait_change(policy=policy)),
        ):
            found.append(own(f"B-R.{tag}_{name}", f"{claim}, {words}", statistic, of=(ADAA, policy)))
    return found


def _more_varying(policy: str, plain: str) -> Statistic:
    return lambda trials: (varying(policy)(trials) or 0.0) - (varying(plain)(trials) or 0.0)


def _more_delays(policy: str, plain: str) -> Statistic:
    def statistic(trials: Sequence[Trial]) -> float | None:
        own, other = (sum(one[name]["delayed"] for one in trials) for name in (policy, plain))
        return 100.0 * (own / other - 1.0) if other else None

    return statistic
