"""The kill test in full: python -m tests.campaign_live [--every N] [--workers W] [--seed S] [--out FILE]

Clean rounds show which boundaries each controller passes until both jobs have ended, and how far apart mates start.
Then, for each domain, each kind of boundary and each number: a round in which that controller is killed there with
kill -9 and comes back after a while (at once, within the lease, or after it). Prints every broken promise and exits 1
if there was one.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.deadly_rounds import Nursery
from tests.system.mates_round import DOMAINS, TERMS, Result, broken, play

DEAD_S = (0.0, 0.7, 1.5, 6.0)  # how long it stays dead; the lease is 2 s
OFTEN, SELDOM = 3, 2000  # batches between checkpoints


@dataclass(frozen=True)
class Visit:
    """Where one controller dies, and how it goes on."""

    domain: str
    kind: str
    number: int
    dead_s: float
    checkpoint_every: int


@dataclass
class Tally:
    """What the rounds came to."""

    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    restarted: int = 0  # rounds in which a job had to be started again
    replayed: int = 0  # batches, all with the same orders
    problems: list[str] = field(default_factory=list)


def visits(clean: Result, rng: random.Random) -> list[Visit]:
    """Every boundary of a clean round, once."""
    found = []
    for domain in DOMAINS:
        for kind, count in sorted(Counter(clean.boundaries[domain]).items()):
            for number in range(1, count + 1):
                often = OFTEN if "checkpoint" in kind else rng.choice((OFTEN, SELDOM))
                found.append(Visit(domain, kind, number, rng.choice(DEAD_S), often))
    return found


class Campaign:
    """Rounds side by side, each worker with a nursery of its own."""

    def __init__(self, place: Path, workers: int) -> None:
        self.place, self.tally, self._own, self._nurseries = place, Tally(), threading.local(), list[Nursery]()
        self._pool = ThreadPoolExecutor(workers)

    def clean(self, count: int) -> list[Result]:
        """Rounds in which nobody dies, one after the other: they show how far apart mates start."""
        nursery = Nursery()
        results = [play(nursery, self.place / f"clean-{n}", checkpoint_every=OFTEN) for n in range(count)]
        nursery.close()
        for number, result in enumerate(results):
            self.tally.problems += [f"clean {number}: {one}" for one in broken(result)]
        return results

    def visit_all(self, wanted: list[Visit]) -> None:
        for _ in self._pool.map(self._visit, range(len(wanted)), wanted):
            self.tally.rounds += 1
            done, kills, problems = self.tally.rounds, self.tally.kills.total(), len(self.tally.problems)
            sys.stderr.write(f"\r{done} of {len(wanted)} rounds, {kills} kills, {problems} problems ")
        for nursery in self._nurseries:
            nursery.close()

    def _visit(self, number: int, visit: Visit) -> None:
        if not hasattr(self._own, "nursery"):
            self._own.nursery = Nursery()
            self._nurseries.append(self._own.nursery)
        here, tally = self.place / f"round-{number}", self.tally
        die = (visit.domain, visit.kind, visit.number)
        try:
            result = play(self._own.nursery, here, die, visit.dead_s, checkpoint_every=visit.checkpoint_every)
        except AssertionError as error:
            tally.problems.append(f"round {number} {visit} did not end: {error}")
            return
        if found := broken(result):
            tally.problems += [f"round {number} {visit}: {one}" for one in found]
        else:
            shutil.rmtree(here)
        tally.kills[visit.kind] += result.starts[visit.domain] > 1
        tally.restarted += any(len(runs) > 1 for runs in result.runs.values())
        tally.replayed += sum(one.batches for one in result.replays.values())


def main() -> int:
    """The campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every N-th boundary")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clean", type=int, default=10, help="rounds without a kill")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    place, began = Path(tempfile.mkdtemp(prefix="cohabit-kill-")), time.monotonic()
    campaign = Campaign(place, wanted.workers)
    clean, tally = campaign.clean(wanted.clean), campaign.tally
    campaign.visit_all(visits(clean[0], random.Random(wanted.seed))[:: wanted.every])
    apart_ms = sorted(round(result.apart_us / 1000, 1) for result in clean)
    facts = {
        "rounds": tally.rounds, "kills": tally.kills.total(), "kills_by_boundary": dict(sorted(tally.kills.items())),
        "rounds_with_a_second_start": tally.restarted, "batches_replayed": tally.replayed,
        "problems": len(tally.problems), "clean_rounds": len(clean), "clean_starts_apart_ms": apart_ms,
        "median_apart_ms": statistics.median(apart_ms), "lease_s": TERMS.lease_us / 1e6, "seed": wanted.seed,
        "every": wanted.every, "minutes": round((time.monotonic() - began) / 60, 1),
    }  # fmt: skip
    sys.stdout.write(json.dumps(facts, indent=1) + "\n" + "".join(f"{one}\n" for one in tally.problems))
    if wanted.out:
        wanted.out.write_text(json.dumps(facts, indent=1) + "\n")
    if tally.problems:
        sys.stdout.write(f"kept in {place}\n")
    else:
        shutil.rmtree(place)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
