"""PROGRAMS.toml of `cohabit measure runs`: which programs run on which timetable, beside which load.

The format is in docs/variability.md. Everything that can be refused is refused here, before the first program starts.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import msgspec

from cohabit.agent.canary.running import LIMIT_S, REDUCE_ROUNDS, RING_ROUNDS, SIZE_MB, Canary
from cohabit.agent.cores import allowed_cores
from cohabit.agent.launch.process import find_command
from cohabit.app.measure.programs import Program
from cohabit.app.scenario.typed_toml import refuse_untrusted
from cohabit.model.errors import InputError
from cohabit.model.telemetry import WORKLOAD_TYPES

EXAMPLE = '[[program]] name = "disk", workload_type = "io", command = ["cohabit", "exercise", "disk", "--work", "1000"]'
LOCAL, SLURM = LAUNCHERS = ("local", "slurm")


class TimedProgram(Program, frozen=True, forbid_unknown_fields=True):
    """A program with its type of work."""

    workload_type: str = ""


class Interference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A load that comes and goes: `off_s` of rest, then `on_s` of it, again and again."""

    command: list[str]
    on_s: float
    off_s: float
    cores: list[int] = []
    env: dict[str, str] = {}
    cwd: str = "."


class CanaryPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A canary before every run."""

    ranks: int = 2
    size_mb: float = SIZE_MB
    ring_rounds: int = RING_ROUNDS
    reduce_rounds: int = REDUCE_ROUNDS
    launcher: tuple[str, ...] = ("mpirun",)
    limit_s: float = LIMIT_S

    def canary(self) -> Canary:
        """Return it as the node's agent takes it."""
        return Canary(self.ranks, self.size_mb, self.ring_rounds, self.reduce_rounds, self.launcher, self.limit_s)


class RunsPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. A round runs every program once; rounds begin `interval_s` apart, or when the one before has ended."""

    program: list[TimedProgram] = []
    interval_s: float = 600.0
    repeats: int = 10
    window_s: float = 300.0
    limit_s: float = 3600.0
    launcher: str = LOCAL
    sbatch: list[str] = []  # further options of sbatch
    interference: Interference | None = None
    canary: CanaryPlan | None = None

    def digest(self) -> str:
        """Return a digest of everything that run times and features depend on; rounds may be added later."""
        rest = msgspec.structs.replace(self, repeats=0)
        return hashlib.blake2b(msgspec.json.encode(rest), digest_size=8).hexdigest()


def read_runs_plan(path: Path) -> RunsPlan:
    """Read and check it; folders in it are relative to it."""
    refuse_untrusted(path)
    where = str(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file", where, "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
        raise InputError(f"cannot be read: {reason}", where, "give a TOML file of programs") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}", where, "correct that line") from error
    try:
        plan = msgspec.convert(data, RunsPlan, strict=True)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        key = place.strip("`$.") or "top level"
        raise InputError(message[:1].lower() + message[1:], f"{where}: {key}", "see docs/variability.md") from error
    folder = path.parent.absolute()
    programs = [msgspec.structs.replace(one, cwd=str(folder / one.cwd)) for one in plan.program]
    load = plan.interference
    if load is not None:
        load = msgspec.structs.replace(load, cwd=str(folder / load.cwd))
    plan = msgspec.structs.replace(plan, program=programs, interference=load)
    _check(plan, where)
    return plan


def _check(plan: RunsPlan, where: str) -> None:
    if not plan.program:
        raise InputError("names no programs", where, f"add at least one: {EXAMPLE}")
    names = [one.name for one in plan.program]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the name {name!r} stands there {names.count(name)} times", where, "names must differ")
        if not name.strip() or any(sign in name for sign in ',"\n'):
            raise InputError(f"the name {name!r} cannot be used", where, "give letters, digits and dashes")
    for one in plan.program:
        if one.workload_type not in WORKLOAD_TYPES:
            what = f"the workload_type of {one.name!r} is {one.workload_type!r}"
            raise InputError(what, where, f"write one of {', '.join(WORKLOAD_TYPES)}")
    if plan.launcher not in LAUNCHERS:
        raise InputError(f"launcher is {plan.launcher!r}", where, f"write one of {', '.join(LAUNCHERS)}")
    if plan.repeats < 1 or plan.interval_s < 0 or not plan.interval_s < 1e8:
        raise InputError("repeats must be 1 or more, interval_s 0 or more", where, "correct them")
    if not 0 < plan.limit_s < 1e7 or not 1 <= plan.window_s <= 86_400:
        raise InputError("limit_s must be above 0, window_s between 1 and 86400", where, "correct them")
    load = plan.interference
    if load is not None and (not 0 < load.on_s < 1e7 or not 0 <= load.off_s < 1e7):
        raise InputError("interference needs on_s above 0 and off_s of 0 or more", where, "correct them")
    _check_host(plan, where)


def _check_host(plan: RunsPlan, where: str) -> None:
    """Refuse folders, commands and CPUs that do not exist here; a Slurm job's command may exist on its nodes only."""
    started: list[tuple[str, TimedProgram | Interference]] = []
    if plan.launcher == LOCAL:
        started += [(one.name, one) for one in plan.program]
    if plan.interference is not None:
        started.append(("interference", plan.interference))
    mine = allowed_cores()
    for name, one in started:
        if not one.command or not one.command[0] or any("\0" in word for word in one.command):
            raise InputError(f"the command of {name!r} is empty or has a zero byte", where, "give a list of words")
        if not Path(one.cwd).is_dir():
            raise InputError(f"the folder of {name!r} does not exist", where, "correct its cwd")
        for cpu in one.cores:
            if cpu not in mine:
                raise InputError(f"CPU {cpu} cannot be used", where, f"choose from {', '.join(map(str, mine))}")
        try:
            find_command(one.command, None if "PATH" not in one.env else one.env, Path(one.cwd))
        except InputError as error:
            raise InputError(f"{name!r}: {error.what}", where, error.fix) from None
    if plan.launcher == SLURM:
        if plan.canary is not None:
            fix = "leave canary out, or start it inside the job's own script"
            raise InputError("a canary sent from here would not feel the nodes of a Slurm job", where, fix)
        try:
            find_command(["sbatch"])
        except InputError:
            raise InputError(
                "launcher is slurm, but there is no sbatch here", where, "run it on a submit host"
            ) from None
    if plan.canary is not None:
        try:
            plan.canary.canary().check()
        except InputError as error:
            raise InputError(error.what, where, error.fix) from None
