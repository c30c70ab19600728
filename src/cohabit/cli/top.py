"""`cohabit top`: nodes and jobs on one screen, refreshed repeatedly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cohabit.cli.console import show_json
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import counted, moment, shortened
from cohabit.cli.nodes import called, jobs_text
from cohabit.cli.options import AsJson, Server, asking, duration_s
from cohabit.cli.queue import COLUMNS, columns_that_fit, folded, place_of, row_of
from cohabit.cli.text_table import LEAST_PROSE, cell_width, table_lines, table_width
from cohabit.cli.top_keys import LEAVE, Choice, keys_in, keys_line, pressed
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from cohabit.app.client.client import Client
    from cohabit.cli.top_keys import Choice

MOST_NODES, MOST_ENDED = 16, 5
BAR = 20
LEAST_WHY = 28  # characters of the reason, for which other columns are left out
WIDE = 80  # columns of a screen with room for bars


@verb(
    "top",
    "Nodes and jobs on a live screen.",
    "cohabit top            (the last line shows the keys: q leave, s sort, / search, w waiting, ...)",
    "cohabit top --every 5s",
    "cohabit top --once",
)
def top(
    every: Annotated[str, Option(metavar="T", help="Time between two updates.")] = "1s",
    once: Annotated[bool, Option("--once", help="Show it once and exit.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Watch nodes and jobs; the last line shows the keys, q or Ctrl-C leaves. Away from a terminal it is shown once."""
    pause_s = duration_s("--every", every)
    if pause_s < 0.1:
        raise InputError(f"--every {every} is too often", "", "give 0.1s or more")
    with asking(server) as client:
        if as_json:
            show_json(_look(client))
        elif once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            from rich.console import Console

            console = Console()
            if not console.is_terminal:
                console = Console(width=140)
            console.print(_frame(_look(client), time.time(), (console.width, 1000)))
        else:
            _watch(client, pause_s)


def _watch(client: Client, pause_s: float) -> None:
    """Draw until q is pressed; a key takes effect at once, without a new query to the scheduler."""
    from rich.live import Live

    from cohabit.cli import interrupts

    choice = Choice()
    with _keys() as key, Live(screen=True, auto_refresh=False) as live:
        try:
            while not choice.left and not interrupts.seen():  # a library may have swallowed Ctrl-C
                seen, until = _look(client), time.monotonic() + pause_s
                while not choice.left and not interrupts.seen():
                    live.update(_screen(seen, time.time(), live.console.size, choice), refresh=True)
                    left_s = until - time.monotonic()
                    if left_s <= 0 and not choice.paused:
                        break
                    for one in key(max(left_s, 0.0) if not choice.paused else pause_s):
                        choice = pressed(one, choice)
        except KeyboardInterrupt:
            return


@contextmanager
def _keys() -> Iterator[Callable[[float], list[str]]]:
    """Read keys without Enter and without echo; the terminal is restored afterwards.

    They are read from the descriptor itself: waiting does not see what a buffer has already read.
    """
    import codecs
    import os
    import select
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def pressed(patience_s: float) -> list[str]:
        ready, _, _ = select.select([descriptor], [], [], patience_s)
        content = os.read(descriptor, 1024) if ready else b""
        if ready and not content:
            return [LEAVE[0]]  # the terminal is gone
        return keys_in(decoder.decode(content))

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _look(client: Client) -> dict[str, Any]:
    """Return all data of one frame."""
    jobs, more = client.jobs()
    ended, _ = client.jobs("finished", most=MOST_ENDED)
    return {
        "server": client.address,
        **client.ping(),
        "nodes": client.nodes(),
        "jobs": jobs,
        "more": more,
        "ended": ended,
    }


def _screen(seen: dict[str, Any], now: float, size: tuple[int, int], choice: Choice) -> Any:
    """Return the frame, with a line of keys at the bottom of the screen."""
    from rich.layout import Layout
    from rich.text import Text

    frame = _frame(seen, now, size, choice)
    if not choice.keys:
        return frame
    screen = Layout()
    screen.split_column(Layout(frame), Layout(Text(keys_line(size[0]), style="reverse", no_wrap=True), size=1))
    return screen


def _frame(seen: dict[str, Any], now: float, size: tuple[int, int], choice: Choice | None = None) -> Group:
    """Return a headline, nodes with bars, then jobs: running, waiting, the last that ended; or as chosen.

    `size`: columns and lines of the screen.
    """
    from rich.console import Group
    from rich.text import Text

    width, height = size
    nodes, jobs = seen["nodes"], seen["jobs"]
    running = [job for job in jobs if job["state"] in ("running", "starting")]
    waiting = sorted((job for job in jobs if job["state"] not in ("running", "starting")), key=place_of)
    cores, used = sum(node["cores"] for node in nodes), sum(node["used_cores"] for node in nodes)
    counts = f"{len(running):,} running, {len(waiting):,} waiting, {used} of {counted(cores, 'core')} in use"
    headline = Text(f"cohabit {seen['version']}", style="bold")
    clock = f"  {moment(now, now)}"
    fits = len(headline) + len(clock) + len(counts) + 2 <= width
    headline.append((clock if fits else "") + "  " + counts, style="not bold")
    parts: list[Any] = [headline]
    if choice is not None and choice.line():
        parts.append(Text(choice.line(), style="reverse"))
    shown_nodes = nodes[:MOST_NODES] if choice is None or choice.nodes else []
    room = max(height - len(shown_nodes) - 12, 6)
    if shown_nodes:
        parts.append(_node_table(shown_nodes, width))
        if len(nodes) > MOST_NODES:
            parts.append(Text(f"  and {len(nodes) - MOST_NODES} more nodes", style="dim"))
    if choice is not None and choice != Choice(nodes=choice.nodes, paused=choice.paused, keys=choice.keys):
        return Group(*parts, _job_table(choice.shown(jobs, now)[:room], now, width))
    ran = running[: max(room - min(len(waiting), room // 2), 1)]
    parts.append(_job_table([*ran, *folded(waiting)[: max(room - len(ran), 1)], *seen["ended"]], now, width))
    return Group(*parts)


def _node_table(nodes: list[dict[str, Any]], width: int) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table, bars = Table(box=box.SIMPLE_HEAD), width >= WIDE
    for name in ("node", "state", "cores in use", *[""] * bars):
        table.add_column(name, no_wrap=True)
    table.add_column("jobs")
    for node in nodes:
        filled = round(BAR * node["used_cores"] / max(node["cores"], 1))
        bar = Text("█" * filled + "·" * (BAR - filled), style="green" if node["state"] != "down" else "red")
        use = f"{node['used_cores']} of {node['cores']}"
        table.add_row(called(node), node["state"], use, *[bar] * bars, Text(jobs_text(node["jobs"])))
    return table


def _job_table(jobs: list[dict[str, Any]], now: float, width: int) -> Text:
    """Return one line per job; `why` is cut to fit, other columns are shown uncut or not at all."""
    from rich.text import Text

    rows = [row_of(job, now) for job in jobs]
    if not rows:
        rows = [[*["-"] * (len(COLUMNS) - 1), "no jobs yet: cohabit submit -- sleep 60"]]
    *others, why = columns_that_fit(rows, width, LEAST_WHY)
    sizes = [max(map(cell_width, [COLUMNS[at], *(row[at] for row in rows)])) for at in others]
    room = width - table_width([*sizes, 0])
    shown = others if room < LEAST_PROSE // 2 else [*others, why]
    cells = [[shortened(row[at], room) if at == why else row[at] for at in shown] for row in rows]
    lines = [Text(line, no_wrap=True) for line in table_lines([COLUMNS[at] for at in shown], cells, max(width, 1000))]
    styles = {"running": "green", "failed": "red", "killed": "red", "lost": "red"}
    lines[1].stylize("bold")
    for line, job in zip(lines[3:], jobs, strict=False):
        line.stylize("dim" if job["ended_at"] is not None else styles.get(job["state"], ""))
    return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
