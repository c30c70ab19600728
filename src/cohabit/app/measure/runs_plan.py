"""PROGRAMS.toml of `cohabit measure runs`: which programs run on which timetable, beside which load.

The format is in docs/variability.md. Everything that can be refused is refused here, before the first program starts.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from cohabit.agent.canary.running import LIMIT_S, REDUCE_ROUNDS, RING_ROUNDS, SIZE_MB, Canary
from cohabit.agent.launch.process import find_command
from cohabit.app.measure.programs import Program, check_command, check_cpus, check_names
from cohabit.app.scenario.typed_toml import read_typed
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
    plan, folder = read_typed(path, RunsPlan, "docs/variability.md"), path.parent.absolute()
    programs = [msgspec.structs.replace(one, cwd=str(folder / one.cwd)) for one in plan.program]
    load = plan.interference
    if load is not None:
        load = msgspec.structs.replace(load, cwd=str(folder / load.cwd))
    plan = msgspec.structs.replace(plan, program=programs, interference=load)
    _check(plan, str(path))
    return plan


def _check(plan: RunsPlan, where: str) -> None:
    check_names(plan.program, where, EXAMPLE)
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
    for name, one in started:
        check_command(name, one.command, one.env, one.cwd, where)
        check_cpus(one.cores, where)
    if plan.launcher == SLURM:
        if plan.canary is not None:
            fix = "leave canary out, or start it inside the job's own script"
            raise InputError("a canary sent from here would not feel the nodes of a Slurm job", where, fix)
        try:
            find_command(["sbatch"])
        except InputError:
            what = "launcher is slurm, but there is no sbatch here"
            raise InputError(what, where, "run it on a submit host") from None
    if plan.canary is not None:
        try:
            plan.canary.canary().check()
        except InputError as error:
            raise InputError(error.what, where, error.fix) from None
