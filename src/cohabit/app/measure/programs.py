"""PROGRAMS.toml of `cohabit measure`: which programs run, how they share the cores, what is measured.

Everything is checked before the first program starts: names, commands, cores, sources. Format: docs/measuring.md.
"""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from cohabit.agent.cores import allowed_cores, split_cores
from cohabit.agent.launch.process import find_command
from cohabit.agent.sensors.catalogue import usable
from cohabit.app.scenario.typed_toml import refuse_untrusted
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
    refuse_untrusted(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file", str(path), "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
        raise InputError(f"cannot be read: {reason}", str(path), "give a TOML file of programs") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}", str(path), "correct that line") from error
    plan = plan_from(data, str(path))
    folder = path.parent.absolute()
    programs = [msgspec.structs.replace(one, cwd=str(folder / one.cwd)) for one in plan.program]
    plan = msgspec.structs.replace(
        plan, program=programs, counters=str(folder / plan.counters) if plan.counters else ""
    )
    _check_host(plan, str(path))
    return plan


def plan_from(data: dict[str, Any], where: str) -> Plan:
    """Convert plain data to a plan."""
    _refuse_unknown(data, Plan, where)
    programs = data.get("program", [])
    for number, one in enumerate(programs if isinstance(programs, list) else [], 1):
        if isinstance(one, dict):
            _refuse_unknown(one, Program, f"{where}, program {number}")
    try:
        plan = msgspec.convert(data, Plan, strict=True)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        key = place.strip("`$.") or "top level"
        raise InputError(message[:1].lower() + message[1:], f"{where}: {key}", "see docs/measuring.md") from error
    if not plan.program:
        raise InputError("names no programs", where, f"add at least one: {EXAMPLE}")
    names = [one.name for one in plan.program]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the name {name!r} stands there {names.count(name)} times", where, "names must differ")
    for number, one in enumerate(plan.program, 1):
        _check_program(one, f"{where}, program {number}")
    if plan.cores not in ("split", "shared"):
        raise InputError(f"cores is {plan.cores!r}", where, 'write "split" (halves that share the cache) or "shared"')
    if plan.repeats < 1 or plan.pair_repeats < 1 or not 0 < plan.limit_s < 1e7:
        raise InputError("repeats, pair_repeats and limit_s must be above 0", where, "correct them")
    return plan


def _refuse_unknown(data: dict[str, Any], kind: type[msgspec.Struct], where: str) -> None:
    known = list(kind.__struct_fields__)
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise InputError(f"there is no key {key!r}", where, hint)


def _check_program(program: Program, where: str) -> None:
    if not program.name.strip() or any(sign in program.name for sign in ',"\n'):
        raise InputError(f"the name {program.name!r} cannot be used", where, "give letters, digits and dashes")
    for command in (program.command, program.beside, program.sample):
        if any("\0" in word for word in command):
            raise InputError("the command has a word with a zero byte", where, "leave it out")
    if not program.command or not program.command[0]:
        raise InputError(f"the command of {program.name!r} is empty", where, "give a list of words")


def _check_host(plan: Plan, where: str) -> None:
    """Refuse folders, commands, CPUs and sources that do not exist here."""
    mine = allowed_cores()
    for program in plan.program:
        if not Path(program.cwd).is_dir():
            raise InputError(f"the folder of {program.name!r} does not exist", where, "correct its cwd")
        for command in filter(None, (program.command, program.beside, program.sample)):
            try:
                find_command(command, None if "PATH" not in program.env else program.env, Path(program.cwd))
            except InputError as error:
                raise InputError(f"{program.name!r}: {error.what}", where, error.fix) from None
    for cpu in [*plan.use, *(cpu for program in plan.program for cpu in program.cores)]:
        if cpu not in mine:
            raise InputError(f"CPU {cpu} cannot be used", where, f"choose from {', '.join(map(str, mine))}")
    try:
        for program in plan.program:
            plan.cpus(program, beside=True)
        usable(plan.sources)
    except InputError as error:
        raise InputError(error.what, where, error.fix) from None
