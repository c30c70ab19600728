"""What each part of the policy brings: every part switched off by its key, on the sequences of the first set, on hidden
programs, and on jobs that arrive over time, where reservations matter.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cohabit.reproduce.joint import arrivals
from cohabit.reproduce.joint.plan import BUNDLE, FULL, MEASURED, OURS, Plan
from cohabit.reproduce.joint.sequences import HIDDEN, losses, violations_pct
from cohabit.reproduce.rows import Row, joined, own
from cohabit.reproduce.sns import sequences
from cohabit.reproduce.sns.lab import Bench, Strategy
from cohabit.reproduce.sns.sequences import Sequence20, mean_gain
from cohabit.reproduce.tasks import Task

PARTS: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
    "no_reservation": ("no job is promised a start", (("backfill", "first-fit"),)),
    "no_look_ahead": ("the first job is always the next one", (("look_ahead", 1),)),
    "no_guarantee": ("slow jobs are not given more ways", (("partition", "spare"),)),
    "no_utility": ("spare ways go in equal shares, slow jobs get no more", (("partition", "equal"),)),
    "no_cache": ("the cache is not divided", (("partition", "none"),)),
    "no_bandwidth": ("bandwidth is not booked", (("book_bandwidth", False),)),
    "no_spread": ("it never spreads", (("scales", [1]),)),
}
WORLDS = {"parts": "programs of the catalogue", "hidden-parts": "hidden programs"}
ARRIVALS, LOAD = "arrival-parts", 0.9


def strategies() -> list[Strategy]:
    """Return the policy as it is, and without each part."""
    return [OURS, *(Strategy(name, BUNDLE, keys) for name, (_, keys) in PARTS.items())]


def tasks(plan: Plan) -> list[Task]:
    """CE and all of them, on the catalogue's programs and on hidden ones."""
    sizes, seed, found = plan.sizes, plan.seed("sequences"), []
    for name in WORLDS:
        bench: Bench = plan.drawn(0) if HIDDEN in name else plan.bench
        every: list[str | Strategy] = ["ce", *strategies()]
        found += sequences.chunked(name, [bench], sizes.ablation_sequences, sizes.jobs, seed, every, MEASURED)
    for number in range(sizes.ablation_arrivals):
        arguments = {"bench": plan.bench, "seed": plan.seed("arrivals"), "number": number, "jobs": sizes.arrival_jobs}
        chosen = {"loads": (LOAD,), "strategies": (arrivals.EASY, *strategies())}
        cost = arrivals.RUN_S * (1 + len(strategies())) * sizes.arrival_jobs / 100
        found.append(Task(f"{ARRIVALS} {number}", arrivals.run, {**arguments, **chosen}, cost))
    return found


def members(results: dict[str, Any], name: str) -> list[Sequence20]:
    """Return the sequences of one world."""
    (found,) = sequences.gathered(name, results)
    return found


def named(one: Strategy) -> tuple[str, str]:
    """Return a strategy as part of a row's name, and in words."""
    return ("whole", "cohabit as it is") if one is OURS else (one.name, f"cohabit: {PARTS[one.name][0]}")


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The gain of every ablation; violations in the note."""
    found = []
    for world, where in WORLDS.items():
        sets = [members(results, world)]
        for one in strategies():
            tag, words = named(one)
            beyond, lost = violations_pct(one.name)(sets[0]) or 0.0, losses(one.name)(sets[0]) or 0.0
            note = joined(
                f"{beyond:.1f} % of runs beyond 1.1x CE, {lost:.1f} sequences of 36 lost to CE",
                plan.shortened(len(sets[0]), FULL.ablation_sequences, "sequences"),
            )
            claim = f"ablation, {where}: gain over CE, {words}"
            found.append(plan.measured(own(f"J-{world}.{tag}_gain_pct", claim, mean_gain(one.name), note=note), sets))
    return found + _of_arrivals(plan, results)


def _of_arrivals(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return the gain over CE-EASY where jobs arrive over time; longest waits in the note."""
    known = [results[f"{ARRIVALS} {number}"] for number in range(plan.sizes.ablation_arrivals)]
    size, found = plan.shortened(len(known), FULL.ablation_arrivals, "workloads"), []
    for one in strategies():
        tag, words = named(one)
        longest = arrivals.longest_x(known, one.name, LOAD)
        beyond = arrivals.violations_pct(known, one.name, LOAD)
        note = joined(f"longest wait {longest:.2f} of CE-EASY's, {beyond:.1f} % of runs beyond 1.1x alone", size)
        gain = partial(arrivals.gain_pct, strategy=one.name, load=LOAD)
        claim = f"ablation, arrivals at load {LOAD:g}: gain over CE with EASY, {words}"
        found.append(plan.measured(own(f"J-{ARRIVALS}.{tag}_gain_pct", claim, gain, note=note), [known]))
    return found
