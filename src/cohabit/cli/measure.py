"""`cohabit measure`: real programs alone and beside each other, on a timetable, and canaries of the network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, progress, show_json, show_result, table
from cohabit.cli.declaring import Argument, Option, add_group, verb
from cohabit.cli.options import AsJson, words_of
from cohabit.model.errors import InputError

PAIRS = (
    "cohabit measure pairs programs.toml --out pairs.csv",
    "cohabit measure pairs programs.toml --out pairs.csv --repeats 5 --json",
)


def register(app: typer.Typer) -> None:
    """Add the verb and what it can do."""
    about = "Measure real programs on this machine (with --json)."
    short = "Run real programs alone and together."
    add_group(app, "measure", short, about, *PAIRS, verbs=(pairs, runs, canary, capacity))


@verb("pairs", "", *PAIRS)
def pairs(
    programs: Annotated[Path, Argument("PROGRAMS.toml", "The programs and how they share cores.")],
    out: Annotated[Path, Option(metavar="DATA.csv", help="The data set; DATA.csv.meta.json is written beside it.")],
    repeats: Annotated[
        int | None, Option(min=1, help="Runs of each program alone; otherwise the file's, or 3.")
    ] = None,
    pair_repeats: Annotated[int | None, Option(min=1, help="Runs of each pair; otherwise the file's, or 1.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run every program alone and beside every other, and write by how much each slows down.

    Stopped in the middle, the same call goes on after the last finished run.
    """
    import tempfile

    import msgspec

    from cohabit.app.measure import measuring
    from cohabit.app.measure.programs import read_plan

    plan = read_plan(programs)
    changes = {"repeats": repeats, "pair_repeats": pair_repeats}
    plan = msgspec.structs.replace(plan, **{key: value for key, value in changes.items() if value is not None})
    with tempfile.TemporaryDirectory(prefix="cohabit-measure-") as folder:
        job = measuring.prepare(plan, out, Path(folder))
        load = measuring.busy_load()
        try:
            measuring.warm_up(job)
            if load is not None:
                note(f"the machine is busy (other work keeps {load:.1f} cores busy): times will be noisy")
            _say_plan(job)
            with progress("measuring") as advance:
                measuring.measure(job, advance)
            document = measuring.finish(job)
        except KeyboardInterrupt:
            document = measuring.so_far(job)
            kept = f"are finished and kept in {document['progress']}" if document["runs"] else "is finished"
            note(f"stopped: {document['runs']} of {document['of']} runs {kept}; the same command continues")
            if as_json:
                show_json(document)
            sys.exit(130)
        finally:
            job.progress.close()
    show_result(document, as_json, _show)
    _complain(document)


def _say_plan(job: Any) -> None:
    keys = job.runs()
    done = sum(key in job.progress.done for key in keys)
    alone = sum(key[0] != "pair" for key in keys)
    going_on = f", {done} of them finished earlier" if done else ""
    note(f"{alone} runs alone and {len(keys) - alone} in pairs{going_on}")


def _show(document: dict[str, Any]) -> None:
    names = list(document["solo_s"])
    rows = []
    for name in names:
        noise = document["noise_percent"][name]
        slower = document["degradation_percent"][name]
        cells = [f"{slower[other]:.1f} %" if other in slower else "failed" for other in names]
        low, high = document["solo_range_s"][name]
        rows.append(
            [
                name,
                f"{document['solo_s'][name]:.2f} s ({low:.2f} to {high:.2f})",
                "-" if noise is None else f"{noise:.1f} %",
                *cells,
            ]
        )
    table("slower beside", ["program", "alone (median, range)", "noise", *names], rows)
    typer.echo(
        f"wrote {document['rows']} pairs to {document['out']}, columns and machine to {document['out']}.meta.json"
    )


def _complain(document: dict[str, Any]) -> None:
    """Print errors and warnings on stderr; failed pairs are status 1."""
    for name in document["noisy"]:
        note(f"alone, {name} varies by {document['noise_percent'][name]:.1f} % between runs, more than 5 %")
    for one in document["failed"]:
        note(f"not measured: {one['reason']}")
    if document["failed"]:
        note("the same command tries the missing pairs again")
        raise typer.Exit(1)


@verb(
    "runs",
    "",
    "cohabit measure runs programs.toml --out runs.csv",
    "cohabit measure runs programs.toml --telemetry telemetry --out runs.csv --json",
)
def runs(
    programs: Annotated[Path, Argument("PROGRAMS.toml", "The programs and their timetable.")],
    out: Annotated[Path, Option(metavar="DATA.csv", help="The data set; new runs are added to it.")],
    telemetry: Annotated[
        Path | None, Option(metavar="FOLDER", help="A store of cohabit telemetry; otherwise this node is sampled.")
    ] = None,
    repeats: Annotated[int | None, Option(min=1, help="Rounds; otherwise the file's, or 10.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run programs again and again on a timetable, and keep each run time with what the counters said before it.

    Stopped in the middle, the same call goes on with the runs that are missing.
    """
    import contextlib
    from functools import partial

    import msgspec

    from cohabit.app.measure import runs as measuring_runs
    from cohabit.app.measure.runs_plan import read_runs_plan
    from cohabit.app.measure.runs_window import SampledHere
    from cohabit.model.units import microseconds
    from cohabit.store.telemetry import TelemetryStore

    plan = read_runs_plan(programs)
    if repeats is not None:
        plan = msgspec.structs.replace(plan, repeats=repeats)
    table = measuring_runs.Table.at(out)
    span_us = microseconds(plan.window_s)
    stopped = False
    with contextlib.ExitStack() as stack:
        if telemetry is None:
            keep_us = 2 * span_us + microseconds(plan.limit_s)
            window_before = stack.enter_context(SampledHere(span_us, note, keep_us)).before
        else:
            window_before = partial(TelemetryStore(telemetry).before, span_us=span_us)
        job = stack.enter_context(measuring_runs.campaign(plan, table, window_before, note))
        note(f"{len(job.due())} of {plan.repeats * len(plan.program)} runs to do")
        if plan.interval_s < plan.window_s:
            note(
                f"a window of {plan.window_s:g} s holds earlier runs (interval_s = {plan.interval_s:g}), and models"
                " learn what those leave in the counters, not only what slows a run: docs/variability.md"
            )
        try:
            with progress("running") as advance:
                measuring_runs.collect(job, advance)
        except KeyboardInterrupt:
            stopped = True
        document = measuring_runs.account(job)
    text = f"{document['rows']} runs with {document['features']} features in {document['out']}"
    show_result(document, as_json, text)
    if stopped:
        note(f"stopped: {document['runs']} of {document['of']} runs are in {out}; the same command continues")
        sys.exit(130)
    if not document["complete"]:
        note("the same command tries the missing runs again")
        raise typer.Exit(1)


@verb(
    "canary",
    "",
    "cohabit measure canary --ranks 4",
    'cohabit measure canary --ranks 16 --size 100 --launcher "srun --mpi=pmix" --json',
)
def canary(
    ranks: Annotated[int, Option(help="MPI processes, at least 2.")] = 2,
    size: Annotated[float, Option(metavar="MB", help="Size of the token and of the data to reduce.")] = 100.0,
    ring: Annotated[int, Option(help="Rounds of the token.")] = 10,
    allreduce: Annotated[int, Option(help="All-reduce calls.")] = 5,
    launcher: Annotated[str, Option(help="Command that starts MPI programs, with options.")] = "mpirun",
    as_json: AsJson = False,
) -> None:
    """Feel how congested the network is: a token around a ring of MPI ranks, then an all-reduce.

    Gives the nine canary features of RUSH (waits in send, receive and all-reduce) and what they cost.
    """
    from cohabit.agent.canary.running import Canary, send_canary
    from cohabit.model.telemetry import CANARY_TIMES, STATS

    sung = send_canary(Canary(ranks, size, ring, allreduce, words_of("--launcher", launcher)))
    if as_json:
        show_json(
            {"ranks": sung.ranks, "features": dict(sung.features), "cost_s": sung.cost_s, "inside_s": sung.inside_s}
        )
        return
    rows = [
        [name.removeprefix("canary.").removesuffix("_wait_s")]
        + [f"{1e3 * sung.features[f'{name}.{stat}']:.3f} ms" for stat in STATS]
        for name in CANARY_TIMES
    ]
    table(f"waits per call over {sung.ranks} ranks", ["call", *STATS], rows)
    typer.echo(f"cost: {sung.cost_s:.2f} s, of which {sung.inside_s:.2f} s inside MPI")


@verb("capacity", "", "cohabit measure capacity", "cohabit measure capacity --seconds 5 --size 512 --json")
def capacity(
    seconds: Annotated[float, Option(help="How long each number of cores streams.")] = 2.0,
    size: Annotated[
        float, Option(metavar="MB", help="Size of the vectors on each core; well above the cache.")
    ] = 256.0,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Where capacities of machines are kept; beside the user's profiles otherwise."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure what this machine's cores can draw from memory, by how many are active, and keep it.

    The table is what `bandwidth_gbs` of a cluster and of a site file wants.
    """
    from cohabit.agent.profiling.capacity import measure_capacity
    from cohabit.agent.topology import allowed_cores
    from cohabit.app.measure import capacity as keeping
    from cohabit.app.measure.measuring import busy_load
    from cohabit.exercise.catalogue import MOST_MB

    if not 0 < seconds <= 600:
        raise InputError(f"--seconds {seconds:g} is too short or too long", "", "give a number above 0, at most 600")
    if not 0 < size <= MOST_MB:
        raise InputError(f"--size {size:g} is out of range", "", f"give megabytes, above 0 and at most {MOST_MB:,}")
    path = out or keeping.usual_path()
    keeping.read_capacities(path)  # refuse an unusable file before anything runs
    load = busy_load()
    if load is not None:
        note(f"the machine is busy (other work keeps {load:.1f} cores busy): the measured capacity will be too small")
    with progress("streaming") as advance:
        points = measure_capacity(allowed_cores(), seconds, size, advance)
    document = keeping.keep_capacity(points, size, path)
    if as_json:
        show_json(document)
        return
    rows = [[cores, f"{gbs:.2f}"] for cores, gbs in document["bandwidth_gbs"].items()]
    table(document["hardware"], ["active cores", "GB/s"], rows)
    pairs = ", ".join(f"{cores} = {gbs:g}" for cores, gbs in document["bandwidth_gbs"].items())
    typer.echo(f"kept in {document['file']}; for a scenario: bandwidth_gbs = {{ {pairs} }}")
