"""`cohabit telemetry`: the machine's counters; collect, show and import windows of them."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, progress, show_json, show_result, table
from cohabit.cli.declaring import Argument, Option, add_group, verb
from cohabit.cli.job_words import counted
from cohabit.cli.options import AsJson, check_not_both
from cohabit.model.errors import InputError, unknown

BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
COURSE = 24  # windows drawn beside each counter

Out = Annotated[Path, Option("--out", metavar="FOLDER", help="The store; made where there is none.")]
Keep = Annotated[str, Option(metavar="TIME", help="How much recorded time the store keeps.")]


def register(app: typer.Typer) -> None:
    """Add the verb and what it can do."""
    add_group(
        app,
        "telemetry",
        "Counters of the machine over time.",
        "Collect, show and import windows of the machine's counters (all with --json).",
        "cohabit telemetry collect --out telemetry --interval 10s --duration 30m",
        "cohabit telemetry collect --out telemetry --prometheus http://localhost:9090",
        "cohabit telemetry show telemetry --last 2h",
        "cohabit telemetry show telemetry --counter disk.write_bytes --json",
        "cohabit telemetry import ldms lustre2_client.csv --out telemetry",
        "cohabit telemetry import prometheus http://localhost:9090 --out telemetry --last 6h",
        verbs=(collect, show, import_),
    )


@verb("collect", "", "cohabit telemetry collect --out telemetry --interval 10s --duration 30m")
def collect(
    out: Out,
    interval: Annotated[str, Option(metavar="TIME", help="Time between two samples.")] = "10s",
    duration: Annotated[str | None, Option(metavar="TIME", help="Stop after this; default: at Ctrl-C.")] = None,
    window: Annotated[str, Option(metavar="TIME", help="Length of a window, a multiple of 30 s.")] = "5m",
    keep: Keep = "7d",
    node: Annotated[str | None, Option(metavar="NAME", help="This node's name; the host name otherwise.")] = None,
    prometheus: Annotated[
        str | None, Option(metavar="URL", help="Ask this server about all its nodes instead of sampling here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sample the counters of this node (or ask a Prometheus server) and keep their minimum, maximum and mean.

    InfiniBand, Omni-Path, Lustre, network and disk devices, pressure and load; what is not there is named and left out.
    Stopped by Ctrl-C, everything collected so far is kept.
    """
    from cohabit.app.measure import telemetry

    plan = telemetry.Plan(
        out,
        telemetry.duration_of("--interval", interval),
        None if duration is None else telemetry.duration_of("--duration", duration),
        telemetry.duration_of("--window", window),
        telemetry.duration_of("--keep", keep),
    )
    if node is not None:
        if prometheus is not None or not node.strip():
            raise InputError("--node names this node, and no other", "", "leave it out with --prometheus")
        plan.node = node
    with progress("sampling") as advance:
        if prometheus is None:
            document = telemetry.collect_here(plan, note, advance)
        else:
            document = telemetry.collect_from_prometheus(plan, prometheus, note, advance)
    show_result(document, as_json, partial(_show_added, "collected"))
    if not document["complete"]:
        note(f"stopped: {counted(document['windows'], 'window')} kept in {out}")
        sys.exit(130)


@verb("show", "", "cohabit telemetry show telemetry --last 2h --counter disk")
def show(
    store: Annotated[Path, Argument("FOLDER", "The store.")],
    last: Annotated[str | None, Option(metavar="TIME", help="This long before --until; default an hour.")] = None,
    since: Annotated[str | None, Option(metavar="WHEN", help="2026-01-31T12:00; UTC unless a zone is given.")] = None,
    until: Annotated[str | None, Option(metavar="WHEN", help="Default: the newest window.")] = None,
    node: Annotated[list[str] | None, Option(metavar="NAME", help="Only this node; may be repeated.")] = None,
    counter: Annotated[list[str] | None, Option(metavar="NAME", help="disk, disk.reads, ...; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show windows of a store over all nodes or some: one line per counter, or per window if there is one counter."""
    from cohabit.app.measure import telemetry

    check_not_both("--last", "--since", last is not None and since is not None)
    document = telemetry.shown(
        store,
        None if since is None else _moment("--since", since),
        telemetry.duration_of("--last", last or "1h"),
        None if until is None else _moment("--until", until),
        node or [],
        counter or [],
        time.time_ns() // 1000,
    )
    for text in document["notes"]:
        note(text)
    if as_json:
        show_json(document)
        return
    if not document["windows"]:
        note(f"{store} has no such windows ({document['stale'] or 'the newest is good to gate on'})")
        return
    _show_windows(document)


@verb("import", "", "cohabit telemetry import ldms lustre2_client.csv --out telemetry")
def import_(
    kind: Annotated[str, Argument("ldms|prometheus", "Whose telemetry it is.")],
    place: Annotated[str, Argument("FILE|URL", "A store_csv file (also .gz, .xz), or a server.")],
    out: Out,
    source: Annotated[
        str | None, Option(metavar="NAME", help="ldms: sysclassib, opa_info, lustre2_client, ... if ambiguous.")
    ] = None,
    last: Annotated[str, Option(metavar="TIME", help="prometheus: this long up to --until.")] = "1h",
    until: Annotated[str | None, Option(metavar="WHEN", help="prometheus: end; default now.")] = None,
    step: Annotated[str, Option(metavar="TIME", help="prometheus: between two samples.")] = "60s",
    keep: Keep = "7d",
    as_json: AsJson = False,
) -> None:
    """Read what another system recorded, reduce it to windows and add them to a store."""
    from cohabit.app.measure import telemetry

    keep_us = telemetry.duration_of("--keep", keep)
    if kind == "ldms":
        document = telemetry.import_ldms(Path(place), out, source, keep_us)
    elif kind == "prometheus":
        end_us = time.time_ns() // 1000 if until is None else _moment("--until", until)
        begin_us = end_us - telemetry.duration_of("--last", last)
        step_us = telemetry.duration_of("--step", step)
        _check_step(step_us, end_us - begin_us)
        document = telemetry.import_prometheus(place, out, begin_us, end_us, step_us, keep_us)
    else:
        raise unknown("telemetry", kind, ["ldms", "prometheus"])
    if as_json:
        show_json(document)
    if document.get("problem"):
        note(str(document["problem"]))
        raise typer.Exit(1)
    if not as_json:
        _show_added("imported", document)


def _check_step(step_us: int, span_us: int) -> None:
    from cohabit.model.telemetry import WINDOW_US

    if not 0 < step_us <= WINDOW_US:
        raise InputError("--step is not above 0 and at most 5m", "", "60s is usual")
    if span_us < step_us:
        raise InputError("--last is shorter than --step", "", "ask for at least one sample")


def _moment(option: str, text: str) -> int:
    from datetime import UTC, datetime

    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text!r} is not a time", "", "write 2026-01-31T12:00") from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1e6)


def _show_added(done: str, document: dict[str, Any]) -> None:
    for text in document["notes"]:
        note(text)
    for what, count in document["defects"].items():
        note(f"{count:,} {what}")
    if document.get("columns_left_out"):
        names = document["columns_left_out"]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        note(f"columns that are no counter of that source: {', '.join(names[:5])}{more}")
    if document.get("stale"):
        note(document["stale"])
    windows, nodes = counted(document["windows"], "window"), counted(len(document["nodes"]), "node")
    typer.echo(
        f"{done} {windows} of {len(document['counters'])} counters from {nodes} "
        f"({document['samples']:,} samples) into {document['store']}"
    )


def _show_windows(document: dict[str, Any]) -> None:
    rows, nodes = document["windows"], document["nodes"]
    title = f"{counted(len(rows), 'window')} of {counted(len(nodes), 'node')}, up to {_when(rows[-1]['end_s'])}"
    if len(document["counters"]) == 1:
        ((name, summary),) = document["counters"].items()
        cells = []
        for row in rows:
            if found := row["features"].get(name):
                numbers = [_number(found[stat]) for stat in ("min", "mean", "max")]
                cells.append([_when(row["end_s"]), str(row["nodes"]), *numbers])
        table(f"{name} ({summary['unit']}): {title}", ["window ended", "nodes", "lowest", "mean", "highest"], cells)
    else:
        cells = []
        for name, one in document["counters"].items():
            numbers = [_number(one[key]) for key in ("min", "mean", "max", "newest_mean")]
            cells.append([name, one["unit"], *numbers, _course(name, rows)])
        table(title, ["counter", "unit", "lowest", "mean", "highest", "newest", "course"], cells)
    typer.echo(document["stale"] or "fresh: the newest window is good to gate on")


def _course(name: str, rows: list[dict[str, Any]]) -> str:
    """Draw the means of the last windows as a line of bars, from the lowest to the highest of them."""
    means = [row["features"][name]["mean"] for row in rows[-COURSE:] if name in row["features"]]
    low, high = min(means), max(means)
    bars = BARS if (sys.stdout.encoding or "").lower().startswith("utf") else PLAIN_BARS
    return "".join(bars[round((mean - low) / (high - low) * 7) if high > low else 0] for mean in means)


def _when(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
