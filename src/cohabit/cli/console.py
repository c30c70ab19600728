"""Talking to the person: one JSON document on stdout, everything else on stderr, progress only on a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

Advance = Callable[[int, int], None]
SHORT_LABELS = {  # column heads that fit a narrow terminal
    "mean_wait_s": "wait", "p95_wait_s": "p95 wait", "mean_bounded_slowdown": "slowdown", "utilisation": "busy",
    "makespan_s": "makespan", "user_max_slowdown": "worst user",
}  # fmt: skip


def show_json(document: Any) -> None:
    """One JSON document, numbers or null, never NaN."""
    typer.echo(json.dumps(document, indent=1, allow_nan=False))


def note(text: str) -> None:
    """A message beside the result."""
    typer.echo(f"cohabit: {text}", err=True)


@contextmanager
def progress(label: str) -> Iterator[Advance | None]:
    """A bar with rate and remaining time; None where nobody is looking."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None, rate="")
        began = time.monotonic()

        def advance(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - began, 1e-6)
            bars.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s")

        yield advance


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table for people, on stdout; columns of numbers to the right, text to the left."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        numbers = index > 0 and all(
            row[index].lstrip("-<")[:1].isdigit() or len(row[index]) <= 1 for row in rows if index < len(row)
        )
        shown.add_column(Text(column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(shown)
