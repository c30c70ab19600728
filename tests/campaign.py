"""Long randomised runs: `python -m tests.campaign --seconds 600 --seed 1`; `--seed S --case K` repeats one case.

Case K of seed S is always the same. Four kinds take turns: a small trace through every engine and the textbook
reference, a sequence of events through the core with every check there is, the same where nodes are shared, and now
and then a large trace against the reference in C.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import traceback

import numpy as np

from cohabit.model.units import SECOND
from tests.reference import textbook
from tests.reference.fast_easy import compiler, fast_easy_starts
from tests.support.builders import Choice, TraceRow, prepared_trace
from tests.support.clusters import CLUSTERS, SHARED_CLUSTERS
from tests.support.engines import ENGINES, schedule
from tests.support.randomised import random_choice, random_deeds, random_shared_choice, random_trace, sometimes_gated
from tests.support.rehearsal import SHARED_KINDS, Rehearsal

LARGE_EVERY = 100  # cases
SHARED_EVERY = 4


def _request(job: textbook.Job) -> int:
    return max(job.limit, SECOND)


def _wfp(job: textbook.Job, now: int) -> float:
    waited = (now - job.submit) / _request(job)
    return -(waited * waited * waited) * job.size


def _unicef(job: textbook.Job, now: int) -> float:
    return (job.submit - now) / (math.log2(max(job.size, 2)) * _request(job))


def _log10(us: int) -> float:
    return math.log10(max(us / 1e6, 1.0))


# The textbook's formulas in the product's order of operations: two scores that are equal on paper, such as 27 (1/12)^3
# and (1/4)^3, must round to a tie in both or in neither. tests/property/test_orders.py holds them to the textbook's.
ROUNDED: dict[str, textbook.Score] = {
    "wfp": _wfp,
    "unicef": _unicef,
    "f1": lambda job, now: _log10(job.limit) * job.size + 8.70e2 * _log10(job.submit),
    "f2": lambda job, now: float(np.sqrt(job.limit / 1e6)) * job.size + 2.56e4 * _log10(job.submit),
    "f3": lambda job, now: job.limit / 1e6 * job.size + 6.86e6 * _log10(job.submit),
    "f4": lambda job, now: job.limit / 1e6 * float(np.sqrt(job.size)) + 5.30e5 * _log10(job.submit),
}


def reference_starts(rows: list[TraceRow], nodes: int, choice: Choice, kill: bool) -> tuple[int | None, ...] | None:
    """What the textbook says, where it has an opinion."""
    names = {choice.order, choice.backfill_order or "fcfs"}
    if not names <= set(textbook.ORDERS) or choice.backfill == "first-fit":
        return None
    jobs = [textbook.Job(number, *row[:4]) for number, row in enumerate(rows)]
    backfill = int(choice.backfill) if choice.backfill.isdigit() else choice.backfill
    second = choice.backfill_order
    results = textbook.simulate(
        jobs, nodes, order=ROUNDED.get(choice.order, choice.order), backfill=backfill,
        backfill_order=None if second is None else ROUNDED.get(second, second), kill=kill, tick=SECOND,
    )  # fmt: skip
    return tuple(result.start for result in results)


def compare_engines(rows: list[TraceRow], nodes: int, choice: Choice, kill: bool) -> None:
    """All engines and the reference give one schedule, on the same nodes, and one journal."""
    prepared = prepared_trace(rows, nodes, choice, kill=kill)
    fast, steps, readable = (schedule(prepared, engine) for engine in ENGINES)
    assert fast == steps, f"fast {fast}\nsteps {steps}"
    assert (fast.starts_us, fast.ends_us, fast.nodes) == (readable.starts_us, readable.ends_us, readable.nodes)
    expected = reference_starts(rows, nodes, choice, kill)
    assert expected is None or fast.starts_us == expected, f"product {fast.starts_us}\ntextbook {expected}"


def trace_case(rng: np.random.Generator) -> str:
    """A small trace under any policies."""
    jobs, nodes = int(rng.integers(1, 60)), int(rng.choice([1, 2, 5, 10, 64, 100]))
    choice, kill = random_choice(rng), bool(rng.random() < 0.7)
    # conservative without kill plans anew in every second of an overrun: hours of those take minutes to check
    rows = random_trace(rng, jobs, nodes, 3600 if kill or choice.backfill != "conservative" else 20)
    if all(row.size > nodes for row in rows):
        rows[0] = rows[0]._replace(size=nodes)
    compare_engines(rows, nodes, choice, kill)
    return f"trace: {jobs} jobs, {nodes} nodes, {choice}, kill {kill}"


def events_case(rng: np.random.Generator) -> str:
    """A sequence of events on any machine; the readable twin where both forms promise the same."""
    name, choice = str(rng.choice(list(CLUSTERS))), sometimes_gated(rng, random_choice(rng))
    twin = choice.backfill != "conservative"
    rehearsal = Rehearsal(CLUSTERS[name], choice, readable=bool(rng.random() < 0.3), twin=twin)
    rehearsal.play(random_deeds(rng, int(rng.integers(5, 120))))
    rehearsal.finish_everything()
    return f"events: {name}, {choice}, {len(rehearsal.log)} steps"


def shared_case(rng: np.random.Generator) -> str:
    """A sequence of events on a machine whose nodes are shared; the rehearsal keeps its own account of every node."""
    name, choice = str(rng.choice(list(SHARED_CLUSTERS))), sometimes_gated(rng, random_shared_choice(rng))
    probe = bool(rng.random() < 0.3) and not choice.skip_rate  # being asked again is a reason to start
    rehearsal = Rehearsal(SHARED_CLUSTERS[name], choice, probe=probe)
    rehearsal.play(random_deeds(rng, int(rng.integers(5, 120)), SHARED_KINDS))
    rehearsal.finish_everything()
    return f"shared: {name}, {choice}, {len(rehearsal.log)} steps"


def large_case(rng: np.random.Generator) -> str:
    """Thousands of jobs under FCFS and EASY against the reference in C, and fast against steps."""
    jobs, nodes = int(rng.integers(500, 4000)), int(rng.choice([1024, 4096, 32_768]))
    rows, kill = random_trace(rng, jobs, nodes), bool(rng.random() < 0.8)
    prepared = prepared_trace(rows, nodes, Choice(), kill=kill)
    fast = schedule(prepared, "fast")
    if compiler() is not None:
        listed = [textbook.Job(number, *row[:4]) for number, row in enumerate(rows)]
        assert list(fast.starts_us) == fast_easy_starts(listed, nodes, kill=kill, tick=SECOND)
    other = random_choice(rng)
    kill = kill or other.backfill == "conservative"
    prepared = prepared_trace(rows[: 1 + jobs // 4], nodes, other, kill=kill)
    assert schedule(prepared, "fast") == schedule(prepared, "steps"), f"{other}"
    return f"large: {jobs} jobs, {nodes} nodes, kill {kill}, then {other}"


def run_case(seed: int, number: int) -> str:
    """One case, reproducible from the two numbers; returns what it was, raises AssertionError on a difference."""
    rng = np.random.default_rng([seed, number])
    if number % LARGE_EVERY == LARGE_EVERY - 1:
        return large_case(rng)
    if number % SHARED_EVERY == SHARED_EVERY - 1:
        return shared_case(rng)
    return trace_case(rng) if number % 2 else events_case(rng)


def main(arguments: list[str] | None = None) -> int:
    """Run for a time, or one case; 1 if anything differed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--case", type=int, help="only this case")
    parser.add_argument("--most", type=int, default=20, help="stop after so many differences")
    options = parser.parse_args(arguments)
    say = sys.stdout.write
    say(f"campaign: seed {options.seed}, {options.seconds:g} s\n")
    begun, number, differences = time.monotonic(), options.case or 0, 0
    while options.case is not None or time.monotonic() - begun < options.seconds:
        try:
            what = run_case(options.seed, number)
            if options.case is not None:
                say(f"case {number}: {what}\n")
        except Exception:
            differences += 1
            say(f"DIFFERENCE in case {number}; again: python -m tests.campaign --seed {options.seed} --case {number}\n")
            say(traceback.format_exc() + "\n")
        number += 1
        if options.case is not None or differences >= options.most:
            break
        sys.stdout.flush()
    cases = 1 if options.case is not None else number
    say(f"campaign: {cases} cases, {differences} differences, seed {options.seed}\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
