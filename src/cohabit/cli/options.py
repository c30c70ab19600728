"""Options that several verbs share, with their checks: the server to ask, what to simulate, ways of a cache.

Nothing here may import typer (see declaring.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cohabit.cli.console import note
from cohabit.cli.declaring import Argument, Option
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from cohabit.app.client.client import Client
    from cohabit.app.scenario.tables import Scenario
    from cohabit.model.mix import Mix
    from cohabit.optimise.ways import Limits

Server = Annotated[
    str | None, Option(metavar="ADDRESS", help="Socket, folder or https URL; else COHABIT_SERVER, else `cohabit up`'s.")
]
AsRoot = Annotated[
    bool,
    Option("--as-root", help="As root: the controller keeps root's rights. A vulnerability in it gives them away."),
]
Without = Annotated[
    str, Option("--without", metavar="NEED,...", help="Run the policy without these needs (`cohabit doctor --site`).")
]
UntilIdle = Annotated[bool, Option("--until-idle", help="Exit when no job waits or runs.")]
AsJson = Annotated[bool, Option("--json", help="One JSON document on stdout.")]
Store = Annotated[
    str | None,
    Option(
        "--store",
        metavar="FILE|URL",
        envvar="COHABIT_STORE",
        help="SQLite file or postgresql://user@host/database; the user's own store otherwise.",
    ),
]
Programs = Annotated[
    str, Option("--programs", metavar="A,B,...", help="Instead of the file: programs whose profiles are in the store.")
]
Jobs = Annotated[list[str], Argument("JOB...", "Their numbers or names.", jobs=True)]
OneJob = Annotated[str, Argument("JOB", "Its number or name.", jobs=True)]

Ways = Annotated[int | None, Option("--ways", metavar="W", help="Whole contiguous ways of a cache that has W.")]
MinWays = Annotated[int | None, Option("--min-ways", metavar="M", help="Fewest ways of a group; 1 otherwise.")]
Groups = Annotated[int | None, Option("--groups", metavar="G", help="Groups besides the root group; 15 otherwise.")]
IoWays = Annotated[int | None, Option("--io-ways", metavar="I", help="Uppermost ways that devices use, too.")]
Inseparable = Annotated[
    str | None, Option("--inseparable", metavar="A-B", help="Ways that go together, as 10-11 on a Xeon D-1540.")
]


@contextmanager
def asking(server: str | None) -> Iterator[Client]:
    """Yield a scheduler to query. If it goes away or is too busy, the verb ends with one sentence and status 1."""
    from cohabit.app.client.client import connect
    from cohabit.app.client.connection import Unavailable

    try:
        yield connect(server)
    except Unavailable as error:
        note(str(error))
        raise SystemExit(1) from error


def duration_s(option: str, text: str) -> float:
    """Parse a user's duration to seconds."""
    from cohabit.model.units import SECOND, parse_duration

    try:
        return parse_duration(text) / SECOND
    except ValueError as error:
        raise InputError(str(error), option) from None


def check_seed(seed: int) -> None:
    """Refuse a negative seed."""
    if seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "give a number from 0 up")


def words_of(option: str, text: str) -> tuple[str, ...]:
    """Split the words of a command as a shell does."""
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"{option} cannot be read: {error}".lower(), "", "close its quotes") from None


def whole_numbers(option: str, text: str | None, example: str = "16,28") -> list[int] | None:
    """Parse a list of whole numbers; None: the option was not given."""
    try:
        return None if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{text!r} is not a list of whole numbers", option, f"write {example}") from None


def check_not_both(first: str, second: str, both: object) -> None:
    """Refuse two options if both were given."""
    if both:
        raise InputError(f"{first} and {second} do not go together", "", "give one of them")


def announce_compilation(kernel: str, text: str) -> None:
    """Tell the user about the compilation that is due if this kernel has no machine code yet."""
    from cohabit.compiled import is_warm

    if not is_warm(kernel):
        note(text)


@contextmanager
def naming(source: Path) -> Iterator[None]:
    """Add the scenario's file to errors about its settings."""
    try:
        yield
    except InputError as error:
        if source.suffix != ".toml" or str(source) in str(error):
            raise
        raise InputError(error.what, f"{source}: {error.where}" if error.where else str(source), error.fix) from error


def scenario_for(source: Path, **said: Any) -> Scenario:
    """Return a scenario file or a bare trace, with the command line's options over the file's; announce compilation."""
    from cohabit.app.scenario import reading

    scenario = reading.scenario_for(source, **said)
    announce_compilation(
        _kernel_of(scenario),
        "first run of this kind: compiling, once (half a minute; COHABIT_KERNELS=plain does without) ...",
    )
    return scenario


def _kernel_of(scenario: Scenario) -> str:
    """Return a kernel the run will need: the whole-trace driver's, or the world's on shared nodes."""
    from cohabit.policy.registry import BUNDLES, ORDERS

    if scenario.domain:
        return "moves.enqueue"
    bundle = BUNDLES[scenario.policy.name][0] if scenario.policy.name in BUNDLES else {}
    placement = scenario.policy.placement or bundle.get("placement", "exclusive")
    if "exclusive" not in (placement, scenario.cluster.sharing):
        return "moves.enqueue"
    backfill = str(scenario.policy.backfill or bundle.get("backfill", ""))
    if backfill == "conservative":
        return "trace_driver.drive_with_promises"
    order = scenario.policy.order or bundle.get("order", "fcfs")
    if order not in ORDERS or ORDERS[order].changing:
        return "trace_driver.drive_by_scores"
    return "trace_driver.drive_to_depth" if backfill.isdigit() else "trace_driver.drive_by_ladder"


def limits_from(
    ways: int | None, min_ways: int | None, groups: int | None, io_ways: int | None, inseparable: str | None
) -> Limits | None:
    """Return the limits, or None if no option of ways was given."""
    from cohabit.optimise.ways import USUAL_GROUPS, Limits

    others = {"--min-ways": min_ways, "--groups": groups, "--io-ways": io_ways, "--inseparable": inseparable}
    if ways is None:
        said = [name for name, value in others.items() if value is not None]
        if said:
            raise InputError(f"{said[0]} says how ways are given out, but not how many there are", "", "add --ways W")
        return None
    return Limits(
        ways,
        1 if min_ways is None else min_ways,
        USUAL_GROUPS if groups is None else groups,
        io_ways or 0,
        inseparable=_ranges(inseparable),
    ).checked("--ways")


def _ranges(text: str | None) -> tuple[tuple[int, int], ...]:
    found = []
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"([0-9]{1,4})-([0-9]{1,4})", part.strip())
        if match is None:
            raise InputError(f"{part!r} is not a range of ways", "--inseparable", "write 10-11, or 4-5,10-11")
        found.append((int(match[1]), int(match[2])))
    return tuple(found)


def instant_s(option: str, text: str | None) -> float | None:
    """Parse an instant: a time before now, or a date and time, local unless it says otherwise."""
    import time
    from datetime import datetime

    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    try:
        return time.time() - duration_s(option, text)
    except InputError:
        raise InputError(f"{text!r} is not a time", option, "write 24h, 7d or 2026-01-31T12:00") from None


def names_of(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def mix_from(file: Path | None, programs: str, store: str | None, nodes: int, read: Callable[[Path], Mix]) -> Mix:
    """Return the programs of a file, or those whose profiles are in the store."""
    check_not_both("a file", "--programs", file is not None and bool(programs))
    if programs:
        from cohabit.app.learn.profiled_mix import mix_of_profiles, stored_profiles

        return mix_of_profiles(names_of(programs), *stored_profiles(store), nodes)
    if file is None:
        raise InputError("no programs are given", "", "name a file, or --programs A,B of the store")
    return read(file)
