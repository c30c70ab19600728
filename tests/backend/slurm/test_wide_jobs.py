"""Wide jobs among small ones: as soon as plain Slurm under `ce-easy`, within a bound under `cohabit`.

The same jobs at the same instants, each time on a fresh Slurm of eight nodes with 28 cores: plain and under attach,
with shared nodes (`cohabit`) and with whole ones (`ce-easy`). Plain Slurm lets no small job pass in its main scheduler,
so that a mean wait that is equal is much to ask of a policy that does.
"""

from __future__ import annotations

import random
import sys
from statistics import fmean

import pytest
from benchmarks.slurm_walk import PLAIN, WHOLE, Seen, walk
from benchmarks.slurm_walk_jobs import CORES, NODES, Submission

from tests.support.slurm_cluster import missing

EQUAL, TWICE = (1.1, 5.0), (2.0, 10.0)  # a wait may be so many times plain Slurm's, and so much more
WIDE = ("all", "wide0", "wide1", "wide2")


def jobs_of_a_minute(seed: int) -> list[Submission]:
    """A stream of small jobs that wants nearly the whole machine, three jobs of 84 cores and one of all."""
    chance = random.Random(seed)
    small = [
        Submission(f"small{at}", round(1.4 * at, 1), chance.uniform(6, 12), (f"-n{chance.choice((14, 28, 28, 56))}",))
        for at in range(32)
    ]
    wide = [Submission(f"wide{at}", 6.0 + 10 * at, 8, ("-n84",)) for at in range(3)]
    return sorted([*small, *wide, Submission("all", 11.0, 8, (f"-n{NODES * CORES}",))], key=lambda one: one.at_s)


def wait_s(seen: Seen, *keys: str) -> float:
    return fmean(seen.wait_s(key) for key in keys)


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.cluster
@pytest.mark.xdist_group("slurm-walk")
@pytest.mark.parametrize(("plain", "policy", "bound"), [(PLAIN, "cohabit", TWICE), (WHOLE, "ce-easy", EQUAL)])
def test_wide_jobs_wait_no_longer_than_under_plain_slurm(plain: str, policy: str, bound: tuple[float, float]) -> None:
    if reason := missing():
        pytest.skip(reason)
    jobs = jobs_of_a_minute(34)
    small = [one.key for one in jobs if one.key not in WIDE]
    then, now = walk(plain, jobs, reserves=False), walk(policy, jobs, reserves=False)
    sys.stdout.write(
        f"\n{policy}: wide jobs waited {wait_s(now, *WIDE):.1f} s, under {plain} Slurm {wait_s(then, *WIDE):.1f} s "
        f"(all: {now.wait_s('all'):.1f}, {then.wait_s('all'):.1f}); small ones {wait_s(now, *small):.1f} s, "
        f"{wait_s(then, *small):.1f} s\n"
    )
    assert now.finished() == then.finished() == {one.key for one in jobs}
    for keys in (WIDE, ("all",)):
        assert wait_s(now, *keys) <= bound[0] * wait_s(then, *keys) + bound[1], now.why
