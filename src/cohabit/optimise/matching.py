"""Form pairs (and larger groups) of jobs that share nodes, from the degradations they cause each other.

Entry (i, j) of a degradation matrix is the percentage by which job i slows beside job j. Optimal pairs are a perfect
matching of least total weight max(D_ij, D_ji) (Intelligent Colocation, section II-C); greedy pairs take the cheapest
pair first; saving pairs maximise the seconds gained against running the jobs one after the other, and leave a pair that
gains nothing apart. All are deterministic functions of arrays: no clock, no files, no randomness, usable in a decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cohabit.model.mix import Floats, Ints

THRESHOLD_PCT = 100.0  # two jobs that share all cores equally each slow by 100 %: beyond, one after the other is faster
PRECISION = 2.0**44  # weights as whole numbers of this resolution; far below what a sum of floats can tell apart
LEAST_GAIN = 1e-9  # of the largest entry: what a change of groups must gain to be worth it
Group = tuple[int, ...]


@dataclass(frozen=True)
class Matching:
    """The decision, by row of the matrix."""

    groups: tuple[Group, ...]  # jobs that run together, each in rising order, the groups by their first member
    weights: tuple[float, ...]  # of each group: the largest percentage by which a member slows
    alone: Group
    total_matched: float  # over all groups before the threshold

    @property
    def total(self) -> float:
        """The total weight of the groups that are kept."""
        return float(sum(self.weights))


def pair_weights(degradation: Floats) -> Floats:
    """The degradation graph: weight of i and j together, the larger of what they do to each other."""
    weights = np.maximum(degradation, degradation.T)
    np.fill_diagonal(weights, 0.0)
    return np.ascontiguousarray(weights)


def perfect_pairs(cost: Floats) -> list[Group]:
    """The perfect matching of least total cost; where the count is odd, one job stays out, at no cost."""
    from cohabit.optimise.blossom import heaviest_perfect_matching

    count = len(cost)
    if count < 2:
        return []
    even = count + count % 2
    padded = np.zeros((even, even))
    padded[:count, :count] = cost
    np.fill_diagonal(padded, 0.0)
    padded -= padded.min()  # only differences matter where all are matched; the diagonal is never looked at
    reach = float(padded.max()) or 1.0
    gain = np.rint((reach - padded) * (PRECISION / reach)).astype(np.int64)
    partner = heaviest_perfect_matching(gain)
    return [(i, int(j)) for i, j in enumerate(partner.tolist()) if i < j < count]


def all_pairs_sorted(weights: Floats) -> tuple[Ints, Ints]:
    """First and second job of all pairs, the cheapest first; ties in the order of the jobs."""
    first, second = np.triu_indices(len(weights), 1)
    order = np.argsort(weights[first, second], kind="stable")
    return first[order], second[order]


def lowest_pairs(first: Ints, second: Ints, count: int) -> list[Group]:
    """Take the cheapest pair whose members are both free, again and again; of an odd count one stays out."""
    from cohabit.optimise.larger_groups import lowest_first

    partner = lowest_first(first, second, count).tolist()
    return [(i, j) for i, j in enumerate(partner) if i < j]


def pair_makespans(degradation: Floats, durations: Floats) -> Floats:
    """Seconds until both jobs are done if they start together: after the first end the other runs at full speed."""
    slowed = durations[:, None] * (1.0 + degradation / 100.0)
    first, second = np.minimum(slowed, slowed.T), np.maximum(slowed, slowed.T)
    longer = np.where(slowed >= slowed.T, durations[:, None], durations[None, :])  # solo time of the job that ends last
    with np.errstate(invalid="ignore", divide="ignore"):
        done = np.where(second > 0, first / second, 1.0)
    return np.asarray(first + (1.0 - done) * longer)


def pair_savings(degradation: Floats, durations: Floats) -> Floats:
    """Seconds gained by running two jobs together instead of one after the other; negative where that is slower."""
    gained = durations[:, None] + durations[None, :] - pair_makespans(degradation, durations)
    np.fill_diagonal(gained, 0.0)
    return gained


def optimal(degradation: Floats, threshold: float = THRESHOLD_PCT) -> Matching:
    """Pairs of least total weight; then pairs above the threshold run alone."""
    weights = pair_weights(degradation)
    return kept(perfect_pairs(weights), weights, threshold)


def greedy(degradation: Floats, threshold: float = THRESHOLD_PCT) -> Matching:
    """The cheapest pair first; then pairs above the threshold run alone."""
    weights = pair_weights(degradation)
    return kept(lowest_pairs(*all_pairs_sorted(weights), len(weights)), weights, threshold)


def saving(degradation: Floats, durations: Floats, threshold: float = np.inf) -> Matching:
    """Pairs of largest total saving in seconds; pairs that save nothing, or exceed the threshold, are never made."""
    weights, gained = pair_weights(degradation), pair_savings(degradation, durations)
    gained = np.where(weights <= threshold, np.maximum(gained, 0.0), 0.0)
    pairs = [pair for pair in perfect_pairs(-gained) if gained[pair] > 0.0]
    return kept(pairs, weights, np.inf)


def kept(pairs: Iterable[Group], weights: Floats, threshold: float) -> Matching:
    """Return the pairs within the threshold; all other jobs, and those without a partner, are alone."""
    ordered = sorted(pairs)
    within = [pair for pair in ordered if weights[pair] <= threshold]
    return _matching(
        within, [float(weights[pair]) for pair in within], len(weights), float(sum(weights[pair] for pair in ordered))
    )


def _matching(groups: Sequence[Group], weights: Sequence[float], count: int, total_matched: float) -> Matching:
    together = {job for group in groups for job in group}
    alone = tuple(job for job in range(count) if job not in together)
    return Matching(tuple(groups), tuple(weights), alone, total_matched)


def grouped(degradation: Floats, size: int, threshold: float = THRESHOLD_PCT) -> Matching:
    """Groups of three or four of small total slowdown; one above the threshold falls back to pairs of its members."""
    from cohabit.optimise.larger_groups import fill_greedily, improve, worst_slowdown

    weights = pair_weights(degradation)
    slots = fill_greedily(*all_pairs_sorted(weights), len(weights), size, degradation)
    improve(slots, degradation, np.zeros(len(weights)), False, LEAST_GAIN * float(np.abs(weights).max(initial=0.0)))
    found: list[Group] = []
    before = 0.0
    for members in sorted(tuple(sorted(row[row >= 0].tolist())) for row in slots):
        cost = float(worst_slowdown(np.array(members, np.int64), degradation))
        before += cost
        if cost <= threshold:
            split = [members]
        else:
            inside = optimal(degradation[np.ix_(members, members)], threshold)
            split = [tuple(members[place] for place in pair) for pair in inside.groups]
        found += [group for group in split if len(group) > 1]
    costs = [float(worst_slowdown(np.array(group, np.int64), degradation)) for group in found]
    return _matching(found, costs, len(weights), before)


def grouped_saving(degradation: Floats, durations: Floats, size: int, threshold: float = np.inf) -> Matching:
    """Groups of up to `size` jobs of large total saving, found from the best pairs: never worse than those."""
    from cohabit.optimise.larger_groups import EMPTY, improve, worst_slowdown

    begun = saving(degradation, durations, threshold)
    slots = np.full((len(begun.groups) + len(begun.alone) + 1, size), EMPTY, np.int64)
    for row, group in enumerate([*begun.groups, *((job,) for job in begun.alone)]):
        slots[row, : len(group)] = group
    gains = improve(slots, degradation, durations, True, LEAST_GAIN * float(durations.max(initial=0.0)))
    found: list[Group] = []
    for slot, gain in zip(slots, gains, strict=True):
        members = tuple(sorted(slot[slot >= 0].tolist()))
        if gain < 0.0 and worst_slowdown(np.array(members, np.int64), degradation) <= threshold:
            found.append(members)
        elif len(members) > 1:
            inside = saving(degradation[np.ix_(members, members)], durations[list(members)], threshold)
            found += [tuple(members[place] for place in pair) for pair in inside.groups]
    found.sort()
    costs = [float(worst_slowdown(np.array(group, np.int64), degradation)) for group in found]
    return _matching(found, costs, len(durations), sum(costs))


def makespan_s(matching: Matching, degradation: Floats, durations: Floats) -> float:
    """Seconds one node needs for all of it: group after group, then the jobs alone."""
    from cohabit.optimise.larger_groups import group_makespan

    total = float(durations[list(matching.alone)].sum())
    for group in matching.groups:
        total += float(group_makespan(np.array(group, np.int64), degradation, durations))
    return total
