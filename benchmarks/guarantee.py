"""The guarantee loop in simulation, on seeds nobody looked at while it was written: what it brings and what it costs.

    python -m benchmarks.guarantee --seed 20271 --sets 3

Sequences of 20 jobs of the twelve programs on eight nodes (as reproduce/sns), with phases, and profiles that are wrong
by a relative error. All policies see the same jobs, phases and errors. A job is below alpha where its run took more
than 1.1 times its exclusive run (S68). Figures are in docs/guarantee.md.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.reproduce.sns.lab import NODES, Bench, Conditions, simulate, times_of
from cohabit.reproduce.sns.sequences import RATIOS, VIOLATION
from cohabit.sim.streams import stream
from cohabit.trace.mix import generate_sequence

JOBS, SEQUENCES = 20, 36
POLICIES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {  # bundle, other keys of [policy]
    "ce": ("ce", ()),
    "sns": ("sns", ()),
    "sns-guarantee": ("sns-guarantee", ()),
    "cs": ("cs", ()),
    "cs + guarantee": ("cs", (("partition", "guarantee"),)),
}
PAIRS = (("sns", "sns-guarantee"), ("cs", "cs + guarantee"))


def study(seed: int, sets: int, sequences: int, noise: float, progress_s: float) -> dict[str, Any]:
    """All policies over all sequences, run times as ratios to the exclusive run of the same job."""
    bench = Bench()
    run: dict[str, list[NDArray[np.float64]]] = {name: [] for name in POLICIES}
    mean_turnaround: dict[str, list[float]] = {name: [] for name in POLICIES}
    for number in range(sets * sequences):
        workload = generate_sequence(
            stream(seed, f"sequence {number}"), bench.programs, JOBS, ratio=RATIOS, nodes=NODES
        )
        world_seed = int(stream(seed, f"world {number}").integers(0, 2**40))
        for name, (bundle, keys) in POLICIES.items():
            conditions = Conditions(phases=True, profile_noise=noise, policy=keys, progress_s=progress_s)
            times = times_of(simulate(bench, bundle, workload, conditions, seed=world_seed))
            assert times.finished, "a job did not finish"
            run[name].append(times.run_s)
            mean_turnaround[name].append(float(times.turnaround_s.mean()))
    alone = np.concatenate(run["ce"])
    ratios = {name: np.concatenate(found) / alone for name, found in run.items()}
    base = np.array(mean_turnaround["ce"])
    found: dict[str, Any] = {"noise": noise, "jobs": len(alone), "policies": {}, "loop": {}}
    for name, ratio in ratios.items():
        beyond = ratio > VIOLATION
        found["policies"][name] = {
            "below_alpha": int(beyond.sum()), "below_alpha_pct": round(100 * float(beyond.mean()), 2),
            "worst": round(float(ratio.max()), 3),
            "mean_excess_pct": round(float(100 * (ratio[beyond] / VIOLATION - 1).mean()), 1) if beyond.any() else None,
            "mean_run_time": round(float(np.exp(np.log(ratio).mean())), 4),
            "throughput_over_ce": round(float(np.mean(base / np.array(mean_turnaround[name]))), 4),
        }  # fmt: skip
    for without, with_loop in PAIRS:
        helped = ratios[without] > VIOLATION
        change = np.log(ratios[with_loop] / ratios[without])
        found["loop"][with_loop] = {
            "run_time_of_those_below_pct": round(100 * float(np.expm1(change[helped].mean())), 2),
            "run_time_of_the_others_pct": round(100 * float(np.expm1(change[~helped].mean())), 2),
            "newly_below": int((~helped & (ratios[with_loop] > VIOLATION)).sum()),
        }  # fmt: skip
    return found


def main() -> None:
    """Print one JSON document per level of error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=20271)
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05, 0.2, 0.4])
    parser.add_argument("--progress-s", type=float, default=10.0)
    asked = parser.parse_args()
    for noise in asked.noise:
        print(json.dumps(study(asked.seed, asked.sets, asked.sequences, noise, asked.progress_s), indent=1), flush=True)


if __name__ == "__main__":
    main()
