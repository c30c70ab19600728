"""`cohabit node serve` on a machine whose resctrl is the enforcing fake.

Call it as python -m tests.backend.slurm.node_serve FILE serve

After every look the daemon makes, FILE says what is in the mount: for every group its schemata and its tasks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from cohabit.agent.resctrl.files import Mount
from cohabit.agent.topology import CacheDomain, Core, Topology
from cohabit.app.steer import node_agent
from cohabit.app.steer.node_agent import Machine, NodeDaemon
from cohabit.cli import node
from cohabit.whole_files import replacing
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_machines import HASWELL

CORES = 28
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
    fake = FakeResctrl(lambda task: Path("/proc", str(task)).exists(), machine=HASWELL)
    return fake, Machine(topology(), fake, lambda: Mount(ROOT), "x86_64")


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
