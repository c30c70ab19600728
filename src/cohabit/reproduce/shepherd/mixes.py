"""P12 to P15: eight random mixes of 64 jobs on eight nodes, under every scheme, on every set of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cohabit.reproduce.plans import SHARED
from cohabit.reproduce.rows import Claim, Row, contract, explained, joined, missing, own, stated
from cohabit.reproduce.shepherd.lab import PLACEMENTS, run_set
from cohabit.reproduce.shepherd.plan import CURVES, FULL, MAIN, Plan
from cohabit.reproduce.tasks import Task

Mix = dict[str, Any]
Statistic = Callable[[Sequence[Mix]], float | None]
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
    ("P14.synergy", "hidden"):
        "not for every set of programs: on some draws placement alone already gains more than the gap. Synergy may be "
        "claimed of programs like the poster's only",
    ("P13.place_only_pct", "real"):
        "measured programs differ more in the bandwidth they draw, and placement balances it; with twice the bandwidth "
        "nothing of this is left (row real_ample)",
}  # fmt: skip
MISSED = "outside its band on these seeds: reported, not tuned"
DEFAULT_BANDWIDTH = ("set_a", "hidden", "measured_cost", "real")  # where synergy is claimed


def tasks(plan: Plan) -> list[Task]:
    """One task per set of mixes."""
    found = []
    for tag, case in plan.cases.items():
        sets = plan.sizes.sets if tag == MAIN else plan.sizes.other_sets
        for number in range(sets):
            arguments = {
                "case": case,
                "seed": plan.seed(f"mixes {tag}"),
                "number": number,
                "mixes": plan.sizes.mixes,
                "swaps": plan.sizes.swaps,
                "parts": PARTS.get(tag, ()),
            }
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


def number(key: str) -> Callable[[Mix], float]:
    """Return a number of a mix."""
    return lambda one: float(one[key])


def idle_gain(one: Mix) -> float:
    """Percent by which shepherd is better than the baseline, relative to idle memory."""
    return 100.0 * (float(one["idle reference"]) - 1.0)


def lowest_speed(one: Mix) -> float:
    """Percent of its speed alone that the slowest job has under shepherd."""
    return 100.0 * float(one["lowest"]["shepherd"])


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
    stated_rows = [stated(name, statistic, joined(programs, note)) for name, (statistic, note) in CONTRACT.items()]
    found = [explained(plan.measured(one, sets, size), MISSED) for one in stated_rows]
    found += [plan.measured(one, sets, size) for one in _of_the_poster() + _beside_it()]
    return found + [one for tag in WORDS for one in _elsewhere(plan, tag, results)]


def spread(of: Callable[[Mix], float]) -> Statistic:
    """Return the largest less the smallest value of the mixes of a set."""
    return lambda mixes: max(of(one) for one in mixes) - min(of(one) for one in mixes)


def _of_the_poster() -> list[Claim]:
    """Return all other rows of the poster's mixes."""
    part, shepherd, place = gain("part-only"), gain("shepherd"), gain("place-only")
    worst = "smallest gain of shepherd (the poster's worst mix)"
    varies = "a negative case of the poster; our mixes vary less"
    changes = "largest change of place-only in a mix, up or down"
    differ = "the poster calls shepherd's gains less variable, yet its own largest and smallest differ by 32 points"
    moved = largest(lambda one: abs(place(one)))
    return [
        own("P13.part_only_max_pct", "largest gain of part-only in a set of 8 mixes", largest(part), 37),
        own("P13.part_only_min_pct", "smallest gain of part-only", smallest(part), 11),
        own("P13.shepherd_max_pct", "largest gain of shepherd", largest(shepherd), 49),
        own("P13.shepherd_min_pct", worst, smallest(shepherd), 17, note=varies),
        own("P13.shepherd_second_min_pct", "next to smallest gain of shepherd", smallest(shepherd, 1), 36),
        own("P13.part_only_spread_points", "largest less smallest gain of part-only", spread(part), 26),
        own("P13.shepherd_spread_points", "largest less smallest gain of shepherd", spread(shepherd), 32, note=differ),
        own("P13.place_only_largest_pct", changes, moved, 2, note="the poster: all mixes within 2 %"),
    ]


# Further rows of the mixes: name, claim, statistic, paper's value, lower and upper end of the band, note.
BESIDE: tuple[tuple[str, str, Statistic, float | None, float | None, float | None, str], ...] = (
    ("P8.place_only_direct_pct", "ours: a search on the undivided cache itself over baseline",
     mean(gain("place-only-direct")), None, None, None,
     "placement that knows the cache is undivided gains more than Shepherd's placement run undivided"),
    ("P15.separation", "spread over nodes of what jobs gain from a divided cache, shepherd to random",
     mean(number("separation")), None, 0.0, 1.0,
     f"below 1: evened out, as the poster explains its gain; what a job gains is its mean over {PLACEMENTS} random "
     "placements"),
    ("P15.utility_separation", "the same by what the whole cache would be worth to a job by itself",
     mean(number("utility separation")), None, None, None,
     "by this measure, the first one tried, the needy are not spread: jobs that no share of a node's cache can satisfy "
     "are put together and given little"),
    ("P7.shepherd_idle_pct", "shepherd's gain where alone means idle memory, not one's own load",
     mean(idle_gain), 38, None, None,
     "the reference of weighted speedup is not defined in the poster; both readings give the same gain"),
    ("P3.charging_gain_pct", "ours: part-only with bandwidth charged over the plain fixed point",
     mean(gain("part-only", "uncharged")), None, None, None,
     "on these programs the plain iteration finds nearly the same sizes; single nodes of others gain more"),
    ("P9.part_only_growth_pct", "part-only over baseline by a second law of undivided caches",
     mean(gain("part-only", "growth baseline")), 27, 0.0, None,
     "shares grow with misses until the cache is full (Whirlpool); the sign must survive"),
    ("P9.shepherd_growth_pct", "shepherd over baseline by the second law",
     mean(gain("shepherd", "growth baseline")), 38, 0.0, None, ""),
    ("P9.place_only_growth_pct", "place-only over baseline by the second law",
     mean(gain("growth place-only", "growth baseline")), 0.5, None, None, ""),
    ("P-ways.part_only_kept_pct", "ours: the same share for part-only",
     kept("ways part-only", "part-only"), None, 70, 110, ""),
    ("P-ways.each_kept_pct", "ours: the share that ways of one's own for every job keep, part-only",
     kept("ways each", "part-only"), None, None, None,
     "KPart measured 1.7 % for ways of one's own against 24 % for clusters on real hardware"),
    ("P17.lowest_speed_pct", "slowest job of a mix under shepherd, speed to running alone",
     mean(lowest_speed), None, None, None,
     "weighted speedup favours few winners; --objective min or alpha bound what one job may lose"),
)  # fmt: skip


def _beside_it() -> list[Claim]:
    """Return further rows of the mixes."""
    return [own(*row[:6], note=row[6]) for row in BESIDE]


def _elsewhere(plan: Plan, tag: str, results: dict[str, Any]) -> list[Row]:
    """Return the same claims on other programs or another machine."""
    found = []
    for name, (statistic, _) in CONTRACT.items():
        ways = name == "P-ways.kept_pct"
        if ways and "ways" not in PARTS.get(tag, ()):
            continue
        known = contract()[name]
        claim = own(f"{name}_{tag}", f"{known.claim}: {WORDS[tag]}", statistic, known.paper, *_band(name, tag))
        if tag not in plan.cases:
            why = f"measured curves are not here: put {CURVES} into a folder and name it in {SHARED}"
            found.append(missing(claim.about, why))
            continue
        sets = gathered(plan, tag, results)
        size = plan.shortened(len(sets), FULL.other_sets, "seeds")
        signs = "" if ways or tag == "set_a" else "other programs or another machine: signs only"
        found.append(explained(plan.measured(claim, sets, signs, ABOUT.get((name, tag), ""), size), MISSED))
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
