"""The paper's figures from our runs, as plotly data. Each caption says what to look at and what the paper shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cohabit.predict.variability_learners import KINDS
from cohabit.report.figures import Figure, bars, colour, layout, marks, packed, safe
from cohabit.reproduce.papers import Picture
from cohabit.reproduce.rush import learning, outcomes, spells
from cohabit.reproduce.rush.lab import ADAA, ADPA, EXPERIMENTS, FCFS, PDPA, RUSH, SS, SUBSET, WS
from cohabit.reproduce.rush.learning import ALL_NODES, OWN_NODES, TITLES
from cohabit.reproduce.rush.outcomes import longest_change, varying
from cohabit.reproduce.rush.plan import Plan
from cohabit.reproduce.rush.trials import Trial, gathered
from cohabit.trace.rush_programs import APPLICATIONS

BOTH = {FCFS: "FCFS+EASY", RUSH: "RUSH"}


def pictures(plan: Plan, results: dict[str, Any]) -> list[Picture]:
    """Return all figures, in the paper's order."""
    trials = {name: [one for part in gathered(plan, results, name) for one in part] for name in EXPERIMENTS}
    learned = [_over_time(plan, results), _scores(plan, results)] if plan.sizes.lessons else []
    return [
        *learned,
        _partial(trials),
        _varying(trials[ADAA]),
        _times(trials[ADAA], "Run times, ADAA", "Fig. 6: RUSH shortens the longest runs of Laghos, LBANN and sw4lite."),
        _times(trials[PDPA], "Run times, PDPA", "Fig. 7: the model has never seen these three applications."),
        _times(trials[WS], "Run times, WS", "Fig. 8: runs at 8, 16 and 32 nodes together."),
        _strong(trials[SS]),
        _makespans(trials),
        _waits(trials[ADAA]),
        spells.picture(plan, results),
    ]


def counted(names: Sequence[str], series: Mapping[str, Sequence[float]], y_title: str) -> Figure:
    """Bars of counts with the number on each: a zero bar is shown as 0, not as missing."""
    figure = bars(names, series, y_title)
    for one in figure["data"]:
        one |= {"text": [f"{value:.3g}" for value in one["y"]], "textposition": "outside", "cliponaxis": False}
    most = max((value for values in series.values() for value in values), default=0.0)
    figure["layout"]["yaxis"] = figure["layout"].get("yaxis", {}) | {"range": [0.0, 1.15 * max(most, 1.0)]}
    return figure


def _none_said(trials: Sequence[Trial], name: str) -> str:
    """Return a text where a schedule has nothing to show."""
    runs = sum(len(one[FCFS]["run_s"]) for one in trials)
    calm = [title for policy, title in BOTH.items() if not varying(policy)(trials)]
    return f" {name}: none of {runs} runs varied under {' nor '.join(calm)}." if calm else ""


def _over_time(plan: Plan, results: dict[str, Any]) -> Picture:
    times = learning.gathered(plan, results)[0]["times"]
    data: list[Figure] = []
    for number, (name, (days, ratios)) in enumerate(times.items()):
        x = packed(np.array(days))
        y = packed(np.array(ratios))
        hover = f"day %{{x:.0f}}: %{{y:.2f}}<extra>{name}</extra>"
        data.append(marks(name, x, y, number, hover, size=4, marker={"opacity": 0.7}))
    words = (
        "Every control run as a multiple of its application's shortest (Fig. 1). Some bad days in the second half hit "
        "every application, as mid-December does in the paper, where single runs take up to 14 times as long."
    )
    figure = {"data": data, "layout": layout(360, "day", "run time over the shortest", showlegend=True)}
    return Picture("Variability over time", figure, words)


def _scores(plan: Plan, results: dict[str, Any]) -> Picture:
    lessons = learning.gathered(plan, results)
    series = {
        nodes: [float(np.mean([one[nodes, kind] or 0.0 for one in lessons])) for kind in KINDS]
        for nodes in (ALL_NODES, OWN_NODES)
    }
    words = (
        "F1 of 'it varies' on applications left out of training (Fig. 3), with counters of all nodes and of the job's "
        "own. The paper's best is AdaBoost with 0.95, and the job's own nodes are about as good."
    )
    return Picture("How well models predict", bars([TITLES[kind] for kind in KINDS], series, "F1"), words)


def _per_app(trials: Sequence[Trial], apps: Sequence[str]) -> dict[str, list[float]]:
    return {title: [varying(policy, app)(trials) or 0.0 for app in apps] for policy, title in BOTH.items()}


def _varying(trials: Sequence[Trial]) -> Picture:
    words = (
        "Varying runs per trial and application (Fig. 5): between 1.5 and 3.5 under FCFS+EASY and between 0 and 1.5 "
        "under RUSH in the paper."
    )
    figure = counted(APPLICATIONS, _per_app(trials, APPLICATIONS), "runs per trial")
    return Picture("Varying runs, ADAA", figure, words + _none_said(trials, ADAA))


def _partial(trials: Mapping[str, Sequence[Trial]]) -> Picture:
    names = [f"{app}<br>{name}" for name in (ADPA, PDPA) for app in SUBSET]
    parts = [_per_app(trials[name], SUBSET) for name in (ADPA, PDPA)]
    series = {title: parts[0][title] + parts[1][title] for title in BOTH.values()}
    words = (
        "Three applications, with a model that knows them (ADPA) and one that has never seen them (PDPA) (Fig. 4): "
        "similar in the paper."
    ) + "".join(_none_said(trials[name], name) for name in (ADPA, PDPA))
    return Picture("Varying runs, known and unknown applications", counted(names, series, "runs per trial"), words)


def _times(trials: Sequence[Trial], title: str, words: str) -> Picture:
    data: list[Figure] = []
    for number, (policy, label) in enumerate(BOTH.items()):
        names = [safe(name.split(".")[0]) for one in trials for name in one[policy]["program"]]
        times = np.concatenate([one[policy]["run_s"] for one in trials])
        data.append(
            {
                "type": "box",
                "name": label,
                "x": names,
                "y": packed(times),
                "boxpoints": "outliers",
                "marker": {"color": colour(number), "size": 3},
            }
        )
    figure = layout(380, "", "run time (s)", showlegend=True, boxmode="group")
    return Picture(title, {"data": data, "layout": figure}, words)


def _strong(trials: Sequence[Trial]) -> Picture:
    series = {"longest run": [-(longest_change(app)(trials) or 0.0) for app in APPLICATIONS]}
    words = "By how much the longest run of each application is shorter under RUSH (Fig. 9): in the paper, all are."
    return Picture("Longest runs, SS", bars(APPLICATIONS, series, "shorter by (%)", " %"), words)


def _makespans(trials: Mapping[str, Sequence[Trial]]) -> Picture:
    series = {
        title: [float(np.mean([one[policy]["makespan_s"] for one in trials[name]])) / 60.0 for name in EXPERIMENTS]
        for policy, title in BOTH.items()
    }
    words = "Makespan of each experiment (Fig. 10): 18 to 66 s less under RUSH in the paper."
    return Picture("Makespans", bars(EXPERIMENTS, series, "minutes", " min"), words)


def _waits(trials: Sequence[Trial]) -> Picture:
    series = {}
    for policy, title in BOTH.items():
        series[title] = [float(np.mean([_late_wait(one[policy], app) for one in trials])) for app in APPLICATIONS]
    words = (
        "Mean wait of jobs that came after the start (Fig. 11): in the paper longer for Laghos, sw4lite and LBANN, "
        "shorter for Kripke and AMG, all within a minute."
    )
    return Picture("Waits, ADAA", bars(APPLICATIONS, series, "seconds", " s"), words)


def _late_wait(outcome: dict[str, Any], app: str) -> float:
    return float(outcomes.of_app(outcome, "wait_s", app)[outcomes.of_app(outcome, "late", app)].mean())
