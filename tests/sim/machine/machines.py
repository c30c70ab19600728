"""Programs, nodes and machines for the tests, the same thing once for the product and once for the laws by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from cohabit.model.cluster import NodeGroup
from cohabit.model.command import SetShares, StartJob
from cohabit.model.curve import Curve
from cohabit.model.profile import footprint
from cohabit.model.program import Program, ScaleTruth
from cohabit.sim.machine.machine import Machine
from cohabit.sim.machine.truth import Truth
from tests.sim.machine.laws_by_hand import HandNode

STREAM = ((1, 18.80), (2, 37.17), (4, 70.0), (8, 104.0), (16, 114.8), (28, 118.26))
POINTS = (2, 4, 8, 20)
SCALES = (1, 2, 4, 8)
BY_HAND = HandNode(28, 20, STREAM)


def node_group(count: int = 8, **other: Any) -> NodeGroup:
    return NodeGroup(count, **({"cores": 28, "ways": 20, "min_ways": 2, "bandwidth_gbs": STREAM} | other))


def plain_program(
    ipc: tuple[float, ...] = (0.6, 0.7, 0.9, 1.0),
    gbs: tuple[float, ...] = (60.0, 57.0, 51.0, 43.0),
    speedup: tuple[float, ...] = (1.0, 1.2, 1.3, 1.35),
    mu: float = 0.5,
) -> dict[str, Any]:
    """A program as plain data, for the laws by hand."""
    return {
        "ipc": dict(zip(POINTS, ipc, strict=True)), "bw": dict(zip(POINTS, gbs, strict=True)),
        "speedup": dict(zip(SCALES, speedup, strict=True)), "mu": mu, "per_scale": {},
    }  # fmt: skip


def as_program(name: str, plain: dict[str, Any], ce_time_s: float = 300.0) -> Program:
    """The same for the product."""

    def curve(points: dict[int, float]) -> Curve:
        return Curve(tuple(sorted(points)), tuple(points[way] for way in sorted(points)))

    scales = {k: ScaleTruth(curve(own["ipc"]), curve(own["bw"])) for k, own in plain["per_scale"].items()}
    return Program(
        name, ce_time_s, plain["mu"], curve(plain["ipc"]), curve(plain["bw"]), speedup=plain["speedup"],
        per_scale=scales,
    )  # fmt: skip


FLAT = plain_program((1.0,) * 4, (40.0,) * 4, (1.0,) * 4, 0.0)


def machine_of(
    programs: dict[str, dict[str, Any]], nodes: int = 8, contention: str = "share", q: float = 1.0, **options: Any
) -> Machine:
    known = {name: as_program(name, plain) for name, plain in programs.items()}
    return Machine(Truth(known, [node_group(nodes)], contention, q), **options)


def start_on(
    job_id: str, nodes: list[int], processes: int, scale: int = 1, exclusive: bool = False, **other: Any
) -> StartJob:
    """An order for these very nodes; cores as the footprint has them."""
    assert len(nodes) == footprint(processes, 28, scale).nodes
    cores = footprint(processes, 28, scale).cores
    ranges = tuple((node, 1) for node in sorted(nodes))
    return StartJob(job_id, 1, ranges, 10**12, scale, cores, exclusive, **other)


def shares(nodes: list[int], *jobs: tuple[str, int]) -> SetShares:
    """Masks one after the other, on each of these nodes."""
    masks, first = [], 0
    for name, ways in jobs:
        masks.append((name, first, ways))
        first += ways
    return SetShares(tuple((node, 1) for node in nodes), tuple(masks))


# ---- random programs ------------------------------------------------------------------------------------------------


def random_program(rng: np.random.Generator, rising_demand: bool = False) -> dict[str, Any]:
    """Any cache sensitivity, any bandwidth; demand falls with ways, steeply or not, or rises a little."""
    ipc = np.append(np.sort(rng.uniform(0.2, 1.0, 3)), 1.0)
    full = float(np.exp(rng.uniform(np.log(0.1), np.log(110.0))) if rng.random() < 0.5 else rng.uniform(30.0, 110.0))
    growth = rng.uniform(0.8, 1.0, 4) if rising_demand else 1 + np.cumsum(rng.exponential(0.3, 4))
    gbs = full * (np.sort(growth) if rising_demand else growth[::-1] / growth[0])
    plain = plain_program(
        tuple(map(float, ipc)), tuple(map(float, gbs)), (1.0, *map(float, rng.uniform(0.6, 1.6, 3))),
        float(rng.uniform(0.05, 1.0)),
    )  # fmt: skip
    if rng.random() < 0.4:
        own = np.append(np.sort(rng.uniform(0.3, 1.0, 3)), 1.0)
        plain["per_scale"][int(rng.choice([2, 4, 8]))] = {
            "ipc": dict(zip(POINTS, map(float, own), strict=True)),
            "bw": dict(zip(POINTS, sorted(map(float, rng.uniform(0.1, 60.0, 4)), reverse=True), strict=True)),
        }
    return plain


seeds = st.integers(0, 2**32 - 1)
