"""An operator's walk on a real Slurm: sixty jobs of every odd kind, under plain Slurm and under attach.

Holds, dependencies of every type, arrays with a bound, begin times, a reservation, generic resources, a job that fits
nowhere, jobs on all cores, tasks that belong together, cancelled and failed jobs. Every run has a fresh Slurm of eight
nodes with 28 cores on this machine (root is needed); all runs of a round have the same jobs at the same instants.

    python -m benchmarks.slurm_walk [--rounds 1] [--policies cs,ce-easy,sns,cohabit] [--seed 1] [--json FILE]

`whole` is plain Slurm with OverSubscribe=EXCLUSIVE: what policies that give out whole nodes are to be compared with.
Exit status 1: a hold, dependency, reservation or bound was not obeyed, or other jobs finished than under plain Slurm.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.slurm_walk_jobs import CORES, NODES, Submission, sixty
from cohabit.app.client.client import connect
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.model.errors import InputError
from cohabit.model.node_names import expanded
from cohabit.model.units import without_durations
from cohabit.report.intervals import bootstrap_interval
from tests.backend.slurm.steering import attached, jobs_of, write_site
from tests.support.slurm_cluster import ONE_PARTITION, SlurmCluster, missing, running_slurm

RESERVED, RESERVED_AT_S = ("n6", "n7"), 80  # jobs may take a minute: some run there before
LUA = Path(__file__).parents[1] / "packaging" / "slurm" / "job_submit.lua"
PLAIN, WHOLE = "plain", "whole"
KEYS = {"cohabit": 'unknown = "cores"'}
POLICIES = ("cs", "ce-easy", "sns", "cohabit")
DEADLINE_S, ASK_S = 600.0, 2.0
OWNER = ("setpriv", "--reuid=bin", "--regid=bin", "--clear-groups")
SCRIPT = """#!/bin/sh
key={key}${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}
echo "$key began $(date +%s.%N) $SLURM_JOB_NODELIST" >> {notes}
sleep {seconds:g}
echo "$key ended $(date +%s.%N)" >> {notes}
exit {status}
"""
TOO_LATE_X, TOO_LATE_S = 2.0, 10.0  # a wait beyond so many times plain Slurm's plus that is to name a promise


class Held(NamedTuple):
    """Until when a job was held, begins after that."""

    key: str
    until_s: float


@dataclass
class Seen:
    """What one run showed, by keys of jobs; instants in seconds from its begin."""

    submitted: dict[str, float] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    released: list[Held] = field(default_factory=list)
    window: tuple[float, float] = (0.0, 0.0)
    why: dict[str, list[str]] = field(default_factory=dict)
    stuck: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # what Slurm said to commands

    def finished(self) -> set[str]:
        """The jobs that completed."""
        return {key for key, state in self.states.items() if state == "COMPLETED"}

    def turnaround_s(self, keys: set[str]) -> float:
        """The mean of these jobs."""
        return statistics.fmean(self.ended[key] - self.submitted[key] for key in keys)

    def wait_s(self, key: str) -> float:
        """From submission to the first line of its script."""
        return self.began[key] - self.submitted[key]


def walk(variant: str, jobs: list[Submission], reserves: bool = True) -> Seen:
    """One run on a fresh Slurm; `reserves`: with the reservation."""
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cohabit-walk-")))
        top.chmod(0o755)
        slurm = stack.enter_context(_slurm(top / "slurm", variant))
        steered = variant not in (PLAIN, WHOLE)
        place = top / "attach"
        if steered:
            place.mkdir()
            site = write_site(slurm, place, variant, KEYS.get(variant, ""))
            stack.enter_context(attached(site))
        seen, numbers = Seen(), dict[str, str]()
        if steered:
            stack.enter_context(_asked(str(place / "state" / "cohabit.sock"), seen, numbers, jobs))
        begin_s = time.time()
        acts = sorted(_acts(slurm, top, jobs, seen, numbers, begin_s, reserves), key=lambda one: one[0])
        for at_s, act in acts:
            time.sleep(max(begin_s + at_s - time.time(), 0))
            act()
        expected = {one.key: one for one in jobs}
        over = time.monotonic() + DEADLINE_S
        while time.monotonic() < over and _open(slurm, numbers, expected):
            time.sleep(1)
        seen.stuck = _open(slurm, numbers, expected)
        if steered:
            words = [sys.executable, "-m", "tests.backend.slurm.attach", "slurm", "detach", str(site)]
            subprocess.run(words, check=True, capture_output=True, timeout=120)
        _read(slurm, top / "notes", seen, numbers, begin_s)
        slurm.run("scancel", "--user=bin", check=False)
        return seen


@contextmanager
def _slurm(folder: Path, variant: str) -> Iterator[SlurmCluster]:
    folder.mkdir()
    (folder / "gres.conf").write_text("Name=card Count=2\n")
    text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "lease"))
    sharing = "EXCLUSIVE" if variant == WHOLE else "NO"
    partition = ONE_PARTITION.replace("OverSubscribe=NO", f"OverSubscribe={sharing}")
    more = "GresTypes=card\nMinJobAge=7200"
    with running_slurm(
        folder, nodes=NODES, cores=CORES, sockets=2, partitions=partition, more=more, node="Gres=card:2",
        job_submit=text, name="walk",
    ) as cluster:  # fmt: skip
        yield cluster


def _acts(
    slurm: SlurmCluster,
    top: Path,
    jobs: list[Submission],
    seen: Seen,
    numbers: dict[str, str],
    begin_s: float,
    reserves: bool,
) -> Iterator[tuple[float, Callable[[], None]]]:
    """What is typed, and when."""
    notes = top / "notes"
    notes.touch()
    notes.chmod(0o666)

    def reserve() -> None:
        starts_s = time.time() + RESERVED_AT_S
        slurm.run("scontrol", "create", "reservation", "ReservationName=upkeep", f"Nodes={','.join(RESERVED)}",
                  f"StartTime=now+{RESERVED_AT_S}", "Duration=1", "Users=root", "Flags=MAINT")  # fmt: skip
        seen.window = (starts_s + 1 - begin_s, starts_s + 59 - begin_s)

    def submit(one: Submission) -> None:
        script = top / f"{one.key}.sh"
        script.write_text(SCRIPT.format(key=one.key, notes=notes, seconds=one.seconds, status=one.status))
        kind, other = one.needs
        more = (f"--dependency={kind}:{numbers[other]}",) if kind else ()
        who = () if one.by_root else OWNER
        seen.submitted[one.key] = time.time() - begin_s
        words = ("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "--time=1", *one.options, *more)
        numbers[one.key] = slurm.run(*who, *words, str(script)).strip()

    def act(one: Submission, words: tuple[str, ...], by_owner: bool) -> None:
        if words[-1] == "release":
            seen.released.append(Held(one.key, time.time() - begin_s))
        who, number = OWNER if by_owner else (), numbers[one.key]
        done = subprocess.run(
            [*who, *words, number], env=slurm.environment, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            seen.refused.append(f"{' '.join(words)} {one.key}: {done.stderr.strip()}")

    if reserves:
        yield 0.0, reserve
    for one in jobs:
        yield one.at_s, lambda one=one: submit(one)  # type: ignore[misc]
        for later_s, words, by_owner in one.acts:
            yield one.at_s + later_s, lambda one=one, words=words, own=by_owner: act(one, words, own)  # type: ignore[misc]


def _open(slurm: SlurmCluster, numbers: dict[str, str], expected: dict[str, Submission]) -> list[str]:
    """The jobs that are not where they are to end."""
    jobs = jobs_of(slurm)
    found = []
    for key, number in numbers.items():
        one = expected[key]
        names = [f"{number}_{task}" for task in range(1, one.tasks + 1)] if one.tasks else [number]
        if any(name not in jobs or jobs[name].state != one.ends for name in names):
            found.append(key)
    return found


@contextmanager
def _asked(server: str, seen: Seen, numbers: dict[str, str], jobs: list[Submission]) -> Iterator[None]:
    """Ask again and again why jobs wait, as their owners would: what a job waits for is told while it waits."""
    over, tasks = threading.Event(), {one.key: one.tasks for one in jobs}

    def names() -> Iterator[tuple[str, str]]:
        for key, number in list(numbers.items()):
            yield from [(f"{key}_{at}", f"{number}_{at}") for at in range(1, tasks[key] + 1)] or [(key, number)]

    def ask() -> None:
        client = connect(server)
        while not over.wait(ASK_S):
            for key, name in names():
                try:
                    story = client.why(name)
                except InputError:  # not seen yet, or Slurm's own
                    continue
                if story["state"] in ("queued", "held"):
                    known = seen.why.setdefault(key, [])
                    if without_durations(story["why"]) not in map(without_durations, known):
                        known.append(story["why"])

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


def _read(slurm: SlurmCluster, notes: Path, seen: Seen, numbers: dict[str, str], begin_s: float) -> None:
    """What the jobs themselves noted, and where Slurm says they ended."""
    for line in notes.read_text().splitlines():
        key, what, instant, *nodes = line.split()
        times = seen.began if what == "began" else seen.ended
        if key in times:
            seen.twice.append(key)
        times[key] = float(instant) - begin_s
        if nodes:
            seen.nodes[key] = tuple(expanded(nodes[0]))
    jobs, by_number = jobs_of(slurm), {number: key for key, number in numbers.items()}
    for name, job in jobs.items():
        array, _, task = name.partition("_")
        key = by_number[array] + (f"_{task}" if task else "")
        seen.states[key] = f"{job.state} held" if job.waits and job.held else job.state
        seen.submitted.setdefault(key, seen.submitted[by_number[array]])


# ---- what must be obeyed --------------------------------------------------------------------------------------------


def broken(jobs: list[Submission], seen: Seen) -> list[str]:
    """Every hold, dependency, begin time, bound and reservation that was not obeyed; jobs that ran twice or stuck."""
    found = [f"{key} ran twice" for key in seen.twice] + [f"refused: {text}" for text in seen.refused]
    found += [f"{key} did not end as it should: {seen.states.get(key, 'gone')}" for key in seen.stuck]
    found += [f"{one.key} began while it was held" for one in seen.released if _began(seen, one.key) < one.until_s]
    for one in jobs:
        kind, other = one.needs
        tasks = [f"_{task}" for task in range(1, one.tasks + 1)] if one.tasks else [""]
        for task in tasks if kind else ():
            began, first = _began(seen, one.key + task), seen.began if kind == "after" else seen.ended
            if began < np.inf and began < first.get(other + task, np.inf):
                found.append(f"{one.key}{task} began before {kind}:{other} was met")
        if one.ends == "PENDING" and seen.states.get(one.key) != "PENDING":
            found.append(f"{one.key} was left {seen.states.get(one.key)}")
    if _began(seen, "single2") < seen.ended.get("single1", np.inf):
        found.append("two jobs of one name ran at once")
    if _began(seen, "later") < seen.submitted["later"] + 14:
        found.append("later began before its begin time")
    if _most_at_once(seen, "bounded_") > 2:
        found.append("more tasks of an array ran than may")
    begin_s, end_s = seen.window
    for key, nodes in seen.nodes.items():
        overlaps = _began(seen, key) < end_s and seen.ended.get(key, np.inf) > begin_s
        if overlaps and set(nodes) & set(RESERVED) and key not in ("inside", "gone2"):
            found.append(f"{key} ran on reserved nodes")
    shapes = {"pairs": 2, "threads": 1, "together": 1, "all1": NODES, "all2": NODES}
    found += [f"{key} ran on {seen.nodes[key]}" for key, count in shapes.items()
              if key in seen.nodes and len(seen.nodes[key]) != count]  # fmt: skip
    return found


def _began(seen: Seen, key: str) -> float:
    return seen.began.get(key, np.inf)


def _most_at_once(seen: Seen, prefix: str) -> int:
    spans = [(seen.began[key], seen.ended[key]) for key in seen.ended if key.startswith(prefix)]
    return max((sum(begin <= at < end for begin, end in spans) for at, _ in spans), default=0)


# ---- the answer -----------------------------------------------------------------------------------------------------


def like(policy: str) -> str:
    """The plain Slurm that a policy is compared with: one that gives out whole nodes, too, or one that does not."""
    return WHOLE if policy not in (PLAIN, WHOLE) and build(PolicyConfig(policy)).placer.exclusive else PLAIN


def late(plain: Seen, seen: Seen) -> dict[str, tuple[float, float]]:
    """Jobs that waited beyond the bound: here and under plain Slurm."""
    both = seen.began.keys() & plain.began.keys()
    waits = {key: (seen.wait_s(key), plain.wait_s(key)) for key in both}
    return {key: (now, then) for key, (now, then) in waits.items() if now > TOO_LATE_X * then + TOO_LATE_S}


def told(rounds: list[tuple[list[Submission], dict[str, Seen]]], policies: list[str]) -> dict[str, Any]:
    """All figures, as one document."""
    ratios = defaultdict[str, list[float]](list)
    found: dict[str, Any] = {"rounds": len(rounds), "policies": {}}
    for variant in (PLAIN, WHOLE, *policies):
        wrong, waits, other_sets = list[str](), list[dict[str, Any]](), list[str]()
        for number, (jobs, runs) in enumerate(rounds):
            if variant not in runs:
                continue
            seen, plain = runs[variant], runs[PLAIN]
            wrong += [f"round {number + 1}: {text}" for text in broken(jobs, seen)]
            keys = seen.finished() & plain.finished()
            ratios[variant].append(seen.turnaround_s(keys) / plain.turnaround_s(keys))
            if WHOLE in runs:
                common = keys & runs[WHOLE].finished()
                ratios[f"{variant} whole"].append(seen.turnaround_s(common) / runs[WHOLE].turnaround_s(common))
            other_sets += sorted(seen.finished() ^ plain.finished())
            beside = like(variant)
            for key, (now, then) in late(runs[beside], seen).items() if variant in policies and beside in runs else ():
                reasons = seen.why.get(key, [])
                named = any("promise" in text for text in reasons)
                waits.append({"round": number + 1, "job": key, "wait_s": round(now, 1), f"{beside}_s": round(then, 1),
                              "names_a_promise": named, "why": reasons[-6:]})  # fmt: skip
        found["policies"][variant] = {
            "finished": [len(runs[variant].finished()) for _, runs in rounds if variant in runs],
            "not_in_both": other_sets,
            "turnaround_s": [round(runs[variant].turnaround_s(runs[variant].finished()), 2)
                             for _, runs in rounds if variant in runs],
            "turnaround_to_plain": _interval(ratios[variant]),
            "turnaround_to_whole": _interval(ratios[f"{variant} whole"]),
            "late": waits,
            "not_obeyed": wrong,
        }  # fmt: skip
    return found


def _interval(values: list[float]) -> dict[str, float | None] | None:
    if not values:
        return None
    enough = bootstrap_interval(values, np.random.default_rng(1)) if len(values) >= 3 else None
    low, high = (None, None) if enough is None else (enough.low, enough.high)
    return {"mean": statistics.fmean(values), "low": low, "high": high}


def say(found: dict[str, Any]) -> None:
    """The same for people."""
    for variant, one in found["policies"].items():
        sets = "the same jobs finished" if not one["not_in_both"] else f"not in both: {', '.join(one['not_in_both'])}"
        print(f"{variant}: {one['finished']} finished, {sets}; mean turnaround {one['turnaround_s']} s")
        for title in (PLAIN, WHOLE):
            ratio = one[f"turnaround_to_{title}"]
            if ratio is not None and variant != title:
                bounds = "" if ratio["low"] is None else f" ({ratio['low']:.3f} to {ratio['high']:.3f})"
                print(f"  {ratio['mean']:.3f}{bounds} of {title} Slurm's")
        for job in one["late"]:
            named = "names a promise" if job["names_a_promise"] else "NAMES NO PROMISE"
            beside = like(variant)
            print(f"  late in round {job['round']}: {job['job']} waited {job['wait_s']:g} s, under {beside} Slurm"
                  f" {job[f'{beside}_s']:g} s; why {named}")  # fmt: skip
            for text in job["why"]:
                print(f"      {text}")
        for text in one["not_obeyed"]:
            print(f"  NOT OBEYED: {text}")


def main() -> int:
    """Print what the rounds showed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if reason := missing():
        print(f"slurm_walk: {reason}", file=sys.stderr)
        return 2
    policies = [name for name in given.policies.split(",") if name]
    variants, rounds = [PLAIN, WHOLE, *policies], []
    for number in range(given.rounds):
        jobs, runs = sixty(given.seed + number), dict[str, Seen]()
        turn = number % len(variants)
        for variant in (*variants[turn:], *variants[:turn]):  # whatever else the machine does meets all of them
            print(f"round {number + 1}: {variant} ...", file=sys.stderr, flush=True)
            runs[variant] = walk(variant, jobs)
        rounds.append((jobs, runs))
    found = told(rounds, policies)
    say(found)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    bad = any(found["policies"][name]["not_obeyed"] or found["policies"][name]["not_in_both"] for name in policies)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
