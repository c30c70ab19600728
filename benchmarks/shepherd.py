"""Speed and quality of the optimiser: `python -m benchmarks.shepherd`. Programs are drawn from the hidden priors.

What is measured: a proposed swap, whole searches, proven optima of small cases, and jobs that come and go, each beside
its limit. The reference, measured in the same run, is the same method in plain Python (plain_division).
"""

from __future__ import annotations

import numpy as np

from benchmarks import plain_division
from benchmarks.clocks import Clock, asked
from cohabit.app.learn.optimising import get_all_ready
from cohabit.model.mix import Mix
from cohabit.optimise import starts
from cohabit.optimise.division import make_work
from cohabit.optimise.exhaustive import best_division, best_placement
from cohabit.optimise.incremental import Nodes
from cohabit.optimise.memo import HITS, LOOKUPS, Valuer, make_memo, set_value
from cohabit.optimise.node import divided
from cohabit.optimise.schemes import outcome
from cohabit.optimise.search import Budget, default_swaps, search
from cohabit.optimise.tables import Problem, prepare
from cohabit.trace.shepherd_programs import hidden_suite

KINDS = (("20 kinds of programs", 20), ("all different", 0))
SIZES = ((8, 0.2), (64, 2.0), (512, 30.0))  # nodes of 8 jobs, limit in seconds
PROVEN = ((2, 4, 8, 8), (3, 3, 9, 8), (2, 6, 12, 32), (4, 3, 12, 16), (3, 5, 15, 16), (4, 4, 16, 16), (2, 8, 16, 32))
SWAP_US, COLD_US, DECISION_MS, SHARE = 10.0, 60.0, 5.0, 0.995  # limits
PLAIN_SWAPS = 60


def mix_of(seed: int, nodes: int, kinds: int = 0, room: int = 8, jobs: int = 0, buckets: int = 32) -> Mix:
    """Programs nobody has seen: all different, or so many kinds over and over."""
    jobs = jobs or nodes * room
    rng = np.random.default_rng(seed)
    known = hidden_suite(rng, kinds or jobs).with_buckets(buckets)
    rows = rng.integers(0, kinds, jobs) if kinds else np.arange(jobs)
    found = known.only(rows)
    names = tuple(f"j{number}" for number in range(jobs))
    return Mix(nodes, room, buckets, 25.0, 2.0, names, found.mpki, found.cpi0, found.cycles_per_miss)


def judged(value: float, limit: float, unit: str) -> str:
    """A value beside its limit."""
    return f"{value:8.3f} {unit} (limit {limit:g}{'' if value <= limit else ', ABOVE IT'})"


def swaps(clock: Clock) -> None:
    """Cost of a proposed swap at 8 jobs a node and 32 buckets, and what plain Python needs for one."""
    print("cost of a proposed swap, 64 jobs on 8 nodes, 8 jobs x 32 buckets")
    for label, kinds in KINDS:
        problem = prepare(mix_of(1, 8, kinds))
        start = starts.random_start(problem, np.random.default_rng(1))
        plain_us = plain_swap(problem, start, clock)
        print(f"  {label}: plain Python with a dictionary as memo {plain_us:,.0f} us (the reference)")
        for how, margin, count in (("memo and estimates", 0.001, 16384), ("memo only", -1.0, 16384)):
            memo = make_memo(2**18)
            began = clock()
            search(problem, start, 1, Budget(count), memo=memo, margin=margin)
            took = 1e6 * (clock() - began) / count
            limit = SWAP_US if margin >= 0 else COLD_US
            hits = memo.counts[HITS] / memo.counts[LOOKUPS]
            print(f"    {how:<24} {judged(took, limit, 'us')}, hit rate {hits:.3f}, {plain_us / took:,.0f} x")
        took = 1e6 * cold(problem, clock)
        print(f"    {'cold: two divisions':<24} {judged(took, COLD_US, 'us')}, {plain_us / took:,.0f} x")


def plain_of(problem: Problem) -> plain_division.Plain:
    """The same mix for the reference."""
    mix = problem.mix
    rows = zip(mix.mpki.tolist(), mix.cpi0.tolist(), mix.cycles_per_miss.tolist(), strict=True)
    programs = [plain_division.Program(*row) for row in rows]
    return plain_division.Plain(programs, mix.buckets, mix.bandwidth_cap_gbs, mix.freq_ghz)


def plain_swap(problem: Problem, start: np.ndarray, clock: Clock) -> float:
    """Microseconds per swap of the reference; its divisions must be ours."""
    plain = plain_of(problem)
    alone = problem.alone.tolist()
    nodes = [np.flatnonzero(start == node).tolist() for node in range(problem.mix.nodes)]
    for node in nodes:
        ours = divided(problem, node, charged=False).weighted_speedup
        assert abs(plain.divided(node, alone) / ours - 1) < 1e-6, "the reference divides otherwise"
    began = clock()
    plain_division.anneal(plain, alone, nodes, PLAIN_SWAPS, 1)
    return 1e6 * (clock() - began) / PLAIN_SWAPS


def cold(problem: Problem, clock: Clock) -> float:
    """Seconds for two divisions worked out from nothing, inside compiled code: sets that the memo has never met."""
    placements = [starts.random_start(problem, np.random.default_rng(seed)) for seed in range(500)]
    sets = {tuple(np.sort(problem.kind_of[place == 0]).tolist()) for place in placements}
    ordered = [np.array(one) for one in sorted(sets)]
    valuer, found = Valuer(problem.tables, 0, make_work(8, 32), make_memo(2**14)), np.zeros(3)
    set_value(ordered[0], 8, valuer, found)
    spent = []
    for _ in range(2):  # the second time every answer is known: the price of calling from Python
        began = clock()
        for one in ordered[1:]:
            set_value(one, len(one), valuer, found)
        spent.append((clock() - began) / (len(ordered) - 1))
    return 2 * (spent[0] - spent[1])


def sizes(clock: Clock, quick: bool) -> None:
    """Whole searches with the default number of swaps, and what ten times as many would find."""
    print("\nwhole searches, default swaps; quality = value against a search of ten times as many swaps")
    for nodes, limit in SIZES:
        for label, kinds in KINDS:
            problem = prepare(mix_of(2, nodes, kinds))
            start = starts.random_start(problem, np.random.default_rng(2))
            count = default_swaps(len(problem.mix))
            began = clock()
            found = search(problem, start, 2, Budget(count))
            took = clock() - began
            text = "" if quick and nodes > 64 else f", quality {quality(problem, start, found.value, count):.5f}"
            gain = 100 * (found.value / found.start_value - 1)
            print(
                f"  {len(problem.mix):>5} jobs, {nodes:>3} nodes, {label:<20} {judged(took, limit, 's')}, "
                f"{1e6 * took / count:.2f} us/swap, hit rate {found.hits / found.lookups:.3f}, "
                f"gain over start {gain:.2f} %{text}",
                flush=True,
            )


def quality(problem: Problem, start: np.ndarray, value: float, count: int) -> float:
    """Against a much longer search."""
    return value / max(value, search(problem, start, 3, Budget(10 * count)).value)


def optima(quick: bool) -> None:
    """Instances small enough to prove the optimum."""
    print(f"\nproven optima: annealing against the best of all placements (limit {SHARE})")
    for nodes, room, jobs, buckets in PROVEN:
        ratios = []
        for seed in range(3 if quick else 8):
            problem = prepare(mix_of(seed, nodes, 0, room, jobs, buckets))
            start = starts.random_start(problem, np.random.default_rng(seed))
            found = search(problem, start, seed, Budget(default_swaps(jobs)))
            ratios.append(found.value / best_placement(problem)[0])
        print(
            f"  {jobs:>2} jobs on {nodes} x {room}, {buckets} buckets: worst {min(ratios):.5f}, mean "
            f"{np.mean(ratios):.5f} of {len(ratios)}{'' if min(ratios) >= SHARE else ', BELOW THE LIMIT'}"
        )
    for jobs, buckets in ((4, 8), (4, 16), (5, 14)):
        ratios = []
        for seed in range(10 if quick else 40):
            problem = prepare(mix_of(seed, 1, 0, jobs, jobs, buckets))
            best = best_division(problem, range(jobs)).weighted_speedup
            ratios.append(divided(problem, range(jobs)).weighted_speedup / best)
        print(f"  division of {buckets} buckets between {jobs} jobs: worst {min(ratios):.6f} of {len(ratios)}")


def online(clock: Clock, quick: bool) -> None:
    """Jobs come and go on 512 nodes; and how near to a fresh search a day of small decisions stays."""
    print("\none arriving or leaving job on 512 nodes, nine tenths full, programs all different")
    problem = prepare(mix_of(5, 512, 0))
    for moves in (0, 1, 2, 4):
        arrive, leave, _ = day(problem, 512, moves, 300, clock)
        most = 1e3 * float(np.quantile(arrive, 0.99))
        print(
            f"  {moves} moves at most: arrival {judged(most, DECISION_MS, 'ms')} at 99 %, median "
            f"{1e3 * np.median(arrive):.2f} ms; departure median {1e3 * np.median(leave):.2f} ms"
        )
    events = 500 if quick else 2000
    print(f"\nafter {events:,} arrivals and departures on 32 nodes: value against a search of the same jobs")
    problem = prepare(mix_of(6, 32, 0))
    for moves in (0, 1, 2, 4):
        _, _, nodes = day(problem, 32, moves, events, clock)
        present = [(job, node) for node in range(32) for job in nodes.on(node)]
        kinds = np.array([nodes.kind_of(job) for job, _ in present])
        again = prepare(problem.mix.only(kinds, 32))
        place = np.array([node for _, node in present])
        batch = search(again, place, 1, Budget(10 * default_swaps(len(kinds))))
        random = outcome(again, starts.random_start(again, np.random.default_rng(0)), True).weighted_speedup
        print(f"  {moves} moves at most: {nodes.value / batch.value:.5f} (random placement {random / batch.value:.5f})")


def day(problem: Problem, count: int, moves: int, events: int, clock: Clock) -> tuple[list[float], list[float], Nodes]:
    """Fill nodes, then let jobs leave and others come."""
    rng, nodes = np.random.default_rng(moves), Nodes(problem.tables, count, 8)
    kinds = len(problem.tables.cpi0)
    live = list(range(int(0.9 * 8 * count)))
    for job in live:
        nodes.arrive(job, int(rng.integers(kinds)))
    arrive, leave = [], []
    for job in range(len(live), len(live) + events):
        gone = live.pop(int(rng.integers(len(live))))
        began = clock()
        nodes.leave(gone, moves)
        middle = clock()
        nodes.arrive(job, int(rng.integers(kinds)), moves)
        arrive.append(clock() - middle)
        leave.append(middle - began)
        live.append(job)
    return arrive, leave, nodes


def main() -> None:
    quick, clock, kind = asked(__doc__, "fewer instances")
    get_all_ready()
    print(f"{kind} time of one core, kernels loaded\n")
    swaps(clock)
    sizes(clock, quick)
    optima(quick)
    online(clock, quick)


if __name__ == "__main__":
    main()
