"""Unseen programs, drawn from the specification's priors (5.6.3), to check that the results are not chance.

Five scaling, four neutral and three compact ones, like the paper's. The ways for 90 % of the speed are uniform from 2
to 19, the bandwidth there log-uniform from 0.1 to 110 GB/s; speedups follow the class. Names carry no meaning.
"""

from __future__ import annotations

import numpy as np

from cohabit.model.curve import Curve
from cohabit.model.profile import COMPACT, NEUTRAL, SCALING
from cohabit.model.program import Program
from cohabit.sim.streams import stream

COUNTS = {SCALING: 5, NEUTRAL: 4, COMPACT: 3}
POINTS = (2, 4, 8, 20)
SINGLE_NODE = 2  # of the compact ones, as in the paper


def hidden_programs(seed: int) -> dict[str, Program]:
    """Twelve programs by name."""
    rng = stream(seed, "hidden programs")
    programs: dict[str, Program] = {}
    for kind, count in COUNTS.items():
        for number in range(count):
            name = f"P{len(programs) + 1:02d}"
            programs[name] = _program(rng, name, kind, kind == COMPACT and number < SINGLE_NODE)
    return programs


def _program(rng: np.random.Generator, name: str, kind: str, single_node: bool) -> Program:
    needed = int(rng.integers(2, 20))
    gbs = float(np.exp(rng.uniform(np.log(0.1), np.log(110.0))))
    speedups = {1: 1.0} if single_node else _speedups(rng, kind)
    # mu, the share of time spent waiting for memory: about bandwidth over what 16 cores can draw, with some scatter
    mu = float(np.clip(gbs / 114.8 + rng.normal(0.0, 0.1), 0.0, 0.95))
    slope = float(rng.uniform(0.9, 1.4))  # bandwidth with few ways over bandwidth with all
    return Program(
        name=name,
        ce_time_s=float(np.exp(rng.uniform(np.log(50.0), np.log(1200.0)))),
        mu=mu,
        ipc=Curve(POINTS, _ipc(rng, needed)),
        bandwidth_gbs=Curve(POINTS, _falling(gbs, slope)),
        single_node=single_node,
        power_of_two_only=bool(rng.random() < 5 / 12),
        speedup=speedups,
    )


def _ipc(rng: np.random.Generator, needed: int) -> tuple[float, ...]:
    """Relative IPC at 2, 4, 8 and 20 ways that reaches 0.9 at exactly `needed` ways by linear interpolation."""
    first = float(rng.uniform(0.35, 0.85))
    if needed <= 2:
        return (*sorted(float(value) for value in rng.uniform(0.9, 1.0, 3)), 1.0)
    right = next(point for point in POINTS if point >= needed)
    left = POINTS[POINTS.index(right) - 1]
    # between two samples the line crosses 0.9 in (needed - 1, needed]
    place = (needed - float(rng.uniform(0.05, 0.95)) - left) / (right - left)
    top = 1.0 if right == POINTS[-1] else float(rng.uniform(0.905, 0.98))
    bottom = (0.9 - place * top) / (1.0 - place)
    values = []
    for point in POINTS:
        if point < left:
            values.append(min(first, bottom))
        elif point == left:
            values.append(bottom)
        elif point == right:
            values.append(top)
        else:
            values.append(float(rng.uniform(values[-1], 1.0)) if point != POINTS[-1] else 1.0)
    rising = np.maximum.accumulate(np.clip(values, 0.05, 1.0))
    return tuple(float(value) for value in rising)


def _falling(gbs: float, slope: float) -> tuple[float, ...]:
    shares = (1.0, 0.75, 0.45, 0.0)
    return tuple(min(110.0, gbs * (1.0 + (slope - 1.0) * share)) for share in shares)


def _speedups(rng: np.random.Generator, kind: str) -> dict[int, float]:
    if kind == NEUTRAL:
        return {1: 1.0} | {scale: 1.0 + float(rng.uniform(0.0, 0.045)) for scale in (2, 4, 8)}
    if kind == COMPACT:
        first = float(rng.uniform(0.7, 0.92))
        return {1: 1.0, 2: first, 4: first * 0.92, 8: first * 0.85}
    best = float(rng.uniform(1.1, 1.45))
    if rng.random() < 0.2:  # a fifth peaks early, as CG does
        return {1: 1.0, 2: best, 4: 1.0 + (best - 1.0) * 0.6, 8: 1.0 + (best - 1.0) * 0.2}
    return {1: 1.0, 2: 1.0 + (best - 1.0) * 0.55, 4: 1.0 + (best - 1.0) * 0.85, 8: best}
