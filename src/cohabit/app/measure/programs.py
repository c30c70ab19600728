"""PROGRAMS.toml of `cohabit measure`: which programs run, how they share the cores, what is measured.

Everything is checked before the first program starts: names, commands, cores, sources. Format: docs/measuring.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cohabit.agent.launch.process import find_command
from cohabit.agent.sensors.catalogue import usable
from cohabit.agent.topology import allowed_cores, split_cores
from cohabit.app.scenario.typed_toml import read_typed
from cohabit.model.errors import InputError

EXAMPLE = '[[program]] name = "stream", command = ["cohabit", "exercise", "stream", "--work", "300"]'


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program; `beside` is a longer run of it as a neighbour, `sample` a shorter one for slow sources."""

    name: str
    command: list[str]
    env: dict[str, str] = {}
    cwd: str = "."
    cores: list[int] = []
    beside: list[str] = []
    sample: list[str] = []


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. `use` are the CPUs to take; `counters` is a CSV of counters measured elsewhere."""

    program: list[Program] = []
    cores: str = "split"
    use: list[int] = []
    repeats: int = 3
    pair_repeats: int = 1
    limit_s: float = 600.0
    sources: list[str] | None = None
    counters: str = ""

    def digest(self) -> str:
        """Return a digest of everything that measured times depend on; the number of repeats may grow later."""
        rest = msgspec.structs.replace(self, repeats=0, pair_repeats=0)
        return hashlib.blake2b(msgspec.json.encode(rest), digest_size=8).hexdigest()

    def cpus(self, program: Program, beside: bool) -> tuple[int, ...]:
        """Return the CPUs of a program in its role: measured, or beside."""
        if program.cores:
            return tuple(program.cores)
        every = tuple(self.use) or allowed_cores()
        return every if self.cores == "shared" else split_cores(every)[1 if beside else 0]


def read_plan(path: Path) -> Plan:
    """Read and check it; folders in it are relative to it."""
    plan, where, folder = read_typed(path, Plan, "docs/measuring.md"), str(path), path.parent.absolute()
    check_names(plan.program, where, EXAMPLE)
    if plan.cores not in ("split", "shared"):
        raise InputError(f"cores is {plan.cores!r}", where, 'write "split" (halves that share the cache) or "shared"')
    if plan.repeats < 1 or plan.pair_repeats < 1 or not 0 < plan.limit_s < 1e7:
        raise InputError("repeats, pair_repeats and limit_s must be above 0", where, "correct them")
    programs = [msgspec.structs.replace(one, cwd=str(folder / one.cwd)) for one in plan.program]
    plan = msgspec.structs.replace(
        plan, program=programs, counters=str(folder / plan.counters) if plan.counters else ""
    )
    for program in plan.program:
        for command in (program.command, *filter(None, (program.beside, program.sample))):
            check_command(program.name, command, program.env, program.cwd, where)
    check_cpus([*plan.use, *(cpu for program in plan.program for cpu in program.cores)], where)
    try:
        for program in plan.program:
            plan.cpus(program, beside=True)
        usable(plan.sources)
    except InputError as error:
        raise InputError(error.what, where, error.fix) from None
    return plan


def check_names(programs: Sequence[Program], where: str, example: str) -> None:
    """Refuse a file without programs, and names that cannot be told apart or written into a table."""
    if not programs:
        raise InputError("names no programs", where, f"add at least one: {example}")
    names = [one.name for one in programs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the name {name!r} occurs {names.count(name)} times", where, "names must differ")
        if not name.strip() or any(sign in name for sign in ',"\n'):
            raise InputError(f"the name {name!r} cannot be used", where, "give letters, digits and dashes")


def check_command(name: str, command: Sequence[str], env: Mapping[str, str], cwd: str, where: str) -> None:
    """Refuse a folder or a command that does not exist here."""
    if not command or not command[0] or any("\0" in word for word in command):
        raise InputError(f"the command of {name!r} is empty or has a zero byte", where, "give a list of words")
    if not Path(cwd).is_dir():
        raise InputError(f"the folder of {name!r} does not exist", where, "correct its cwd")
    try:
        find_command(command, env if "PATH" in env else None, Path(cwd))
    except InputError as error:
        raise InputError(f"{name!r}: {error.what}", where, error.fix) from None


def check_cpus(cpus: Sequence[int], where: str) -> None:
    """Refuse CPUs that this process may not use."""
    allowed = allowed_cores()
    for cpu in cpus:
        if cpu not in allowed:
            raise InputError(f"CPU {cpu} cannot be used", where, f"choose from {', '.join(map(str, allowed))}")
