"""Predict jobs that share a node from their profiles: speeds, gains, and the best division.

The bridge from profiles (IPC and bandwidth against ways, as measured alone) to the surfaces of optimise/: relative CPI
at w ways is split into a part that does not wait for memory and one that does, mu of the time with the whole cache. mu
is fitted to how CPI follows traffic as ways are taken away, and leans on "the share of what its cores could draw" where
the curves say little. The curve of CPI is then met exactly; traffic between ways is as good as the fit. Everything kept
here can be computed again from the tenants: nothing depends on earlier calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cohabit.model.cluster import NodeGroup
from cohabit.model.mix import Floats, Ints, Mix
from cohabit.model.profile import Profile, Tenant, capped_gbs, stream_gbs
from cohabit.optimise import arrivals
from cohabit.optimise.arrivals import EMPTY, Residents
from cohabit.optimise.division import WEIGHTED, Tables, make_work
from cohabit.optimise.grouping import clustered
from cohabit.optimise.law import HIGHEST_LOAD, latency, rate_of
from cohabit.optimise.memo import Valuer, make_memo
from cohabit.optimise.node import undivided
from cohabit.optimise.tables import Problem, tables_of
from cohabit.optimise.ways import USUAL_GROUPS, Limits

FREQ_GHZ = 1.0 / rate_of(1.0)  # one unit of traffic is one GB/s at relative IPC 1
NO_LIMIT_GBS = 1e9  # of memory, where the machine states none
LEAST_MU, PRIOR_MU, PRIOR_WEIGHT = 0.05, 0.3, 0.05
MEMO = 2**16
Shares = list[tuple[int, int]]  # (first way, ways); jobs that share a mask share the ways


class Forecast:
    """One kind of node. Tenants alike in program, cores and bound are one kind of job."""

    def __init__(self, node: NodeGroup) -> None:
        assert node.ways, "a forecast needs a cache"
        self.node = node
        self.buckets = node.ways * -(-node.cores // node.ways)  # a bucket for every job even where cores outnumber ways
        groups = max(node.closids - 1, 1) if node.closids else USUAL_GROUPS  # one class is the kernel's own
        self.limits = Limits(node.ways, node.min_ways, groups).checked("cluster")
        self._kinds: dict[tuple[object, ...], tuple[int, Profile]] = {}
        self._rows: list[tuple[Floats, float, float, float]] = []  # traffic by bucket, cpi0, cost, bound
        self._tables: Tables | None = None
        self._work, self._memo = make_work(node.cores + 1, self.buckets), make_memo(MEMO)
        self._shares: dict[tuple[int, ...], Shares] = {}
        self._pairs: dict[tuple[int, int], tuple[float, float]] = {}

    @property
    def seats(self) -> int:
        """Return how many jobs a node can have: a core and a bucket each."""
        return min(self.node.cores, self.buckets)

    def knows(self, tenant: Tenant) -> bool:
        """Return whether there is a profile to use."""
        measured = None if tenant.profile is None else tenant.profile.at_scale(tenant.scale)
        return measured is not None and measured.complete

    def kind_of(self, tenant: Tenant) -> int:
        """Return the number of this kind of tenant; a program measured again becomes another kind."""
        assert tenant.profile is not None
        about = (tenant.program, tenant.profile.owner, tenant.profile.processes)
        key = (*about, tenant.cores, tenant.scale, tenant.load, tenant.alpha)
        known = self._kinds.get(key)
        if known is None or known[1] is not tenant.profile:
            known = self._kinds[key] = (len(self._rows), tenant.profile)
            self._rows.append((*surface(tenant, self.node, self.buckets), tenant.alpha))
            self._tables = None
        return known[0]

    def tables(self) -> Tables:
        """Return all kinds so far. Kinds are only added, so that the memo stays valid."""
        if self._tables is None:
            self._tables = tables_of(self._mix())
        return self._tables

    def gains(self, nodes: Residents, places: Ints, newcomer: int) -> Floats:
        """Return what the nodes at these places would gain from a newcomer, in speeds relative to running alone."""
        gained: Floats = arrivals.gains(nodes, places, newcomer, self._valuer())
        return gained

    def losses(self, mix: Ints) -> Floats:
        """Return what the node would lose without each of its tenants."""
        lost: Floats = arrivals.losses(mix, self._valuer())
        return lost

    def describe(self, nodes: Residents, place: int) -> None:
        """Compute what `gains` needs to know of a node in advance."""
        arrivals.describe(nodes, place, self._valuer())

    def _valuer(self) -> Valuer:
        return Valuer(self.tables(), WEIGHTED, self._work, self._memo)

    def divide(self, kinds: Sequence[int]) -> Shares:
        """Return the ways of these tenants, in their order; at most as many different masks as the hardware has."""
        order = np.argsort(np.array(kinds), kind="stable")
        key = tuple(kinds[index] for index in order)
        if key not in self._shares:
            mix = self._mix().only(key)
            problem = Problem(mix, self.tables(), np.array(key, np.int64))
            groups = clustered(problem, np.arange(len(key)), self.limits).groups
            ways: Shares = [(0, 0)] * len(key)
            for group in groups:
                for place in group.jobs:
                    ways[place] = (group.first_way, group.ways)
            self._shares[key] = ways
        found: Shares = [(0, 0)] * len(kinds)
        for place, index in enumerate(order):
            found[index] = self._shares[key][place]
        return found

    def undivided_pair(self, first: int, second: int) -> tuple[float, float]:
        """Return the speeds of two tenants that share an undivided cache, relative to running alone."""
        if (first, second) not in self._pairs:
            problem = Problem(self._mix().only([first, second]), self.tables(), np.array([first, second]))
            found = undivided(problem, [0, 1])
            speeds = dict(zip(found.jobs.tolist(), found.speeds.tolist(), strict=True))
            self._pairs[first, second] = speeds[0], speeds[1]
        return self._pairs[first, second]

    def _mix(self) -> Mix:
        traffic, cpi0, cost, bound = zip(*self._rows, strict=True)
        cap = min(stream_gbs(self.node, self.node.cores), NO_LIMIT_GBS)
        names = tuple(str(number) for number in range(len(self._rows)))
        return Mix(
            1,
            self.node.cores,
            self.buckets,
            cap,
            FREQ_GHZ,
            names,
            np.array(traffic),
            np.array(cpi0),
            1000.0 * np.array(cost),
            np.array(bound),
        )


class Kept:
    """Kinds of the residents of every class of nodes, computed again when the residents of a class change.

    A new set of residents is always a new tuple, so that comparing its identity is enough.
    """

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast
        self.seen: list[tuple[int, ...] | None] = []
        self.known = np.zeros(0, np.bool_)
        self.nodes = Residents(np.full((0, forecast.seats), EMPTY, np.int64), np.zeros((2, 0), np.uint64), np.zeros(0))

    def grow(self, classes: int) -> None:
        """Make room for so many classes."""
        more = classes - len(self.seen)
        if more > 0:
            self.seen += [None] * more
            self.known = np.concatenate([self.known, np.zeros(more, np.bool_)])
            kinds, words, values = self.nodes
            self.nodes = Residents(
                np.concatenate([kinds, np.full((more, kinds.shape[1]), EMPTY, np.int64)]),
                np.concatenate([words, np.zeros((2, more), np.uint64)], axis=1),
                np.concatenate([values, np.zeros(more)]),
            )

    def note(self, index: int, residents: tuple[int, ...], kinds: Sequence[int | None]) -> None:
        """Record the residents the class has now; their kinds are None where no profile is known."""
        self.seen[index], self.known[index] = residents, None not in kinds
        if None in kinds:
            return
        self.nodes.kinds[index] = EMPTY
        self.nodes.kinds[index, : len(kinds)] = kinds
        if kinds:
            self._forecast.describe(self.nodes, index)
        else:
            self.nodes.words[:, index], self.nodes.values[index] = 0, 0.0


class Forecasts:
    """One forecast for every kind of node, made at its first use."""

    def __init__(self) -> None:
        self._known: dict[NodeGroup, Forecast] = {}

    def of(self, node: NodeGroup) -> Forecast:
        """Return the forecast for such nodes."""
        if node not in self._known:
            self._known[node] = Forecast(node)
        return self._known[node]


def surface(tenant: Tenant, node: NodeGroup, buckets: int) -> tuple[Floats, float, float]:
    """Return traffic per unit of progress by bucket, CPI without waits, and the cost of traffic; CPI alone is 1."""
    assert tenant.profile is not None
    measured = tenant.profile.at_scale(tenant.scale)
    assert measured is not None and measured.ipc is not None and measured.bandwidth_gbs is not None
    most, sizes = node.ways, np.linspace(0.0, node.ways, buckets + 1)
    full = max(measured.ipc.at(most), 1e-9)
    cpi = np.array([full / max(measured.ipc.at(ways), 1e-3 * full) for ways in sizes])
    gbs = np.array([capped_gbs(measured.bandwidth_gbs.at(ways), tenant.load, node, tenant.cores)[0] for ways in sizes])
    cap = min(stream_gbs(node, node.cores), NO_LIMIT_GBS)
    waiting = np.array([latency(min(one / cap, HIGHEST_LOAD)) for one in gbs])
    traffic = np.maximum(gbs * cpi, 1e-6)
    peak = stream_gbs(node, tenant.cores)
    prior = min(1.0, gbs[-1] / peak) if np.isfinite(peak) else PRIOR_MU
    more = traffic * waiting / (traffic[-1] * waiting[-1]) - 1.0
    products = (more * (cpi - 1.0)).sum(), (more * more).sum()  # @ adds in a different order on every processor
    fitted = (products[0] + PRIOR_WEIGHT * prior) / (products[1] + PRIOR_WEIGHT)
    mu = float(np.clip(fitted, LEAST_MU, 1.0))
    stalled = np.maximum(1.0 + (cpi - 1.0) / mu, 0.0)  # makes CPI at every size equal to the measured one
    return traffic[-1] * stalled, 1.0 - mu, mu / float(traffic[-1] * waiting[-1])
