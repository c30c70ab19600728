"""The advice on sharing in sentences: what was simulated, whether it gives today's waits, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cohabit.app.advise.gains import in_words
from cohabit.app.advise.stretches import LEAST_STRETCHES
from cohabit.app.advise.today import MOST_OFF, NEARLY_EMPTY
from cohabit.model.units import duration

CATALOGUE = "sns12"
SITE = "site"  # today's rule, where a scenario of the site states it
GENTLE_GBS, GREEDY_GBS = 30.0, 40.0  # memory traffic of 16 processes: gentle at most, greedy at least
ASSUMPTIONS = ("gentle", "mixed", "greedy")
NO_WAIT_S = 60.0  # a mean wait below it is none
CLEAR_PCT = 2.0  # a smaller change of the mean turnaround counts as no change


def nothing_waits(load: float, told: Mapping[str, Any]) -> bool:
    """Return whether the machine is nearly empty and its jobs start at once."""
    return load < NEARLY_EMPTY and (told["log_wait_s"] or 0.0) < NO_WAIT_S


def judge(cases: Sequence[Mapping[str, Any]], base: str, idle: bool = False) -> dict[str, Any]:
    """Return the policy that helps most with mixed programs, and whether that holds under all assumptions.

    Where nothing waits (`idle`) the advice is to stay: jobs would only be spread over nodes that are idle.
    """
    changes = {(one["assumption"], one["policy"]): one["mean_turnaround_change_pct"] for one in cases}
    best, least = base, 0.0
    for policy in () if idle else dict.fromkeys(one["policy"] for one in cases):
        change = changes["mixed", policy]
        upper = change["mean"] if change["high"] is None else change["high"]
        if policy != base and upper < -CLEAR_PCT and change["mean"] < least:
            best, least = policy, change["mean"]
    verdicts = {assumption: _verdict(changes[assumption, best]) for assumption in ASSUMPTIONS}
    return {
        "advice": best,
        "changes": best != base,
        "holds_for": [name for name in ASSUMPTIONS if verdicts[name] < 0],
        "harms_for": [name for name in ASSUMPTIONS if verdicts[name] > 0],
    }


def _verdict(change: Mapping[str, Any]) -> int:
    """Return -1 for clearly shorter, 1 for clearly longer, 0 for neither."""
    low, high = (change["mean"] if change[end] is None else change[end] for end in ("low", "high"))
    return -1 if high < -CLEAR_PCT else 1 if low > CLEAR_PCT else 0


EXPLAINED = {
    SITE: "what the scenario of --site says",
    "ce-easy": "whole nodes, first come first served with EASY backfilling",
    "ce": "whole nodes, first fit with an age limit",
    "cs": "jobs share nodes, as compactly as they fit",
    "cohabit": "jobs share nodes, keep the speed promised to them, and wide ones are promised a start",
    "sns": "jobs share nodes and spread out where that helps, with cache and bandwidth booked",
}


def opening(facts: Mapping[str, Any]) -> list[str]:
    """Return the first sentences: the load, and today's rule against the log."""
    load, told = facts["offered_load"], facts["today_against_log"]
    size = f"{facts['nodes']} nodes of {facts['cores']} cores"
    said = [f"The log offers {100 * load:.0f} % of {size}."]
    if nothing_waits(load, told):
        said[0] += " That is nearly empty, and jobs do not wait: check --nodes and --cores."
    if told["believed"] is None:
        said.append(
            "The log has no waits, so that today's cannot be checked in the simulation (sacct's column Start has them)."
        )
        return said
    log, now = duration(told["log_wait_s"]), duration(told["simulated_wait_s"])
    off = "" if told["off_pct"] is None else f" ({told['off_pct']:+.0f} %)"
    verdict = "that is today" if told["believed"] else f"more than {100 * MOST_OFF:.0f} % off"
    said.append(
        f"Today against the log: {told['jobs']:,} jobs waited {log} on average, and wait {now}{off} in the simulation "
        f"of {facts['today']}: {verdict}."
    )
    return said


def _days(days: float) -> str:
    return f"{days:g} day{'' if days == 1 else 's'}"


def no_advice(told: Mapping[str, Any], missing: Sequence[str]) -> list[str]:
    """Return why there is no advice."""
    shorter = "shorter" if told["simulated_wait_s"] < told["log_wait_s"] else "longer"
    return [
        "No advice: the simulation does not give today's waits, so what it says of other rules cannot be trusted.",
        f"Simulated waits are {shorter}; what may be missing or wrong: {'; '.join(missing)}.",
    ]


def words_for(
    facts: Mapping[str, Any], cases: Sequence[Mapping[str, Any]], judged: Mapping[str, Any], with_memory: bool
) -> tuple[list[str], int]:
    """Return the advice as sentences, and how many of them stand above the table."""
    by_key = {(one["assumption"], one["policy"]): one for one in cases}
    base, best, stretches = facts["today"], judged["advice"], facts["stretches"]
    memory = "" if with_memory or base == SITE else " Memory was left out (--memory-gb)."
    few = stretches < LEAST_STRETCHES
    above = opening(facts)
    if judged["changes"]:
        above.append(f"Advice: {best} ({EXPLAINED[best]}). {_gain(by_key['mixed', best])}")
        above.append(in_words(facts))
    elif nothing_waits(facts["offered_load"], facts["today_against_log"]):
        spread = by_key["mixed", "sns"]
        above.append(
            f"Advice: stay with {base}. Jobs do not wait, so sharing nodes frees none that a job needs. If programs "
            f"are mixed, spreading jobs over idle nodes (sns) changes mean turnaround by "
            f"{_percent(spread['mean_turnaround_change_pct'])} and node-hours by "
            f"{_percent(spread['node_hours_change_pct'])}."
        )
    else:
        above.append(
            f"Advice: stay with {base}. No other rule makes the mean turnaround clearly shorter (by more than "
            f"{CLEAR_PCT:g} %) if programs are mixed."
        )
    if few:
        above.append(
            f"The log has {stretches} stretch{'es' if stretches > 1 else ''} of {_days(facts['days'])} that "
            f"do{'' if stretches > 1 else 'es'} not overlap, and an interval needs {LEAST_STRETCHES}: none is given, "
            "and chance is not excluded. Give a longer log, or fewer --days."
        )
    said = [
        f"Simulated: {stretches} stretch{'es' if stretches > 1 else ''} of up to {_days(facts['days'])}, "
        f"{facts['jobs_simulated']:,} jobs of the log, with {facts['repeats']} draws of programs, on {facts['nodes']} "
        f"nodes of {facts['cores']} cores. Jobs before a stretch fill the machine and are not counted.{memory}",
        f"Today is taken to be {base}: {EXPLAINED[base]}. In the mixed case jobs wait "
        f"{duration(by_key['mixed', base]['mean_wait_s'])} and are back after "
        f"{duration(by_key['mixed', base]['mean_turnaround_s'])} on average.",
        "Assumed, as no log says it: what programs ask of cache and memory. Each user's kinds of jobs run programs of "
        f"the {CATALOGUE} catalogue: gentle ones only (at most {GENTLE_GBS:g} GB/s), all (mixed), or greedy ones only "
        f"(at least {GREEDY_GBS:g} GB/s); the scheduler has measured them before.",
    ]
    if not judged["changes"]:
        said.append("Next: nothing to do; look again when the load or the programs have changed.")
        return above + said, len(above)
    if best != "ce" and base == "ce-easy":
        alone = by_key["mixed", "ce"]["mean_turnaround_change_pct"]["mean"]
        said.append(f"The queue's order alone (ce, nothing shared) would change the mean turnaround by {alone:+.0f} %.")
    gentle = by_key["mixed", "sns"]
    if best != "sns" and _verdict(gentle["mean_turnaround_change_pct"]) < 0 < by_key["mixed", best]["slowed_pct"]:
        said.append(
            f"Where no job may be slowed much, take sns: {_percent(gentle['mean_turnaround_change_pct'])}, and "
            f"{gentle['slowed_pct']:.0f} % of the jobs run more than a tenth longer."
        )
    others = [
        f"{name}: {_percent(by_key[name, best]['mean_turnaround_change_pct'])}, "
        f"{by_key[name, best]['slowed_pct']:.0f} % of the jobs run more than a tenth longer"
        for name in ASSUMPTIONS
        if name != "mixed"
    ]
    said.append(f"What the assumption changes: mean turnaround if programs are {'; if they are '.join(others)}.")
    if judged["harms_for"]:
        said.append(
            f"That is not safe: if programs are {' or '.join(judged['harms_for'])}, jobs are back later than today. "
            "Measure your programs first (cohabit profile)."
        )
    elif len(judged["holds_for"]) < len(ASSUMPTIONS):
        weak = [name for name in ASSUMPTIONS if name not in judged["holds_for"]]
        said.append(f"If programs are {' or '.join(weak)}, mean turnaround is neither clearly shorter nor longer.")
    elif not few:
        said.append("The gain is there whichever of the three is true.")
    said.append(
        f'Next: watch your own cluster without touching it: a site file with name = "{best}" under [policy], then '
        "cohabit slurm shadow site.toml --for 3d (docs/operators-first-hour.md)."
    )
    return above + said, len(above)


def _gain(case: Mapping[str, Any]) -> str:
    return (
        f"If programs are mixed: mean wait {_percent(case['mean_wait_change_pct'])}, mean turnaround "
        f"{_percent(case['mean_turnaround_change_pct'])}, node-hours {_percent(case['node_hours_change_pct'])}; "
        f"{case['slowed_pct']:.0f} % of the jobs run more than a tenth longer than in the log."
    )


def _percent(change: Mapping[str, float | None]) -> str:
    bounds = "" if change["low"] is None else f" (95 %: {change['low']:+.0f} to {change['high']:+.0f} %)"
    return f"{change['mean']:+.0f} %{bounds}"
