"""`cohabit node serve` on a machine whose resctrl is the enforcing fake.

Call it as python -m tests.backend.slurm.node_serve FILE serve

After every look the daemon makes, FILE says what is in the mount: for every group its schemata and its tasks. With
COUNTING in the environment the processor counts, too: programs there need eight ways, and are slower with fewer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from cohabit.agent.node.meter import HARDWARE, Meter
from cohabit.agent.resctrl.files import Mount
from cohabit.agent.resctrl.schemata import parse
from cohabit.agent.sensors.source import Offer, Watch
from cohabit.agent.topology import CacheDomain, Core, Topology
from cohabit.app.steer import node_agent
from cohabit.app.steer.node_agent import Machine, NodeDaemon
from cohabit.cli import node
from cohabit.whole_files import replacing
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_machines import ALL_EVENTS, HASWELL

CORES = 28
COUNTING, NEEDS = "COHABIT_TEST_COUNTING", 8
ROOT = Path("/sys/fs/resctrl")


def topology(cores: int = CORES) -> Topology:
    """Two sockets with one L3 each."""
    half = cores // 2
    return Topology(
        tuple(Core((number,), number // half, number // half, number // half) for number in range(cores)),
        tuple(CacheDomain(one, tuple(range(one * half, (one + 1) * half)), 35 << 20, 20) for one in (0, 1)),
        ((0, 64 << 30), (1, 64 << 30)), tuple(range(cores)), (), (), None,
    )  # fmt: skip


def fake_machine() -> tuple[FakeResctrl, Machine]:
    """Tasks are those that really run here."""
    machine = replace(HASWELL, events=ALL_EVENTS, closids=16) if COUNTING in os.environ else HASWELL
    fake = FakeResctrl(lambda task: Path("/proc", str(task)).exists(), machine=machine)
    return fake, Machine(topology(), fake, lambda: Mount(ROOT), "x86_64")


class Counting:
    """The counters of that processor: what they say follows from the masks of the class a program is in."""

    def __init__(self, fake: FakeResctrl) -> None:
        self.fake = fake

    def offer(self) -> Offer:
        return Offer("counting", True, counters=HARDWARE)

    def attach(self, threads: Sequence[int]) -> Watch:
        return _Counted(self.fake, threads[0])


class _Counted(Watch):
    def __init__(self, fake: FakeResctrl, task: int) -> None:
        self.fake, self.task, self.at_s = fake, task, time.monotonic()
        self.cycles = self.instructions = 0.0

    def sample(self) -> Mapping[str, float]:
        seconds, self.at_s = time.monotonic() - self.at_s, time.monotonic()
        group = self.fake.class_of(self.task)
        ways = next(iter(parse(self.fake.read(ROOT / group / "schemata"))["L3"].values())).bit_count()
        self.cycles += 1e9 * seconds
        self.instructions += min(1.0, ways / NEEDS) * 1e9 * seconds
        moved = int((4e9 if ways < NEEDS else 1e9) * seconds)
        self.fake.tick(self.task, moved, moved, 1 << 20)
        return {"cycles": self.cycles, "instructions": self.instructions}


def contents(fake: FakeResctrl) -> dict[str, dict[str, object]]:
    """Classes and the groups in them, the root's own included (as "")."""
    return {
        name: {
            "schemata": fake.read(ROOT / name / "schemata"),
            "tasks": [int(word) for word in fake.read(ROOT / name / "tasks").split()],
            "groups": fake.names(ROOT / name / "mon_groups"),
        }
        for name in ("", *fake.classes)
    }


def main() -> None:
    """The verb itself, with another machine under it."""
    shown = Path(sys.argv.pop(1))
    fake, machine = fake_machine()
    node_agent.this_machine = lambda: machine
    if COUNTING in os.environ:
        perf = Counting(fake)
        Meter.perf = property(lambda self: perf, lambda self, own: None)  # type: ignore[assignment, misc]
    look = NodeDaemon.step

    def step(self: NodeDaemon, now_s: float) -> None:
        look(self, now_s)
        with replacing(shown) as stream:
            stream.write(json.dumps(contents(fake)).encode())

    NodeDaemon.step = step  # type: ignore[method-assign]
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command(name="serve")(node.serve)
    app()


if __name__ == "__main__":
    main()
