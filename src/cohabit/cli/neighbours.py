"""What runs beside others taught of a program, as `cohabit profiles show` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from cohabit.cli.console import table
from cohabit.cli.job_words import counted

MOST_SHOWN = 12  # pairs
SIDES = {"sensitivity": "is slowed by", "intensity": "slows them by"}


def show_neighbours(found: Mapping[str, Any], program: str) -> None:
    """Print what the model says before and after co-runs, and the co-runs."""
    judged, runs = found["judged"], found["co_runs"]
    if judged is not None:
        level, pairs = f"{100 * judged['level']:.0f} %", {"sensitivity": "pairs_slowed", "intensity": "pairs_beside"}
        rows = [
            [f"{program} {words}", _sure(judged["prior"][side]), _sure(judged["own"][side]), str(judged[pairs[side]])]
            for side, words in SIDES.items()
        ]
        beside = counted(judged["beside"], "other program")
        title = f"Beside {beside} on average, by model {judged['model']} (in brackets what holds {level})"
        table(title, ["", "by counters", "after co-runs", "co-runs with"], rows)
    if not runs:
        typer.echo("It has not run beside another program yet, as far as this store knows.")
        return
    rows = [
        [
            one["program"],
            " + ".join(one["beside"]),
            f"{one['mean_percent']:+.1f}",
            f"{one['least_percent']:+.1f} to {one['most_percent']:+.1f}" if one["runs"] > 1 else "-",
            str(one["runs"]),
            one["hardware"] or "-",
        ]
        for one in runs[:MOST_SHOWN]
    ]
    more = f"; the first {MOST_SHOWN} (all: --json)" if len(runs) > MOST_SHOWN else ""
    heads = ["slowed", "beside", "% slower", "range", "runs", "hardware"]
    table(f"Runs beside others: {counted(len(runs), 'group')}{more}", heads, rows)


def _sure(side: Mapping[str, float]) -> str:
    return f"{side['percent']:.1f} % ({side['low']:.1f} to {side['high']:.1f})"
