"""Send a canary: start the MPI programs, turn the waits of their ranks into nine features, and measure the cost.

The cost is the whole time from start to end, launcher included: the nodes do nothing else for that long, so it is
charged to the schedule (RUSH R51). If MPI is missing there is one message, and everything else works without canaries.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent.launch.process import Request, find_command, launch
from cohabit.model.errors import InputError
from cohabit.model.telemetry import CANARY_TIMES, STATS

SIZE_MB, RING_ROUNDS, REDUCE_ROUNDS = 100.0, 10, 5  # as in the paper
LIMIT_S = 300.0
MOST_MB = 100_000
LAST_WORDS = 200


@dataclass(frozen=True)
class Canary:
    """One canary. `launcher` are the words before the program, such as mpirun or srun with their options."""

    ranks: int = 2
    size_mb: float = SIZE_MB
    ring_rounds: int = RING_ROUNDS
    reduce_rounds: int = REDUCE_ROUNDS
    launcher: tuple[str, ...] = ("mpirun",)
    limit_s: float = LIMIT_S

    def check(self) -> None:
        """Refuse settings that cannot work, before anything starts."""
        if self.ranks < 2:
            raise InputError(f"a canary with {self.ranks} rank has no other rank to send to", "", "take 2 or more")
        if not 0 < self.size_mb <= MOST_MB:
            raise InputError(f"a token of {self.size_mb:g} MB is out of range", "", f"above 0, at most {MOST_MB:,}")
        if self.ring_rounds < 1 or self.reduce_rounds < 1:
            raise InputError("a canary without rounds measures nothing", "", "give 1 or more of each")
        if not self.launcher:
            raise InputError("the launcher is empty", "", "write mpirun, or srun with its options")
        if importlib.util.find_spec("mpi4py") is None:
            raise InputError("a canary needs mpi4py, which is not installed", "", 'pip install "cohabit[mpi]"')
        try:
            find_command(self.launcher)
        except InputError:
            fix = "install OpenMPI (Debian: openmpi-bin), or name another launcher"
            raise InputError(f"there is no {self.launcher[0]} to start MPI programs with", "", fix) from None


@dataclass(frozen=True)
class CanaryResult:
    """The result of a canary."""

    features: Mapping[str, float]  # nine: min, max and mean over ranks of the wait per call
    cost_s: float  # from start to end, to be charged
    inside_s: float  # without starting the launcher and Python
    ranks: int


def command_of(canary: Canary, out: Path) -> tuple[str, ...]:
    """Return the words to execute."""
    first, *rest = canary.launcher
    options: list[str] = []
    if Path(first).name in ("mpirun", "mpiexec") and not rest:
        options = ["--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            options.append("--allow-run-as-root")
    program = (sys.executable, "-m", "cohabit.agent.canary.ranks")
    numbers = (round(canary.size_mb * 1e6), canary.ring_rounds, canary.reduce_rounds)
    return (first, "-n", str(canary.ranks), *options, *rest, *program, *map(str, numbers), str(out))


def send_canary(canary: Canary) -> CanaryResult:
    """Run it now; an InputError says why it could not be run."""
    canary.check()
    with tempfile.TemporaryDirectory(prefix="cohabit-canary-") as folder:
        out, words = Path(folder) / "waits.json", Path(folder) / "stderr"
        with launch(Request(command_of(canary, out), stderr=words)) as running:
            running.release()
            ended = running.wait(canary.limit_s)
            if ended is None:
                running.stop()
                raise InputError(f"the canary did not return in {canary.limit_s:g} s", "", "take a smaller size")
        if ended.status != 0 or not out.exists():
            said = [line.strip() for line in words.read_text(errors="replace").splitlines() if line.strip(" -")]
            why = f": {said[-1][:LAST_WORDS]}" if said else ""
            raise InputError(f"the canary failed with status {ended.status}{why}", "", "try its launcher by hand")
        document = json.loads(out.read_text())
    waits_s = document["waits_s"]
    return CanaryResult(features_of(waits_s), ended.run_s, float(document["inside_s"]), len(waits_s))


def features_of(waits_s: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return nine numbers from [rank][send, receive, all-reduce]."""
    found: dict[str, float] = {}
    for name, column in zip(CANARY_TIMES, zip(*waits_s, strict=True), strict=True):
        own = (min(column), max(column), sum(column) / len(column))
        found |= {f"{name}.{stat}": float(value) for stat, value in zip(STATS, own, strict=True)}
    return found
