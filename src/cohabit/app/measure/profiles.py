"""Profiles from any source (the store, a catalogue, a file of programs), and their description in words."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cohabit.app.client.client import NOT_FOUND, Client, View
from cohabit.app.client.connection import Refused, Unavailable
from cohabit.model.cluster import NodeGroup, node_of_key
from cohabit.model.errors import InputError
from cohabit.model.profile import SHARED, Demand, Profile, classify, demand, owner_of, stream_gbs
from cohabit.model.program import profile_of
from cohabit.model.units import microseconds
from cohabit.store.json_form import CoRunSample, parse_json
from cohabit.trace.files import read_text
from cohabit.trace.programs import CATALOGUES, Programs, catalogue, check_ways, parse_programs, read_curves

if TYPE_CHECKING:
    from cohabit.store.profiles import ProfileStore

ALL_USERS = "shared"  # in place of a user's name
MIN_WAYS = 2  # fewest ways of practical use (S24), where the machine does not say


class Described(NamedTuple):
    """A profile, the node it is read for, and the display name of the program."""

    profile: Profile
    node: NodeGroup
    title: str
    framework: str
    notes: dict[str, str]  # the sources of the numbers


class NodeSize(NamedTuple):
    """Properties of the machine that the caller specifies; 0: not specified."""

    cores: int = 0
    ways: int = 0


UNSPECIFIED = NodeSize()


def profiles_in(path: Path, size: NodeSize = UNSPECIFIED) -> tuple[list[Described], str]:
    """Read profiles from any known file, and a warning of what is not used of it."""
    found, runs, warning = exported_in(path, size)
    if runs:
        warning = f"{path}: runs beside others in it ({len(runs)}) count only in a store (cohabit profiles import)"
    return found, warning


def exported_in(path: Path, size: NodeSize = UNSPECIFIED) -> tuple[list[Described], list[CoRunSample], str]:
    """Read programs.json, measured curves (CSV) or an export: its profiles, its runs beside others, and a warning."""
    if ".csv" in path.suffixes:
        programs = read_curves(path)
        return of_programs(programs, size, str(path)), [], programs.warning
    text = read_text(path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and "profiles" in document and "programs" not in document:
        exported, runs = parse_json(text, str(path))
        return [described(one, size) for one in exported.values()], runs, ""
    programs = parse_programs(text, str(path))
    return of_programs(programs, size, str(path)), [], programs.warning


def profiles_of_catalogue(name: str, size: NodeSize = UNSPECIFIED) -> list[Described]:
    """Return the profiles that a perfect profiler would record of a catalogue's programs."""
    return of_programs(catalogue(name).programs, size, f"catalogue {name}")


def is_catalogue(name: str) -> bool:
    """Return whether a name given in place of a file is a catalogue."""
    return name in CATALOGUES and not Path(name).exists()


def of_programs(programs: Programs, size: NodeSize, where: str) -> list[Described]:
    """Return calibrated profiles at the points of the file, on its machine unless the caller specifies another."""
    stated = programs.machine.node if programs.machine is not None else None
    known = stated is not None or bool(size.cores and size.ways)
    most_ways = max(one.ipc.ways[-1] for one in programs.values())
    node = _node(stated or NodeGroup(1, max(one.processes for one in programs.values()), ways=most_ways), size)
    check_ways(programs, node.ways, where)
    found = []
    for program in programs.values():
        profile = profile_of(program, node, sampled_ways=program.ipc.ways)
        if not known:  # the machine is not known, so the profile names no hardware
            profile = msgspec.structs.replace(profile, hardware="")
        found.append(Described(profile, node, program.title, program.framework, program.provenance))
    return found


def described(profile: Profile, size: NodeSize = UNSPECIFIED) -> Described:
    """Return a stored profile with the node its hardware key describes, else the smallest node it could have run on."""
    node = node_of_key(profile.hardware, MIN_WAYS)
    if node is None:
        curves = [one.ipc for one in profile.scales if one.ipc is not None]
        node = NodeGroup(1, profile.processes, ways=max((curve.ways[-1] for curve in curves), default=0))
    return Described(profile, _node(node, size), "", "", {})


def _node(node: NodeGroup, size: NodeSize) -> NodeGroup:
    for option, value in (("--cores", size.cores), ("--ways", size.ways)):
        if value < 0:
            raise InputError(f"{option} {value} is negative", "", "give a whole number from 1 up")
    ways = size.ways or node.ways
    least = min(max(node.min_ways, MIN_WAYS), ways or MIN_WAYS)
    return replace(node, cores=size.cores or node.cores, ways=ways, min_ways=least)


def best_of(found: Iterable[Described], program: str, owner: str | None = None) -> Described | None:
    """Return the profile of a program: the one measured last, then the one with the fewest processes.

    `owner` None: the caller's own, as for jobs; else the shared one; else that of the user if only one user has one.
    """
    fitting = [one for one in found if one.profile.program == program]
    owners = {one.profile.owner for one in fitting}
    if owner is None and owners:
        own = owner_of(os.getuid())
        owner = own if own in owners else SHARED if SHARED in owners else only_owner(owners, program)
    fitting = [one for one in fitting if one.profile.owner == owner]
    return max(fitting, key=lambda one: (_measured_at_us(one.profile), -one.profile.processes), default=None)


def only_owner(owners: Collection[str], program: str) -> str:
    """Return the owner of the profiles of a program; if there are several, the caller must name one."""
    if len(owners) > 1:
        named = ", ".join(owner_name(one) for one in sorted(owners))
        raise InputError(f"several users have a profile of {program}: {named}", "", "choose one with --owner")
    return next(iter(owners))


def owner_name(owner: str) -> str:
    """Return the display name of an owner: the account's name, its number if it has none, or "shared"."""
    try:
        return pwd.getpwuid(int(owner)).pw_name if owner else ALL_USERS
    except (KeyError, OverflowError, ValueError):
        return owner


def owner_named(name: str) -> str | None:
    """Return the owner for an account's name or number, or for "shared"; None: there is no such account."""
    if name == ALL_USERS:
        return SHARED
    if name.isascii() and name.isdigit():
        return str(int(name))
    try:
        return owner_of(pwd.getpwnam(name).pw_uid)
    except (KeyError, ValueError):
        return None


def opened_store(store: str | None, create: bool = False) -> ProfileStore:
    """Open the store; one that does not exist yet reads as empty, unless its place was named."""
    from cohabit.store.profiles import default_path, empty_store, open_store

    if store is None and not create and not default_path().exists():
        return empty_store(str(default_path()))
    return open_store(store, create=create)


def stored_in(client: Client, store: str | None, named: bool, say: Callable[[str], None]) -> tuple[list[Profile], str]:
    """Return the stored profiles and where they are: in the store named, in that of the controller, or in the caller's.

    `named`: the caller named the controller, so it must answer."""
    answer = None if store else asked(client.profiles, named)
    if answer is not None:
        if answer["away"]:
            say(f"{answer['away']}; these are the profiles in the controller")
        return msgspec.convert(answer["profiles"], list[Profile]), str(answer["store"])
    with opened_store(store) as opened:
        return opened.profiles(), opened.where


def co_runs_in(client: Client, store: str | None, named: bool) -> list[CoRunSample]:
    """Return all runs beside others, from the same store as `stored_in`."""
    answer = None if store else asked(client.co_runs, named)
    if answer is not None:
        return msgspec.convert([list(one.values()) for one in answer["co_runs"]], list[CoRunSample])
    with opened_store(store) as opened:
        return opened.co_runs()


def samples_in(client: Client, store: str | None, program: str, named: bool) -> tuple[list[dict[str, Any]], str]:
    """Return every measurement of a program, from the same store as `stored_in`."""
    answer = None if store else asked(lambda: client.profile_history(program), named)
    if answer is not None:
        return list(answer["samples"]), str(answer["store"])
    with opened_store(store) as opened:
        found = [
            {
                "owner": one.key.owner,
                "processes": one.key.processes,
                "hardware": one.key.hardware,
                "provenance": one.provenance,
                "measured": msgspec.to_builtins(one.measured),
            }
            for one in opened.history(program)
        ]
        return found, opened.where


def forget_in(client: Client, store: str | None, program: str, owner: str, since_s: float | None, named: bool) -> int:
    """Forget an owner's profile, or what was measured since; return how many profiles or measurements it was."""
    answer = None if store else asked(lambda: client.forget_profile(program, owner, since_s), named)
    if answer is not None:
        return int(answer["forgotten"])
    with opened_store(store) as opened:
        if since_s is None:
            return opened.delete(program, owner=owner)
        return opened.forget_since(program, microseconds(since_s), owner)


def asked(ask: Callable[[], View], named: bool) -> View | None:
    """Return the answer of a controller; None: none is there, and none was `named`."""
    try:
        return ask()
    except (Refused, Unavailable):
        raise
    except InputError:
        if named:
            raise
        return None


def share_in_controller(client: Client, program: str, user: str, named: bool) -> int | None:
    """Return how many profiles a running controller now shares; None: none answers, and none was `named`."""
    try:
        answer = asked(lambda: client.share_profile(program, user), named)
        return None if answer is None else int(answer["profiles"])
    except Refused as error:
        if error.status != NOT_FOUND:
            raise
        return 0


def _measured_at_us(profile: Profile) -> int:
    return max((one.measured_at_us for one in profile.scales), default=0)


class Estimate(NamedTuple):
    """The demand at one scale and the five steps to it."""

    demand: Demand
    steps: tuple[str, ...]


def estimate(one: Described, scale: int, alpha: float, processes: int | None = None) -> Estimate | None:
    """Derive the ways and the bandwidth for alpha from the curves (S23); None if the curves are not known."""
    count = processes or one.profile.processes
    needed = demand(one.profile, scale, count, alpha, one.node)
    measured = one.profile.at_scale(scale)
    if needed is None or measured is None or measured.ipc is None:
        return None
    most = one.node.ways or measured.ipc.ways[-1]
    ipc, ways = measured.ipc, needed.ways
    fewer = f"; {ways - 1} would give {ipc.at(ways - 1):.3g}" if ways > max(one.node.min_ways, 1) else ""
    least = f", the least a job may get is {one.node.min_ways}" if ways == one.node.min_ways > 1 else ""
    peak = stream_gbs(one.node, one.node.cores)
    share = f", {100 * needed.bandwidth_gbs / peak:.0f} % of what a node has" if peak < float("inf") else ""
    alone = "; that is more than a node has: it gets its nodes to itself" if needed.alone else ""
    steps = (
        f"with all {most} ways its IPC is {needed.full_ipc:.3g} (F-IPC)",
        f"alpha {alpha:g}: it is to keep {100 * alpha:g} % of that speed",
        f"so it tolerates an IPC of {needed.tolerable_ipc:.3g} (T-IPC)",
        f"the fewest ways that give it: {ways} (IPC {ipc.at(ways):.3g}{fewer}{least})",
        f"with {ways} ways it draws {needed.bandwidth_gbs:.2f} GB/s per node{share}{alone}",
    )
    return Estimate(needed, steps)


def summary_of(one: Described) -> dict[str, Any]:
    """Return one line of the list as plain data."""
    profile, judged = one.profile, classify(one.profile)
    return {
        "program": profile.program,
        "owner": profile.owner,
        "owner_name": owner_name(profile.owner),
        "title": one.title,
        "processes": profile.processes,
        "hardware": profile.hardware,
        "class": judged.kind,
        "ideal_scale": judged.ideal_scale,
        "constraint": judged.constraint or None,
        "scales": [scale.scale for scale in profile.scales],
        "samples": sum(scale.samples for scale in profile.scales),
        "measured_at_us": _measured_at_us(profile) or None,
        "provenance": profile.provenance,
    }


def account_of(one: Described, alpha: float, processes: int | None = None) -> dict[str, Any]:
    """Return everything known of a program as plain data."""
    first = one.profile.at_scale(1)
    rows = []
    for measured in one.profile.scales:
        found = estimate(one, measured.scale, alpha, processes)
        timed = measured.time_s > 0 and first is not None and first.time_s > 0
        rows.append(
            {
                "scale": measured.scale,
                "nodes": found.demand.nodes if found else None,
                "cores": found.demand.cores if found else None,
                "time_s": (found.demand.time_s if found else measured.time_s) or None,
                "speedup": first.time_s / measured.time_s if timed and first else None,
                "ways": found.demand.ways if found else None,
                "bandwidth_gbs": found.demand.bandwidth_gbs if found else None,
                "ipc": _points(measured.ipc),
                "bandwidth_by_ways_gbs": _points(measured.bandwidth_gbs),
                "miss_rate": _points(measured.miss_rate),
                "communication": measured.communication if measured.communication >= 0 else None,
                "samples": measured.samples,
                "time_variance": measured.time_variance,
                "measured_at_us": measured.measured_at_us or None,
                "steps": list(found.steps) if found else None,
            }
        )
    judged = classify(one.profile)
    return {
        **summary_of(one),
        "framework": one.framework or None,
        "single_node": one.profile.single_node,
        "why": judged.why,
        "alpha": alpha,
        "for_processes": processes or one.profile.processes,
        "by_scale": rows,
        "numbers_from": one.notes,
    }


def _points(curve: Any) -> dict[str, float] | None:
    return None if curve is None else {str(w): v for w, v in zip(curve.ways, curve.values, strict=True)}
