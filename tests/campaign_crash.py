"""The crash campaign: python -m tests.campaign_crash [--rounds N] [--seed S] [--workers W] [--out FILE]

Each round (tests/system/crash_round.py) follows from one number, the seed of the campaign plus its own; a failure
prints it, and `--rounds 1 --seed NUMBER` plays that round again. Prints every broken promise, keeps the folders of
those rounds, and exits 1 if there was one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.system.crash_round import Outcome, plan_of, play
from tests.system.crash_troubles import KINDS, possible
from tests.system.deadly_rounds import Nursery


class Campaign:
    """Rounds side by side, each worker with a nursery of its own."""

    def __init__(self, place: Path, workers: int) -> None:
        self.place, self.outcomes, self.problems = place, list[Outcome](), list[str]()
        self._own, self._nurseries = threading.local(), list[Nursery]()
        self._pool = ThreadPoolExecutor(workers)

    def play_all(self, seeds: range) -> None:
        """All of them; those that kept their promises leave nothing behind."""
        for done, _ in enumerate(as_completed([self._pool.submit(self._play, seed) for seed in seeds]), 1):
            kills = sum(sum(one.strikes.values()) + one.starts - 1 for one in self.outcomes)
            sys.stderr.write(f"\r{done} of {len(seeds)} rounds, {kills} deaths, {len(self.problems)} problems ")
            sys.stderr.flush()
        sys.stderr.write("\n")
        for nursery in self._nurseries:
            nursery.close()

    def _play(self, seed: int) -> None:
        if not hasattr(self._own, "nursery"):
            self._own.nursery = Nursery()
            self._nurseries.append(self._own.nursery)
        folder = self.place / f"round-{seed}"
        plan = plan_of(seed, KINDS)
        if plan.trouble not in possible():
            plan = plan_of(seed, possible())
        try:
            outcome = play(self._own.nursery, folder, plan)
        except Exception:
            self.problems.append(f"seed {seed} ({plan.trouble}): {traceback.format_exc()}")
            return
        self.outcomes.append(outcome)
        self.problems += outcome.problems
        if not outcome.problems:
            shutil.rmtree(folder)


def facts_of(outcomes: list[Outcome]) -> dict[str, object]:
    """What the rounds came to, in numbers."""
    strikes = Counter[str]()
    for one in outcomes:
        strikes.update(one.strikes)
    troubled = Counter(one.plan.trouble for one in outcomes)
    return {
        "rounds": len(outcomes), "rounds_by_trouble": dict(sorted(troubled.items())),
        "jobs": sum(one.jobs for one in outcomes), "runs": sum(one.runs for one in outcomes),
        "controllers_started": sum(one.starts for one in outcomes), "killed": dict(sorted(strikes.items())),
        "refusals_while_disk_or_journal_failed": sum(one.refused for one in outcomes),
        "batches_replayed": sum(one.batches for one in outcomes),
    }  # fmt: skip


def main() -> int:
    """The campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the others follow")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    place, began_s = Path(tempfile.mkdtemp(prefix="cohabit-crash-")), time.monotonic()
    place.chmod(0o711)  # jobs run as several users
    campaign = Campaign(place, wanted.workers)
    campaign.play_all(range(wanted.seed, wanted.seed + wanted.rounds))
    minutes = round((time.monotonic() - began_s) / 60, 1)
    facts = facts_of(campaign.outcomes) | {"problems": len(campaign.problems), "seed": wanted.seed, "minutes": minutes}
    missing = [kind for kind in KINDS if kind not in possible()]
    if missing:
        facts["not_possible_here"] = missing
    sys.stdout.write(json.dumps(facts, indent=1) + "\n" + "".join(f"{one}\n" for one in campaign.problems))
    if wanted.out:
        wanted.out.write_text(json.dumps(facts, indent=1) + "\n")
    if campaign.problems:
        sys.stdout.write(f"kept in {place}\n")
        return 1
    shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
