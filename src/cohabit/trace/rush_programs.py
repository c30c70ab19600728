"""The seven applications of RUSH's control jobs (IPDPS 2022): their demand on network and filesystem, and how much
they are slowed. The paper names them and their number of nodes, and says which vary most; it publishes no profile.

Every number below is assumed, from what each code is known to do: SWFFT is all transposes, AMG many small messages,
Laghos and sw4lite exchange halos, LBANN reduces gradients and reads samples, Kripke sweeps and PENNANT mostly compute.
Order and size follow the paper where it can: Laghos, LBANN and sw4lite are the most sensitive, Kripke and AMG the
least of those that communicate. Run times of some minutes follow from R30: 150 to 190 jobs of 16 nodes in 30 to 50
minutes on 480 nodes. Nothing here was tuned to a result, and must not be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

WEAK, STRONG = "weak", "strong"
USUAL_NODES = 16
GROWTH = {WEAK: 0.25, STRONG: 0.5}  # assumed: sensitivity goes with (nodes / 16) to this power
EFFICIENCY = 0.9  # assumed: strong scaling from 16 to 32 nodes is 2^0.9 times as fast
WEAK_COST = 0.05  # assumed: and weak scaling takes this much longer with each doubling


@dataclass(frozen=True)
class Temper:
    """One application, or one at another number of nodes."""

    name: str
    workload_type: str  # compute, network or io; set by hand, as in the paper
    run_s: float  # undisturbed
    network: float  # of its links it uses
    filesystem: float
    network_sensitivity: float  # by how much it is slower when the network is just saturated
    filesystem_sensitivity: float
    own: float  # deviation of the logarithm of its run time from run to run, whatever the weather
    nodes: int = USUAL_NODES
    application: str = ""

    @property
    def app(self) -> str:
        """The application without its size."""
        return self.application or self.name


TEMPERS: tuple[Temper, ...] = (
    Temper("Kripke", "compute", 330.0, 0.20, 0.02, 0.20, 0.04, 0.010),
    Temper("AMG", "network", 300.0, 0.35, 0.02, 0.25, 0.04, 0.010),
    Temper("Laghos", "network", 360.0, 0.30, 0.05, 0.60, 0.12, 0.012),
    Temper("SWFFT", "network", 270.0, 0.60, 0.03, 0.45, 0.08, 0.010),
    Temper("PENNANT", "compute", 320.0, 0.20, 0.02, 0.22, 0.05, 0.010),
    Temper("sw4lite", "network", 340.0, 0.30, 0.15, 0.50, 0.15, 0.012),
    Temper("LBANN", "io", 380.0, 0.35, 0.40, 0.45, 0.40, 0.015),
)
APPLICATIONS = tuple(one.name for one in TEMPERS)


def scaled(one: Temper, nodes: int, scaling: str) -> Temper:
    """The application on another number of nodes."""
    if nodes == one.nodes:
        return one
    times = nodes / one.nodes
    run_s = one.run_s * (times**-EFFICIENCY if scaling == STRONG else 1.0 + WEAK_COST * math.log2(times))
    grown = times ** GROWTH[scaling]
    return replace(
        one,
        name=f"{one.name}.{scaling}{nodes}",
        run_s=run_s,
        nodes=nodes,
        application=one.name,
        network_sensitivity=one.network_sensitivity * grown,
        filesystem_sensitivity=one.filesystem_sensitivity * grown,
    )


def by_name(tempers: Sequence[Temper]) -> Mapping[str, Temper]:
    """Return the applications by name."""
    return {one.name: one for one in tempers}
