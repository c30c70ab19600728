"""`cohabit measure`: real programs on this machine, alone and beside each other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

EXAMPLES = """\b
Examples:
  cohabit measure pairs programs.toml --out pairs.csv
  cohabit measure pairs programs.toml --out pairs.csv --repeats 5 --json"""


def register(app: typer.Typer) -> None:
    """Add the verb and what it can do."""
    verbs = typer.Typer(
        name="measure", short_help="Run real programs alone and together.", epilog=EXAMPLES, no_args_is_help=True,
        rich_markup_mode=None, help="Measure real programs on this machine (with --json).",
    )  # fmt: skip
    verbs.callback()(_measure)  # without it, typer would take the one command for the verb itself
    verbs.command(name="pairs", epilog=EXAMPLES)(pairs)
    app.add_typer(verbs)


def _measure() -> None:
    """Measure real programs on this machine (with --json)."""


def pairs(
    programs: Annotated[Path, typer.Argument(metavar="PROGRAMS.toml", help="The programs and how they share cores.")],
    out: Annotated[
        Path, typer.Option(metavar="DATA.csv", help="The data set; DATA.csv.meta.json is written beside it.")
    ],
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs of each program alone; otherwise the file's, or 3.")
    ] = None,
    pair_repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs of each pair; otherwise the file's, or 1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run every program alone and beside every other, and write by how much each slows down.

    Stopped in the middle, the same call goes on after the last finished run.
    """
    import tempfile

    import msgspec

    from cohabit.app import measuring
    from cohabit.app.measuring_programs import read_plan
    from cohabit.cli.console import note, progress, show_json

    plan = read_plan(programs)
    changes = {"repeats": repeats, "pair_repeats": pair_repeats}
    plan = msgspec.structs.replace(plan, **{key: value for key, value in changes.items() if value is not None})
    with tempfile.TemporaryDirectory(prefix="cohabit-measure-") as folder:
        job = measuring.prepare(plan, out, Path(folder))
        load = measuring.busy_load()
        try:
            measuring.warm_up(job)
            if load is not None:
                note(f"the machine is busy (load {load:.1f}): times will be noisy")
            _say_plan(job)
            with progress("measuring") as advance:
                measuring.measure(job, advance)
            document = measuring.finish(job)
        except KeyboardInterrupt:
            document = measuring.so_far(job)
            kept = f"are finished and kept in {document['progress']}" if document["runs"] else "is finished"
            note(f"stopped: {document['runs']} of {document['of']} runs {kept}; the same call goes on from there")
            if as_json:
                show_json(document)
            sys.exit(130)
        finally:
            job.progress.close()
    if as_json:
        show_json(document)
    else:
        _show(document)
    _complain(document)


def _say_plan(job: Any) -> None:
    from cohabit.cli.console import note

    keys = job.runs()
    done = sum(key in job.progress.done for key in keys)
    alone = sum(key[0] != "pair" for key in keys)
    going_on = f", {done} of them finished earlier" if done else ""
    note(f"{alone} runs alone and {len(keys) - alone} in pairs{going_on}")


def _show(document: dict[str, Any]) -> None:
    from cohabit.cli.console import table

    names = list(document["solo_s"])
    rows = []
    for name in names:
        noise = document["noise_percent"][name]
        slower = document["degradation_percent"][name]
        cells = [f"{slower[other]:.1f} %" if other in slower else "failed" for other in names]
        rows.append([name, f"{document['solo_s'][name]:.2f} s", "-" if noise is None else f"{noise:.1f} %", *cells])
    table("slower beside", ["program", "alone", "noise", *names], rows)
    typer.echo(
        f"wrote {document['rows']} pairs to {document['out']}, columns and machine to {document['out']}.meta.json"
    )


def _complain(document: dict[str, Any]) -> None:
    """What went wrong, or may have, on stderr; failed pairs are status 1."""
    from cohabit.cli.console import note

    for name in document["noisy"]:
        note(f"alone, {name} varies by {document['noise_percent'][name]:.1f} % between runs, more than 5 %")
    for one in document["failed"]:
        note(f"not measured: {one['reason']}")
    if document["failed"]:
        note("the same call tries the missing pairs again")
        raise typer.Exit(1)
