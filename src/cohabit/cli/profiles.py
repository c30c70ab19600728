"""`cohabit profiles`: what is known of programs; list, show, history, import, export, share and forget.

Where a controller answers, its store is meant, and it is asked for it; `--store` names another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.console import note, show_json, show_result, table, table_of
from cohabit.cli.declaring import Argument, Option, add_group, verb
from cohabit.cli.job_words import counted
from cohabit.cli.neighbours import show_neighbours
from cohabit.cli.options import AsJson, Server, Store, asking, check_not_both, instant_s
from cohabit.cli.plot import draw
from cohabit.model.errors import InputError, unknown

if TYPE_CHECKING:
    from cohabit.app.measure.profiles import Described
    from cohabit.store.profiles import ProfileStore

ELSEWHERE = (
    "no controller was asked; each keeps what it learns in its own store: --server PLACE asks the one of a place, "
    "--store PLACE/private/profiles.db reads it"
)
SIDE_BY_SIDE = 116  # columns that two plots need

Catalogue = Annotated[str | None, Option("--catalogue", metavar="NAME", help="Instead of the store: sns12.")]
File = Annotated[
    Path | None, Option("--file", metavar="FILE", help="Instead of the store: programs.json, curves.csv or an export.")
]
Cores = Annotated[int, Option("--cores", help="Cores of a node, where the source does not say.")]
Ways = Annotated[int, Option("--ways", help="Cache ways of a node, where the source does not say.")]
Model = Annotated[str | None, Option("--model", metavar="MODEL", help="Predict with this model, without a controller.")]
Owner = Annotated[str | None, Option("--owner", metavar="USER", help="Owner: a user (name or number), or `shared`.")]


def register(app: typer.Typer) -> None:
    """Add the verb and what it can do."""
    add_group(
        app,
        "profiles",
        "What is known of programs.",
        "List, show, import, export, share and forget what was measured, with its history (all with --json).",
        "cohabit profiles list --catalogue sns12",
        "cohabit profiles show MG --catalogue sns12 --alpha 0.9",
        "cohabit profiles import programs.json",
        "cohabit profiles show MG",
        "cohabit profiles show MG --store profiles.db --model model",
        "cohabit profiles export profiles.json",
        "cohabit profiles share MG --from ann",
        "cohabit profiles forget MG --since 2h",
        verbs=(list_all, show, history, import_, export, share, forget),
    )


@verb("list", "", "cohabit profiles list --catalogue sns12")
def list_all(
    catalogue: Catalogue = None,
    file: File = None,
    store: Store = None,
    server: Server = None,
    cores: Cores = 0,
    ways: Ways = 0,
    as_json: AsJson = False,
) -> None:
    """List programs with their class: of the store, a catalogue or a file."""
    from cohabit.app.measure.profiles import summary_of

    found, where = _found(catalogue, file, store, server, cores, ways)
    rows = [summary_of(one) for one in found]
    if as_json:
        show_json({"source": where, "profiles": rows})
        return
    if not rows:
        note(f"{where} has no profiles yet; add some: cohabit profiles import programs.json")
        if where == _default():
            note(ELSEWHERE)
        return
    records = [
        {
            "program": row["program"],
            "owner": row["owner_name"],
            "processes": str(row["processes"]),
            "class": row["class"],
            "ideal scale": str(row["ideal_scale"]),
            "held by": row["constraint"] or "-",
            "scales": ",".join(map(str, row["scales"])) or "-",
            "runs": str(row["samples"]),
            "age": _age(row["measured_at_us"]),
            "from": row["provenance"],
            "hardware": row["hardware"] or "-",
        }
        for row in rows
    ]
    table_of(f"{counted(len(rows), 'profile')} in {where}", records)


@verb("show", "", "cohabit profiles show MG --catalogue sns12 --alpha 0.9")
def show(
    program: Annotated[str, Argument("PROGRAM", "Its name, as in the list.")],
    catalogue: Catalogue = None,
    file: File = None,
    store: Store = None,
    alpha: Annotated[float, Option(help="Share of its speed that a job must keep.")] = 0.9,
    scale: Annotated[int, Option(help="The scale whose curves and steps are shown.")] = 1,
    processes: Annotated[int | None, Option(help="Estimate for this number of processes.")] = None,
    owner: Owner = None,
    model: Model = None,
    server: Server = None,
    cores: Cores = 0,
    ways: Ways = 0,
    as_json: AsJson = False,
) -> None:
    """Show one program: its curves, its class and why, what it needs to keep alpha of its speed, and its co-runs.

    Of several owners, the caller's own profile is shown, else the shared one. Co-runs of a store are shown beside what
    a model says of the program by its counters alone, and after them.
    """
    from cohabit.app.measure.neighbours import neighbours_in
    from cohabit.app.measure.profiles import account_of, best_of

    if not 0 < alpha <= 1:
        raise InputError(f"--alpha {alpha:g} is not above 0 and at most 1", "", "0.9 keeps 90 % of the speed")
    if processes is not None and processes < 1:
        raise InputError(f"--processes {processes} is not a positive number", "", "give a whole number from 1 up")
    found, where = _found(catalogue, file, store, server, cores, ways)
    one = best_of(found, program, _owner(owner))
    if one is None and owner and any(each.profile.program == program for each in found):
        raise _has_none(owner, program, where)
    if one is None:
        if not found:
            raise InputError(f"{where} has no profiles", "", "add some: cohabit profiles import programs.json")
        raise unknown("program", program, sorted({each.profile.program for each in found}))
    if one.profile.at_scale(scale) is None and one.profile.scales:
        known = ", ".join(str(each.scale) for each in one.profile.scales)
        raise InputError(f"{program} has not been profiled at scale {scale}", where, f"known scales: {known}")
    account = account_of(one, alpha, processes)
    if not catalogue and not file:
        with asking(server) as client:
            account |= {"neighbours": neighbours_in(client, store, one.profile, model, named=_named(server))}
    elif model:
        raise InputError("--model judges the co-runs of a store", "", "leave out --model, or --catalogue and --file")
    show_result(account, as_json, partial(_show, one, scale))


@verb("history", "", "cohabit profiles history MG")
def history(
    program: Annotated[str, Argument("PROGRAM", "Its name, as in the list.")],
    store: Store = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List every measurement of a program as it came, the oldest first."""
    from cohabit.app.measure.profiles import owner_name, samples_in

    with asking(server) as client:
        found, where = samples_in(client, store, program, named=_named(server))
    rows = [one | {"owner_name": owner_name(one["owner"])} for one in found]
    if as_json:
        show_json({"program": program, "store": where, "samples": rows})
        return
    if not rows:
        raise InputError(f"{program} was never measured", where, "see the programs: cohabit profiles list")
    records = [
        {
            "owner": row["owner_name"],
            "processes": str(row["processes"]),
            "scale": str(row["measured"]["scale"]),
            "time s": _number(row["measured"].get("time_s") or None, 3),
            "curves": "yes" if row["measured"].get("ipc") else "-",
            "measured": _instant(row["measured"].get("measured_at_us", 0)),
            "from": row["provenance"],
            "hardware": row["hardware"] or "-",
        }
        for row in rows
    ]
    table_of(f"{counted(len(rows), 'measurement')} of {program} in {where}", records)


@verb("import", "", "cohabit profiles import programs.json")
def import_(
    file: Annotated[str, Argument("FILE", "programs.json, curves.csv, an export, or sns12.")],
    store: Store = None,
    cores: Cores = 0,
    ways: Ways = 0,
    as_json: AsJson = False,
) -> None:
    """Take profiles, and runs beside others, into the store, in place of those of the same programs and hardware."""
    from cohabit.app.measure.profiles import NodeSize, exported_in, is_catalogue, profiles_of_catalogue

    size = NodeSize(cores, ways)
    found, runs, warning = (
        (profiles_of_catalogue(file, size), [], "") if is_catalogue(file) else exported_in(Path(file), size)
    )
    if warning:
        note(warning)
    with _as_owner_of(store), _opened(store, create=True) as opened:
        count = opened.replace((one.profile for one in found), runs)
        where = opened.where
    programs = [one.profile.program for one in found]
    document = {"imported": count, "programs": programs, "co_runs": len(runs), "store": where}
    show_result(document, as_json, f"imported {_counted_both(count, len(runs))} into {where}")


@verb("export", "", "cohabit profiles export profiles.json")
def export(
    file: Annotated[Path, Argument("FILE", "The JSON file to write.")],
    store: Store = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Write all profiles of the store, and runs beside others, as one JSON file, whole or not at all."""
    from cohabit.app.measure.profiles import co_runs_in
    from cohabit.store.json_form import write_json

    found, _ = _found(None, None, store, server, 0, 0)
    with asking(server) as client:
        runs = co_runs_in(client, store, named=_named(server))
    count = write_json((one.profile for one in found), file, runs)
    text = f"exported {_counted_both(count, len(runs))} to {file}"
    show_result({"exported": count, "co_runs": len(runs), "file": str(file)}, as_json, text)


@verb("share", "", "cohabit profiles share MG --from ann")
def share(
    program: Annotated[str, Argument("PROGRAM", "Its name, as in the list.")],
    user: Annotated[str, Option("--from", metavar="USER", help="Owner of the profile: a name or a number.")],
    store: Store = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a user's profile of a program the shared one; for operators.

    A controller that answers shares it for the jobs it plans and in its store; otherwise it is shared in the caller's
    own store. Jobs of users who have none of their own use it.
    """
    from cohabit.app.measure.profiles import owner_named, share_in_controller

    owner = owner_named(user)
    if owner == "":
        raise InputError("the shared profile is shared already", "--from", "give the name or number of a user")
    with asking(server) as client:
        living = None if store else share_in_controller(client, program, user, named=_named(server))
    kept, where = 0, "the controller"
    if living is None:
        with _opened(store) as opened:
            kept, where = 0 if owner is None else opened.share(program, owner), opened.where
    if not kept and not living:
        raise _has_none(user, program, where)
    if as_json:
        done = {"in_store": kept, "in_controller": living, "store": where}
        show_json({"program": program, "from": user, "owner": owner, **done})
        return
    for count, place in ((kept, where), (living, "the running controller")):
        if count:
            typer.echo(f"shared {counted(count, 'profile')} of {program} from {user} in {place}")


@verb("forget", "", "cohabit profiles forget MG --since 2h")
def forget(
    program: Annotated[str, Argument("PROGRAM", "Its name, as in the list.")],
    owner: Owner = None,
    since: Annotated[
        str | None, Option(metavar="WHEN", help="Only what was measured since: 24h (ago), or 2026-01-31T12:00.")
    ] = None,
    store: Store = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Remove a program with all its measurements; where several users have one, of the owner named.

    With --since, the profile becomes what the earlier measurements made it. Controllers that use the store hear of it.
    """
    from cohabit.app.measure.profiles import forget_in, only_owner, stored_in

    since_s = instant_s("--since", since)
    with asking(server) as client:
        found, where = stored_in(client, store, named=_named(server), say=note)
        known = sorted({one.program for one in found})
        if not known:
            raise InputError(f"there is no program called {program!r}", f"{where} (it has no profiles)")
        if program not in known:
            raise unknown("program", program, known)
        whose, owners = _owner(owner), {one.owner for one in found if one.program == program}
        if whose is None:
            whose = only_owner(owners, program)
        if whose not in owners:
            raise _has_none(str(owner), program, where)
        count = forget_in(client, store, program, whose, since_s, named=_named(server))
    if since_s is not None and not count:
        raise InputError(f"nothing of {program} was measured since then", where, f"cohabit profiles history {program}")
    what = counted(count, "profile" if since_s is None else "measurement")
    show_result({"forgotten": count, "program": program}, as_json, f"forgot {what} of {program}")


def _named(server: str | None) -> bool:
    """Return whether the caller named a controller, which then must answer."""
    from cohabit.app.client.connection import SERVER

    return bool(server or os.environ.get(SERVER))


@contextmanager
def _as_owner_of(store: str | None) -> Iterator[None]:
    """Write into the store of a controller's place as its owner, if root does it."""
    from cohabit.live.controller.place import as_owner
    from cohabit.store.profiles import empty_store

    if store is None or "://" in store:
        yield
        return
    empty_store().close()  # loads all code while root may read it
    with as_owner(Path(store).absolute().parent):
        yield


def _default() -> str:
    from cohabit.store.profiles import default_path

    return str(default_path())


def _owner(name: str | None) -> str | None:
    """Return the owner given by --owner; None: none was named."""
    from cohabit.app.measure.profiles import owner_named

    found = None if name is None else owner_named(name)
    if name is not None and found is None:
        raise InputError(f"there is no user {name}", "", "give the name or number of an account, or `shared`")
    return found


def _has_none(user: str, program: str, where: str) -> Exception:
    return InputError(f"{user} has no profile of {program}", where, "see the owners: cohabit profiles list")


def _opened(store: str | None, create: bool = False) -> ProfileStore:
    """Open the store; one that does not exist yet reads as empty, unless its place was named."""
    from cohabit.app.measure.profiles import opened_store

    return opened_store(store, create)


def _counted_both(profiles: int, runs: int) -> str:
    beside = f" and {counted(runs, 'run')} beside others" if runs else ""
    return counted(profiles, "profile") + beside


def _found(
    catalogue: str | None, file: Path | None, store: str | None, server: str | None, cores: int, ways: int
) -> tuple[list[Described], str]:
    from cohabit.app.measure.profiles import NodeSize, described, profiles_in, profiles_of_catalogue, stored_in

    check_not_both("--catalogue", "--file", catalogue and file)
    size = NodeSize(cores, ways)
    if catalogue:
        return profiles_of_catalogue(catalogue, size), f"catalogue {catalogue}"
    if file:
        found, warning = profiles_in(file, size)
        if warning:
            note(warning)
        return found, str(file)
    with asking(server) as client:
        stored, where = stored_in(client, store, named=_named(server), say=note)
    return [described(one, size) for one in stored], where


def _show(one: Described, scale: int, account: dict[str, Any]) -> None:
    """Print the details of a program."""
    profile, node = one.profile, one.node
    of = f" ({', '.join(part for part in (one.title, one.framework) if part)})" if one.title or one.framework else ""
    typer.echo(
        f"{profile.program}{of}: {profile.processes} processes, nodes of {node.cores} cores and {node.ways} ways"
    )
    constraint = f" Ideal scale: {account['ideal_scale']}." if account["class"] == "scaling" else ""
    typer.echo(f"Class: {account['class']}, because {account['why']}.{constraint}")
    _plots(one, account, scale)
    rows = []
    for row in account["by_scale"]:
        where = "-" if row["nodes"] is None else f"{row['nodes']} x {row['cores']}"
        numbers = [_number(row["time_s"], 1), _number(row["speedup"], 2), _number(row["ways"], 0)]
        rows.append([str(row["scale"]), where, *numbers, _number(row["bandwidth_gbs"], 2), str(row["samples"])])
    heads = ["scale", "nodes x cores", "time s", "speedup", "ways", "GB/s per node", "runs"]
    table(f"To keep {100 * account['alpha']:g} % of the speed, {account['for_processes']} processes", heads, rows)
    steps = next((row["steps"] for row in account["by_scale"] if row["scale"] == scale), None)
    if steps is None:
        typer.echo("Its needs are not known yet: the time or the curves have not been measured.")
    else:
        typer.echo(f"The estimate at scale {scale}, step by step:")
        for number, step in enumerate(steps, 1):
            typer.echo(f"  {number}. {step}")
    if "neighbours" in account:
        show_neighbours(account["neighbours"], one.profile.program)
    if one.notes:
        said = "; ".join(f"{key}: {value}" for key, value in one.notes.items())
        typer.echo(f"Where the numbers come from: {said}")
    elif profile.provenance:
        typer.echo(f"Where the numbers come from: {profile.provenance}, {_age(account['measured_at_us'])} old")


def _plots(one: Described, account: dict[str, Any], scale: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    measured = one.profile.at_scale(scale)
    row = next((row for row in account["by_scale"] if row["scale"] == scale), None)
    if measured is None or row is None or measured.ipc is None or measured.bandwidth_gbs is None:
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=140, highlight=False)
    plain = not console.encoding.startswith("utf")
    ways = row["ways"] or measured.ipc.ways[-1]
    tolerable = account["alpha"] * measured.ipc.at(one.node.ways or measured.ipc.ways[-1])
    at = f", scale {scale}" if scale > 1 else ""
    ipc = draw(measured.ipc, f"IPC against cache ways{at}", tolerable, ways, plain)
    gbs = draw(measured.bandwidth_gbs, f"GB/s per node against cache ways{at}", None, ways, plain)
    console.print()
    if console.width >= SIDE_BY_SIDE:
        grid = Table.grid(padding=(0, 4))
        for left, right in zip(ipc, gbs, strict=True):
            grid.add_row(left, right)
        console.print(grid)
    else:
        for line in (*ipc, Text(), *gbs):
            console.print(line)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _instant(measured_at_us: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(measured_at_us / 1e6)) if measured_at_us else "-"


def _age(measured_at_us: int | None) -> str:
    from cohabit.model.units import duration

    return "-" if not measured_at_us else duration(max(0.0, time.time() - measured_at_us / 1e6))
