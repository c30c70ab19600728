"""The sixty jobs of benchmarks/slurm_walk.py: every odd kind, and ordinary ones between them."""

from __future__ import annotations

import random
from dataclasses import dataclass

NODES, CORES = 8, 28
GONE_S = 20.0


@dataclass(frozen=True)
class Submission:
    """What is typed at an instant, and what is done with the job later."""

    key: str
    at_s: float
    seconds: float
    options: tuple[str, ...]
    needs: tuple[str, str] = ("", "")  # the type of a dependency, and on which job
    acts: tuple[tuple[float, tuple[str, ...], bool], ...] = ()  # so much later, which command, whether by its owner
    status: int = 0
    by_root: bool = False
    ends: str = "COMPLETED"
    tasks: int = 0  # of an array


def sixty(seed: int) -> list[Submission]:
    """The jobs of a round."""
    chance = random.Random(seed)

    def at(least_s: float = 0.0, most_s: float = 40.0) -> float:
        return round(chance.uniform(least_s, most_s), 1)

    def lasts(least_s: float = 3.0, most_s: float = 12.0) -> float:
        return round(chance.uniform(least_s, most_s), 1)

    release, hold = ("scontrol", "release"), ("scontrol", "hold")
    bad_s, left_s, one_s = at(0, 10), at(0, 10), at(0, 15)
    found = [
        Submission("chain1", 1.0, 4, ("-n8",)),
        Submission("chain2", 1.2, 4, ("-n8",), ("afterok", "chain1")),
        Submission("chain3", 1.4, 4, ("-n8",), ("afterok", "chain2")),
        Submission("base", 2.0, 8, ("-n4",)),
        Submission("beside", 2.2, 3, ("-n4",), ("after", "base")),
        Submission("bad", bad_s, 4, ("-n2",), status=3, ends="FAILED"),
        Submission("rescue", bad_s + 0.2, 3, ("-n2",), ("afternotok", "bad")),
        Submission("whatever", bad_s + 0.4, 3, ("-n2",), ("afterany", "bad")),
        Submission("never", bad_s + 0.6, 3, ("-n2",), ("afterok", "bad"), ends="PENDING"),
        Submission("left", left_s, 5, ("-n2", "--array=1-4"), tasks=4),
        Submission("right", left_s + 0.5, 3, ("-n2", "--array=1-4"), ("aftercorr", "left"), tasks=4),
        Submission("single1", one_s, 6, ("-n1", "--job-name=single")),
        Submission("single2", one_s + 0.5, 3, ("-n1", "--job-name=single", "--dependency=singleton")),
        Submission("bounded", at(0, 10), 5, ("-n7", "--array=1-8%2"), tasks=8),
        Submission("later", 3.0, 3, ("-n4", "--begin=now+15")),
        Submission("inside", 30.0, 3, ("-n4", "--reservation=upkeep"), by_root=True),
        Submission("card1", at(), lasts(), ("-n1", "--gres=card:1")),
        Submission("card2", at(), lasts(), ("-n2", "--gres=card:2")),
        Submission("nowhere", at(0, 10), 3, ("-n300",), ends="PENDING"),
        Submission("all1", at(0, 20), 5, (f"-n{NODES * CORES}",)),
        Submission("all2", at(20, 40), 5, (f"-n{NODES * CORES}",)),
        *(Submission(f"wide{number}", at(), lasts(), ("-n84",)) for number in range(3)),
        Submission("pairs", at(), lasts(), ("-n4", "--ntasks-per-node=2")),
        Submission("threads", at(), lasts(), ("-n2", "-c4")),
        Submission("together", at(), lasts(), ("-n4", "-N1")),
        Submission("kept", 4.0, 3, ("-n8", "--begin=now+4"), acts=((0.3, hold, False), (25.0, release, False))),
        Submission("own", 4.5, 3, ("-n8", "--begin=now+4"), acts=((0.3, hold, True), (25.0, release, True))),
        Submission("asked", 5.0, 3, ("-n8", "--hold"), acts=((20.0, release, True),)),
        Submission("gone1", at(5, 10), 30, (f"-n{NODES * CORES}", "--begin=now+30"),
                   acts=((3.0, ("scancel",), True),), ends="CANCELLED"),
        Submission("gone2", 2.5, 200, ("-n2",), acts=((GONE_S, ("scancel",), True),), ends="CANCELLED"),
        Submission("fails", at(), lasts(), ("-n4",), status=1, ends="FAILED"),
    ]  # fmt: skip
    count = 60 - sum(max(one.tasks, 1) for one in found)
    sizes = (1, 2, 4, 7, 14, 28, 28, 56)
    found += [
        Submission(f"plain{number}", at(), lasts(5, 20), (f"-n{chance.choice(sizes)}",)) for number in range(count)
    ]
    return sorted(found, key=lambda one: one.at_s)
