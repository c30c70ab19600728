"""The trial from nothing, simulated: what learning is worth within 120 jobs, against sharing by free cores.

    python -m benchmarks.trial.simulated --draws 4

Six programs of the catalogue on eight nodes; by what part the mean turnaround of the last 40 jobs is below that under
`cs`, on the same draw, when the scheduler begins with nothing and when it knows all profiles.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

import cohabit

JOBS, LAST = 120, 40
PROGRAMS = ("MG", "CG", "EP", "WC", "TS", "HC")
POLICIES = ("sns", "cohabit")
NODE = {
    "nodes": 8, "cores": 28, "ways": 20, "min_ways": 2, "closids": 16,
    "bandwidth_gbs": {"1": 18.8, "2": 37.17, "4": 70.0, "8": 104.0, "12": 111.0, "16": 114.8, "28": 118.26},
}  # fmt: skip


def scenario(policy: str, profiles: str, gap_s: float) -> dict[str, Any]:
    """Return the scenario; `gap_s`: mean time between submissions, 0: all at once."""
    mix = dict.fromkeys(PROGRAMS, 1.0)
    return {
        "cluster": NODE,
        "programs": {"catalogue": "sns12", "profiles": profiles},
        "jobs": {"generator": "mix", "jobs": JOBS, "programs": mix, "processes": [16, 28], "mean_gap_s": gap_s},
        "policy": {"name": policy},
        "world": {"phases": True},
    }


def turnaround_s(policy: str, profiles: str, gap_s: float, seed: int) -> float:
    """Return the mean turnaround of the last jobs."""
    jobs = cohabit.simulate(scenario(policy, profiles, gap_s), seed=seed).jobs.sort("submit_s").tail(LAST)
    return float((jobs["end_s"] - jobs["submit_s"]).mean())


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--gaps", default="0,25", help="seconds between submissions, separated by commas")
    options = parser.parse_args(words)
    for gap_s in map(float, options.gaps.split(",")):
        plain = [turnaround_s("cs", "known", gap_s, seed) for seed in range(1, options.draws + 1)]
        for profiles in ("none", "known"):
            for policy in POLICIES:
                ours = [turnaround_s(policy, profiles, gap_s, seed) for seed in range(1, options.draws + 1)]
                gains = [100 * (1 - one / other) for one, other in zip(ours, plain, strict=True)]
                text = f"{statistics.fmean(gains):6.1f} % ({min(gains):.1f} to {max(gains):.1f})"
                print(f"every {gap_s:g} s, profiles {profiles:<6} {policy:<8} {text} below cs", flush=True)


if __name__ == "__main__":
    main()
