"""Speed of pairing: matching against rustworkx and plain Python, prediction against scikit-learn, in the same run.

    python -m benchmarks.colocation [--quick] [--wall]

Every time stands beside that of a reference measured a moment before or after it; the ratio carries over to other
machines, the times do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.clocks import Clock, asked
from cohabit.app.learn.matching import get_ready
from cohabit.model.features import TIME
from cohabit.optimise import matching
from cohabit.optimise.matching import Floats
from cohabit.predict.estimators import GRIDS, KINDS, Fitted, fit_kind, library_answers
from cohabit.predict.features import CoRuns, Schema

COUNTERS = 156  # 39 counters, four statistics each
PROGRAMS = 27


def queue(count: int, rng: np.random.Generator) -> Floats:
    """Degradations of a queue of jobs drawn from 32 programs, all a little different."""
    product = rng.gamma(1, 7, (32, 1)) * rng.gamma(1, 7, (1, 32))
    program = rng.integers(0, 32, count)
    return product[np.ix_(program, program)] * rng.uniform(0.9, 1.1, (count, count))


def timed(clock: Clock, times: int, work: Callable[..., object], *arguments: object) -> float:
    """Seconds, the best of some."""
    took = []
    for _ in range(times):
        began = clock()
        work(*arguments)
        took.append(clock() - began)
    return min(took)


def rustworkx_pairs(weights: Floats) -> object:
    """The same matching by another library."""
    import rustworkx

    top = float(weights.max())
    gain = np.rint((top - weights) * (1e9 / top)).astype(np.int64) + 1
    first, second = np.triu_indices(len(weights), 1)
    graph = rustworkx.PyGraph()
    graph.add_nodes_from(range(len(weights)))
    graph.add_edges_from(list(zip(first.tolist(), second.tolist(), gain[first, second].tolist(), strict=True)))
    return rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=lambda weight: weight)


def plain_greedy(first: Sequence[int], second: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Greedy pairs as the paper's plug-in would take them, in plain Python."""
    free, found = [True] * count, []
    for i, j in zip(first, second, strict=True):
        if free[i] and free[j]:
            free[i] = free[j] = False
            found.append((i, j))
    return found


def matchings(clock: Clock, quick: bool) -> None:
    """Optimal and greedy pairs, savings and larger groups."""
    print("matching                                  ours        reference      ratio")
    for count in (50, 100, 150) if quick else (50, 100, 150, 300, 1000):
        rng = np.random.default_rng(count)
        degradation, seconds = queue(count, rng), rng.uniform(50, 500, count)
        weights = matching.pair_weights(degradation)
        times = 3 if count < 1000 else 1
        ours = timed(clock, times, matching.perfect_pairs, weights)
        theirs = timed(clock, times, rustworkx_pairs, weights)
        line(f"{count} jobs, optimal (rustworkx)", ours, theirs)
        first, second = matching.all_pairs_sorted(weights)
        ours = timed(clock, 3, matching.lowest_pairs, first, second, count)
        theirs = timed(clock, 3, plain_greedy, first.tolist(), second.tolist(), count)
        line(f"{count} jobs, greedy, sorted (Python)", ours, theirs)
        saving = timed(clock, times, matching.saving, degradation, seconds)
        threes = timed(clock, times, matching.grouped_saving, degradation, seconds, 3)
        print(f"  {count} jobs, saving {1000 * saving:.1f} ms; groups of up to three by saving {1000 * threes:.1f} ms")


def line(what: str, ours: float, reference: float) -> None:
    print(f"  {what:36s} {1000 * ours:9.3f} ms {1000 * reference:12.3f} ms {reference / ours:9.1f}x")


def predictions(clock: Clock, jobs: int = 150) -> None:
    """All ordered pairs of a queue, features included, by the flat form and by the training library."""
    print(f"\nprediction of all {jobs * jobs} pairs       flat     scikit-learn     ratio   largest difference")
    rng = np.random.default_rng(1)
    data, primary, beside = made(rng, jobs)
    for kind in KINDS:
        fitted = fit_kind(kind, data, GRIDS[kind][0], 0)
        fitted.flat.pairs(primary[:2], beside[:2])
        ours = timed(clock, 3, fitted.flat.pairs, primary, beside)
        theirs = timed(clock, 1, by_library, kind, fitted, data, primary, beside)
        off = fitted.flat.pairs(primary, beside).ravel() - by_library(kind, fitted, data, primary, beside)
        far = float(np.abs(off).max())
        print(f"  {kind:26s} {1000 * ours:9.1f} ms {1000 * theirs:12.1f} ms {theirs / ours:9.1f}x   {far:.1e} points")


def by_library(kind: str, fitted: Fitted, data: CoRuns, primary: Floats, beside: Floats) -> Floats:
    """Write all pairs down and ask the training library."""
    jobs = len(primary)
    first, second = np.repeat(np.arange(jobs), jobs), np.tile(np.arange(jobs), jobs)
    pairs = CoRuns((), (), primary[first], beside[second], data.schema)
    return library_answers(kind, fitted.estimator, fitted.flat, pairs)


def made(rng: np.random.Generator, jobs: int) -> tuple[CoRuns, Floats, Floats]:
    """Training data of the paper's size (27 programs, 729 pairs, 39 counters four ways), and profiles of a queue."""
    traits = rng.lognormal(0, 1, (PROGRAMS + jobs, 6))
    counters = np.exp(np.log(traits) @ rng.normal(0, 0.6, (6, COUNTERS)) + rng.normal(0, 0.1, (len(traits), COUNTERS)))
    seconds = rng.uniform(50, 500, len(traits))
    pressure, sensitivity = traits[:, 0] + traits[:, 1], traits[:, 1] * traits[:, 2]
    first, second = np.repeat(np.arange(PROGRAMS), PROGRAMS), np.tile(np.arange(PROGRAMS), PROGRAMS)
    target = 20 * np.minimum(sensitivity[first], 5) * np.minimum(pressure[second], 5)
    names = tuple(f"c{number}" for number in range(COUNTERS))
    own = np.hstack([seconds[:, None], counters])
    data = CoRuns(
        tuple(f"p{i}" for i in first), tuple(f"p{i}" for i in second), own[first], counters[second],
        Schema((TIME, *names), names), target,
    )  # fmt: skip
    return data, own[PROGRAMS:], counters[PROGRAMS:]


def main() -> None:
    quick, clock, kind = asked(__doc__, "queues of up to 150 jobs")
    get_ready()
    print(f"{kind} time\n")
    matchings(clock, quick)
    predictions(clock)


if __name__ == "__main__":
    main()
