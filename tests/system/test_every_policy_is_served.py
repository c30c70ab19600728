"""Everything that can be simulated can be served: a living controller with real jobs for every policy by name.

Where a policy shares nodes, two of the jobs end well only if they run at the same time on the same node. Where it
divides the cache, they do so with resctrl mounted (the enforcing fake), and in classes of their own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from cohabit.agent.resctrl.files import Mount
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve import serving
from cohabit.app.serve.serving import ServeConfig, Service, verify_journal
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Launch
from cohabit.model.curve import Curve
from cohabit.model.event import ProfileLearned
from cohabit.model.job import Job
from cohabit.model.profile import ScaleProfile
from cohabit.model.units import SECOND
from cohabit.policy.placement.pair import METHODS, MISSES
from cohabit.policy.registry import BACKFILLS, BUNDLES, GATES, ORDERS, PARTITIONS, PLACEMENTS
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_faults import FaultyResctrl
from tests.support.resctrl_machines import INTEL
from tests.support.resctrl_mount import can_mount, mounted

CORES = len(os.sched_getaffinity(0))
OVER = ("done", "failed", "killed", "cancelled", "lost")
PATIENCE_S = 100  # where kernels must be compiled first, a decision takes a while
# Says that it is there, waits for whom it is to meet, and says which cores it has.
MEET = f"""
import os, sys, time
open(sys.argv[1] + "/" + sys.argv[2], "w").close()
until = time.monotonic() + {PATIENCE_S}
while len(sys.argv) > 3 and not os.path.exists(sys.argv[1] + "/" + sys.argv[3]):
    if time.monotonic() > until:
        sys.exit("nobody came")
    time.sleep(0.01)
print(os.environ["COHABIT_NODES"], *sorted(os.sched_getaffinity(0)))
"""


class Case(NamedTuple):
    """One policy to be served; whether two of its jobs meet on a node, and whether its cache is divided then."""

    label: str
    policy: PolicyConfig
    meets: bool
    oversubscribe: bool
    divides: bool


def case(label: str, **keys: object) -> Case:
    """What is to be expected of it. Programs are known: nobody has to be measured alone first."""
    policy = PolicyConfig(**keys, learn=False)  # type: ignore[arg-type]
    bundle = BUNDLES[policy.name][0]
    placement = str(policy.placement or bundle["placement"])
    usual = PLACEMENTS[placement].partitions
    partition = policy.partition or bundle.get("partition") or (usual[0] if usual else "none")
    return Case(label, policy, placement != "exclusive", placement == "pair",
                partition in PARTITIONS and placement in ("spread", "shepherd"))  # fmt: skip


def cases() -> Iterator[tuple[Case, bool]]:
    """All of them; those besides the bundles are slow."""
    for name in BUNDLES:
        yield case(name, name=name), False
    for name in PLACEMENTS:
        yield case(f"placement-{name}", name="ce", placement=name), True
    for name in ORDERS:
        yield case(f"order-{name}", order=name), True
    for name in BACKFILLS:
        yield case(f"backfill-{name.strip('<>')}", backfill="2" if name == "<depth>" else name), True
    for name in METHODS:
        yield case(f"pairing-{name}", name="pair-greedy", pairing=name), True
    for name in GATES:
        yield case(f"gate-{name}", gate=name), True
    for name in (*PARTITIONS, "none"):
        for placement, entry in PLACEMENTS.items():
            if name in entry.partitions:
                yield case(f"partition-{name}-{placement}", name="ce", placement=placement, partition=name), True


ALL = [pytest.param(one, id=one.label, marks=[pytest.mark.slow] if slow else []) for one, slow in cases()]


def test_nobody_is_forgotten() -> None:
    """A policy that is added to a registry is served here, or this fails."""
    labels = {one.values[0].label for one in ALL}  # type: ignore[union-attr]
    assert set(BUNDLES) <= labels
    for kind, names in (("placement", PLACEMENTS), ("order", ORDERS), ("gate", GATES), ("pairing", METHODS)):
        assert {f"{kind}-{name}" for name in names} <= labels
    assert {label.split("-")[1] for label in labels if label.startswith("partition-")} >= set(PARTITIONS)


def profiles() -> list[ProfileLearned]:
    """Of the programs of the jobs: small ones that go well with everybody."""
    flat, drawn = Curve((1, 32), (1.0, 1.0)), Curve((1, 32), (0.01, 0.01))
    return [
        ProfileLearned(program, 1, ScaleProfile(1, 5.0, flat, drawn, flat, 0.0, {MISSES: misses}))
        for program, misses in (("left", 1e-2), ("right", 1e-4), ("alone", 1e-3))
    ]


def job(name: str, place: Path, meets: str = "", alone: bool = False) -> tuple[Job, Launch]:
    words = (sys.executable, "-I", "-S", "-c", MEET, str(place), name, *([meets] if meets else []))
    return Job(name, 300 * SECOND, processes=1, program=name, exclusive=alone), Launch(words, processes=1)


@pytest.fixture
def resctrl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[FaultyResctrl]:
    """Mounted where a policy divides the cache, and absent where it does not."""
    root = tmp_path / "resctrl"
    root.mkdir()
    fake = FaultyResctrl(FakeResctrl(lambda task: Path("/proc", str(task)).exists(), str(root), machine=INTEL))
    if not request.node.callspec.params["one"].divides:
        yield fake
        return
    if can_mount():
        pytest.skip(can_mount())
    monkeypatch.setattr(serving, "VirtualNodes", partial(VirtualNodes, mount=lambda: Mount(root)))
    monkeypatch.setattr(
        serving, "LocalBackend", partial(LocalBackend, mount=lambda: Mount(root), processor=INTEL.processor)
    )
    with mounted(fake, root):
        yield fake


@pytest.mark.parametrize("one", ALL)
def test_a_policy_is_served(one: Case, tmp_path: Path, resctrl: FaultyResctrl) -> None:
    if one.meets and CORES < 2:
        pytest.skip("needs two cores to share a node")
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    pair = ("right", "left") if one.meets else ("", "")
    # The first has its node to itself until both others wait: who is paired is paired in the queue.
    jobs = [job("alone", meeting, "go", True), job("left", meeting, pair[0]), job("right", meeting, pair[1])]
    config = ServeConfig(tmp_path / "place", 1 if one.meets else 2, one.policy, oversubscribe=one.oversubscribe)

    async def live() -> dict[str, str]:
        service = Service(config)
        await service.open()
        try:
            for fact in profiles():
                await service.controller.tell(fact)
            for work, launch in jobs:
                await service.controller.submit(work, launch)
            (meeting / "go").touch()
            while not set((standing := await service.standing(jobs)).values()) <= set(OVER):
                await asyncio.sleep(0.02)
            return standing
        finally:
            await service.close()

    standing = asyncio.run(asyncio.wait_for(live(), 300))
    said = {name: (tmp_path / "place" / "output" / f"{name}.out").read_text() for name in standing}
    assert standing == dict.fromkeys(("left", "right", "alone"), "done"), said
    if one.meets and not one.oversubscribe:
        left, right = (set(said[name].split()[1:]) for name in ("left", "right"))
        assert not left & right, f"both on {left & right}"
    written = [text for _, path, text in resctrl.changes if path.name == "schemata"]
    assert bool(written) == one.divides, resctrl.changes
    assert verify_journal(config).batches > 0
