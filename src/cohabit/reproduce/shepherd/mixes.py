"""P12 to P15: eight random mixes of 64 jobs on eight nodes, under every scheme, on every set of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cohabit.reproduce.rows import Expected, Row, contract, expected, joined, missing, noted, row_over_sets
from cohabit.reproduce.shared_data import SHARED
from cohabit.reproduce.shepherd.lab import PLACEMENTS, run_set
from cohabit.reproduce.shepherd.plan import CURVES, FULL, MAIN, Plan
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream

Mix = dict[str, Any]
Statistic = Callable[[Sequence[Mix]], float | None]
Own = tuple[Expected, Statistic, str]  # a row of ours, how it is computed, and its note
PARTS = {
    MAIN: ("benefit", "direct", "ways", "growth", "plain"),
    "set_a": ("benefit", "ways"),
    "hidden": ("benefit", "ways"),
    "real": ("benefit", "ways"),
}
SECONDS = 0.4  # a mix, roughly
WORDS = {
    "set_a": "set A (curves anchored on measurements)",
    "hidden": "20 hidden programs drawn from the priors",
    "measured_cost": "set A with the measured cost per miss where there is one",
    "scarce_a": "set A, 12.8 GB/s",
    "scarce_c": "set C, 12.8 GB/s",
    "real": "programs measured on real hardware (27.5 MB, 11 ways)",
    "real_ample": "programs measured on real hardware, 50 GB/s",
}
ABOUT_GAP = (
    "the gap is what the poster explains least: no tried set of curves gives 11 points together with a place-only "
    "below 1 %; scarcer bandwidth widens it (rows scarce_*) but lifts place-only too. Curves were not bent to force it"
)
ABOUT = {
    (
        "P14.synergy",
        "hidden",
    ): "not for every set of programs: on some draws placement alone already gains more than the "
    "gap. Synergy may be claimed of programs like the poster's only",
    (
        "P13.place_only_pct",
        "real",
    ): "measured programs differ more in the bandwidth they draw, and placement balances it; "
    "with twice the bandwidth nothing of this is left (row real_ample)",
}
DEFAULT_BANDWIDTH = ("set_a", "hidden", "measured_cost", "real")  # where synergy is claimed


def tasks(plan: Plan) -> list[Task]:
    """One task per set of mixes."""
    found = []
    for tag, case in plan.cases.items():
        sets = plan.sizes.sets if tag == MAIN else plan.sizes.other_sets
        for number in range(sets):
            arguments = {
                "case": case, "seed": plan.seed(f"mixes {tag}"), "number": number, "mixes": plan.sizes.mixes,
                "swaps": plan.sizes.swaps, "parts": PARTS.get(tag, ()),
            }  # fmt: skip
            found.append(Task(f"{tag} {number}", run_set, arguments, SECONDS * plan.sizes.mixes))
    return found


def gathered(plan: Plan, tag: str, results: dict[str, Any]) -> list[list[Mix]]:
    """The sets of a case."""
    sets = plan.sizes.sets if tag == MAIN else plan.sizes.other_sets
    return [results[f"{tag} {number}"] for number in range(sets)]


def gain(scheme: str, base: str = "baseline") -> Callable[[Mix], float]:
    """Percent by which a scheme is better than another on a mix."""
    return lambda one: 100.0 * (float(one[scheme]) / float(one[base]) - 1.0)


def mean(of: Callable[[Mix], float]) -> Statistic:
    """Return the mean over the mixes of a set."""
    return lambda mixes: float(np.mean([of(one) for one in mixes]))


def largest(of: Callable[[Mix], float]) -> Statistic:
    """Return the largest value of the mixes of a set."""
    return lambda mixes: max(of(one) for one in mixes)


def smallest(of: Callable[[Mix], float], rank: int = 0) -> Statistic:
    """Return the smallest value of the mixes of a set; rank 1: the next to smallest."""
    return lambda mixes: sorted(of(one) for one in mixes)[min(rank, len(mixes) - 1)]


def gap(mixes: Sequence[Mix]) -> float:
    """Return the points between Shepherd and part-only."""
    return float(np.mean([gain("shepherd")(one) - gain("part-only")(one) for one in mixes]))


def above(mixes: Sequence[Mix]) -> float:
    """Return in how many of eight mixes Shepherd beats part-only."""
    return 8.0 * float(np.mean([one["shepherd"] > one["part-only"] for one in mixes]))


def synergy(mixes: Sequence[Mix]) -> float:
    """Return whether the gap is larger than the gain of placement alone."""
    place = float(np.mean([gain("place-only")(one) for one in mixes]))
    return 1.0 if gap(mixes) > place else 0.0


def kept(by: str, fine: str) -> Statistic:
    """Share of a fine-grained gain that another keeps, in percent; gains summed over the set."""

    def statistic(mixes: Sequence[Mix]) -> float | None:
        gained = sum(one[fine] - one["baseline"] for one in mixes)
        return 100.0 * sum(one[by] - one["baseline"] for one in mixes) / gained if gained > 0 else None

    return statistic


CONTRACT: dict[str, tuple[Statistic, str]] = {
    "P13.part_only_pct": (mean(gain("part-only")), ""),
    "P13.place_only_pct": (
        mean(gain("place-only")),
        "Shepherd's placement, run without partitioning: the poster's words",
    ),
    "P13.shepherd_pct": (mean(gain("shepherd")), ""),
    "P13.gap_points": (gap, ABOUT_GAP),
    "P13.shepherd_above_part_only": (above, ""),
    "P14.synergy": (synergy, ""),
    "P-ways.kept_pct": (
        kept("ways shepherd", "shepherd"),
        "Shepherd's placement on 12 ways of which 10 and 11 go together (P10), jobs clustered; may pass 100 because a "
        "cluster of insensitive programs needs less than one bucket each",
    ),
}


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The contract, the other numbers of the poster, and the same on the other programs and machines."""
    sets = gathered(plan, MAIN, results)
    size = joined(
        plan.shortened(len(sets), FULL.sets, "seeds"), plan.shortened(plan.sizes.mixes, FULL.mixes, "mixes of a set")
    )
    programs = "hidden programs" if plan.hidden else "set C at 25 GB/s"
    found = []
    for name, (statistic, note) in CONTRACT.items():
        words = joined(programs, note, size)
        found.append(row_over_sets(expected(name), sets, statistic, _rng(plan, name), words))
    found = [_explained(one) for one in found]
    for about, statistic, note in _of_the_poster() + _beside_it():
        found.append(row_over_sets(about, sets, statistic, _rng(plan, about.id), joined(note, size)))
    for tag in WORDS:
        found += _elsewhere(plan, tag, results)
    return found


def _explained(one: Row) -> Row:
    return noted(one, "outside its band on these seeds: reported, not tuned") if one.holds is False else one


def _of_the_poster() -> list[Own]:
    """Return all other rows of the poster's mixes."""
    part, shepherd, place = gain("part-only"), gain("shepherd"), gain("place-only")
    return [
        (Expected("P13.part_only_max_pct", "largest gain of part-only in a set of 8 mixes", 37), largest(part), ""),
        (Expected("P13.part_only_min_pct", "smallest gain of part-only", 11), smallest(part), ""),
        (Expected("P13.shepherd_max_pct", "largest gain of shepherd", 49), largest(shepherd), ""),
        (
            Expected("P13.shepherd_min_pct", "smallest gain of shepherd (the poster's worst mix)", 17),
            smallest(shepherd),
            "a negative case of the poster; our mixes vary less",
        ),
        (Expected("P13.shepherd_second_min_pct", "next to smallest gain of shepherd", 36), smallest(shepherd, 1), ""),
        (
            Expected("P13.part_only_spread_points", "largest less smallest gain of part-only", 26),
            lambda mixes: largest(part)(mixes) - smallest(part)(mixes),  # type: ignore[operator]
            "",
        ),
        (
            Expected("P13.shepherd_spread_points", "largest less smallest gain of shepherd", 32),
            lambda mixes: largest(shepherd)(mixes) - smallest(shepherd)(mixes),  # type: ignore[operator]
            "the poster calls shepherd's gains less variable, yet its own largest and smallest differ by 32 points",
        ),
        (
            Expected("P13.place_only_largest_pct", "largest change of place-only in a mix, up or down", 2),
            largest(lambda one: abs(place(one))),
            "the poster: all mixes within 2 %",
        ),
    ]  # fmt: skip


def _beside_it() -> list[Own]:
    """Return further rows of the mixes."""
    return [
        (
            Expected("P8.place_only_direct_pct", "ours: a search on the undivided cache itself over baseline"),
            mean(gain("place-only-direct")),
            "placement that knows the cache is undivided gains more than Shepherd's placement run undivided",
        ),
        (
            Expected("P15.separation", "spread over nodes of what jobs gain from a divided cache, shepherd to random",
                     None, 0.0, 1.0),
            mean(lambda one: float(one["separation"])),
            f"below 1: evened out, as the poster explains its gain; what a job gains is its mean over {PLACEMENTS} "
            "random placements",
        ),
        (
            Expected("P15.utility_separation", "the same by what the whole cache would be worth to a job by itself"),
            mean(lambda one: float(one["utility separation"])),
            "by this measure, the first one tried, the needy are not spread: jobs that no share of a node's cache can "
            "satisfy are put together and given little",
        ),
        (
            Expected("P7.shepherd_idle_pct", "shepherd's gain where alone means idle memory, not one's own load", 38),
            lambda mixes: float(np.mean([100.0 * (one["idle reference"] - 1.0) for one in mixes])),
            "the reference of weighted speedup is not defined in the poster; both readings give the same gain",
        ),
        (
            Expected("P3.charging_gain_pct", "ours: part-only with bandwidth charged over the plain fixed point"),
            mean(gain("part-only", "uncharged")),
            "on these programs the plain iteration finds nearly the same sizes; single nodes of others gain more",
        ),
        (
            Expected("P9.part_only_growth_pct", "part-only over baseline by a second law of undivided caches", 27, 0.0),
            mean(gain("part-only", "growth baseline")),
            "shares grow with misses until the cache is full (Whirlpool); the sign must survive",
        ),
        (
            Expected("P9.shepherd_growth_pct", "shepherd over baseline by the second law", 38, 0.0),
            mean(gain("shepherd", "growth baseline")),
            "",
        ),
        (
            Expected("P9.place_only_growth_pct", "place-only over baseline by the second law", 0.5),
            mean(gain("growth place-only", "growth baseline")),
            "",
        ),
        (
            Expected("P-ways.part_only_kept_pct", "ours: the same share for part-only", None, 70, 110),
            kept("ways part-only", "part-only"),
            "",
        ),
        (
            Expected("P-ways.each_kept_pct", "ours: the share that ways of one's own for every job keep, part-only"),
            kept("ways each", "part-only"),
            "KPart measured 1.7 % for ways of one's own against 24 % for clusters on real hardware",
        ),
        (
            Expected("P17.lowest_speed_pct", "slowest job of a mix under shepherd, speed to running alone"),
            mean(lambda one: 100.0 * float(one["lowest"]["shepherd"])),
            "weighted speedup favours few winners; --objective min or alpha bound what one job may lose",
        ),
    ]  # fmt: skip


def _elsewhere(plan: Plan, tag: str, results: dict[str, Any]) -> list[Row]:
    """Return the same claims on other programs or another machine."""
    names = [name for name in CONTRACT if name != "P-ways.kept_pct" or "ways" in PARTS.get(tag, ())]
    found = []
    for name in names:
        known = contract()[name]
        low, high = _band(name, tag)
        about = Expected(f"{name}_{tag}", f"{known.claim}: {WORDS[tag]}", known.paper, low, high)
        if tag not in plan.cases:
            why = f"measured curves are not here: put {CURVES} into a folder and name it in {SHARED}"
            found.append(missing(about, why))
            continue
        sets = gathered(plan, tag, results)
        size = plan.shortened(len(sets), FULL.other_sets, "seeds")
        signs = "" if tag == "set_a" else "other programs or another machine: signs only"
        words = joined("" if name == "P-ways.kept_pct" else signs, ABOUT.get((name, tag), ""), size)
        found.append(_explained(row_over_sets(about, sets, CONTRACT[name][0], _rng(plan, about.id), words)))
    return found


def _band(name: str, tag: str) -> tuple[float | None, float | None]:
    """The contract's band for set A; signs elsewhere, where programs or machine are not the poster's."""
    known = contract()[name]
    signs = {"P-ways.kept_pct", "P13.shepherd_above_part_only"} | (
        {"P14.synergy"} if tag in DEFAULT_BANDWIDTH else set()
    )
    if tag == "set_a" or name in signs:
        return known.low, known.high
    return (0.0 if name in ("P13.part_only_pct", "P13.shepherd_pct", "P13.gap_points") else None), None


def _rng(plan: Plan, name: str) -> np.random.Generator:
    return stream(plan.seed("bootstrap"), name)
