"""Output to the user: one JSON document on stdout, everything else on stderr, progress only on a terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

Advance = Callable[[int, int], None]
SHORT_LABELS = {  # column heads that fit a narrow terminal
    "mean_turnaround_s": "turnaround", "mean_wait_s": "wait", "p95_wait_s": "p95 wait",
    "mean_slowdown_alone": "slowdown", "run_against_alone": "run/alone", "jobs_below_promise": "below promise",
    "utilisation": "busy", "node_hours_occupied": "node-hours", "makespan_s": "makespan",
    "user_max_slowdown_alone": "worst user",
    "varying_runs": "varying", "run_variation": "variation", "longest_run_ratio": "longest/mean",
}  # fmt: skip

INTERFERENCE = ("run_against_alone", "jobs_below_promise")  # shown where neighbours can change run times
VARIATION = ("varying_runs", "run_variation", "longest_run_ratio")  # shown where a run has them


def echo(text: str, end: str = "\n", stream: TextIO | None = None) -> None:
    """Print a text and flush; characters that the terminal's encoding lacks become question marks."""
    out = stream or sys.stdout
    try:
        out.write(text + end)
    except UnicodeEncodeError:
        encoding = out.encoding or "ascii"
        out.write((text + end).encode(encoding, "replace").decode(encoding))
    out.flush()


def show_json(document: Any) -> None:
    """Print one JSON document with numbers or null, never NaN."""
    echo(json.dumps(document, indent=1, allow_nan=False))


def show_result(document: Any, as_json: bool, words: str | Callable[[Any], object]) -> None:
    """Print a result: as one JSON document, or in words (a text, or a function that prints the document)."""
    if as_json:
        show_json(document)
    elif isinstance(words, str):
        echo(words)
    else:
        words(document)


def note(text: str) -> None:
    """Print a message beside the result."""
    echo(f"cohabit: {text}", stream=sys.stderr)


@contextmanager
def progress(label: str) -> Iterator[Advance | None]:
    """Show a bar with rate and remaining time; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None, rate="")
        began = time.monotonic()

        def advance(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - began, 1e-6)
            bars.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s")

        yield advance


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table on stdout; columns of numbers right-aligned, text left-aligned."""
    from cohabit.cli.text_table import table_lines

    rule = "─" if "utf" in (sys.stdout.encoding or "utf").lower() else "-"
    lines = table_lines(columns, rows, screen_width(), rule)
    if title:
        lines[0] = title
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ:
        head = 0 if title else 1
        lines[head] = f"\x1b[1m{lines[head]}\x1b[0m"
    echo("\n".join(lines))


def table_of(title: str, records: list[dict[str, str]]) -> None:
    """Print records with the same keys as a table; the keys are the heads. Nothing is printed if there are none."""
    if records:
        table(title, list(records[0]), [list(record.values()) for record in records])


def screen_width() -> int:
    """Return the width of the terminal in characters; without one, a width that is enough for most tables."""
    if not sys.stdout.isatty():
        return 140
    columns = os.environ.get("COLUMNS", "")
    try:
        return int(columns) if columns.isdecimal() else os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80
