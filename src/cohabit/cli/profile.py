"""`cohabit profile`: run a real program alone under sensors and keep the measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, show_result, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson, Store, words_of
from cohabit.model.errors import InputError


@verb(
    "profile",
    "Run a real program alone and keep what was measured.",
    "cohabit profile -- ./solver input.dat",
    "cohabit profile -n 2 --program solver --repeats 3 -- ./solver --threads 2 input.dat",
    'cohabit profile --curve valgrind --sample "./solver tiny.dat" -- ./solver input.dat',
    "cohabit profiles show solver",
    context_settings={"allow_interspersed_args": False},
)
def profile(
    command: Annotated[list[str], Argument("-- COMMAND...", "The program and its arguments.")],
    processes: Annotated[int, Option("-n", help="Number of processes, with one core each.")] = 1,
    program: Annotated[str, Option(metavar="NAME", help="Its name; default: the file's name.")] = "",
    repeats: Annotated[int, Option(min=1, help="Runs to measure the time.")] = 1,
    curve: Annotated[
        str,
        Option(
            metavar="HOW",
            help="IPC and bandwidth by cache ways: auto (resctrl where it is), resctrl, valgrind (an estimate), none.",
        ),
    ] = "auto",
    sample: Annotated[str, Option(metavar="TEXT", help="A shorter run of it, for valgrind.")] = "",
    limit: Annotated[float, Option(metavar="SECONDS", help="Stop a run after this.")] = 3600.0,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Run a program with this machine to itself: its time, what the sensors count, and its curves where it can be.

    Measured again, runs are averaged; a program that has changed starts its profile afresh. The profile is the user's
    own; what root measures is shared by all users.
    """
    import tempfile

    from cohabit.app.measure import profiling
    from cohabit.app.measure.capacity import known_capacity
    from cohabit.app.measure.measuring import busy_load
    from cohabit.store.learning import keep
    from cohabit.store.profiles import open_store

    if curve not in profiling.CURVES:
        raise InputError(f"there are no curves by {curve!r}", "--curve", f"use one of {', '.join(profiling.CURVES)}")
    if sample and curve != "valgrind":
        raise InputError("--sample is for --curve valgrind", "", "leave it out")
    if not limit > 0:
        raise InputError(f"--limit {limit:g} is no time", "", "give seconds above 0")
    settings = profiling.Settings(
        command=tuple(command),
        program=program.strip() or Path(command[0]).name,
        processes=processes,
        repeats=repeats,
        curve=curve,
        limit_s=limit,
        sample=words_of("--sample", sample),
        capacity=known_capacity(),
        owner=profiling.default_owner(),
    )
    profiling.check(settings)
    load = busy_load()
    if load is not None:
        busy = f"the machine is busy (other work keeps {load:.1f} cores busy)"
        note(f"{busy}: what is measured beside other work is not the program's own")
    with open_store(store) as kept, tempfile.TemporaryDirectory(prefix="cohabit-profile-") as folder:
        found = profiling.profile(settings, Path(folder), note)
        known, why = keep(kept, found)
        document = profiling.account(known, found, why, kept.where)
    if why:
        note(f"{found.program} has changed ({why}): its profile starts again")
    if estimate := profiling.estimate_note(found):
        note(estimate)
    show_result(document, as_json, _show)


def _show(document: dict[str, Any]) -> None:
    n = document["processes"]
    typer.echo(
        f"{document['program']} with {n} process{'' if n == 1 else 'es'}: {document['time_s']:.3f} s alone"
        f" (mean of {document['runs']}: {document['mean_time_s']:.3f} s)"
    )
    shown = {name: curve for name, curve in document["curves"].items() if curve}
    if shown:
        ways = sorted({int(one) for curve in shown.values() for one in curve})
        rows = [
            [str(one), *(f"{curve[str(one)]:.3f}" if str(one) in curve else "-" for curve in shown.values())]
            for one in ways
        ]
        table(
            "by cache ways" + (" (estimated)" if document["provenance"] == "estimated" else ""), ["ways", *shown], rows
        )
    if document["counters"]:
        cells = [[name.removesuffix("_mean"), f"{value:,.4g}"] for name, value in document["counters"].items()]
        table("", ["counter", "mean"], cells)
    typer.echo(f"kept in {document['store']}; cohabit profiles show {document['program']}")
