"""Speed of one verdict about a job: our flat form against scikit-learn's predict_proba, in the same run.

    python -m benchmarks.variability [--quick]

A verdict is all a gate asks of the model: features looked up by name, model, calibration, expected slowdown. Times are
processor time, so a busy machine shows in them only a little; the ratio carries over to other machines.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from cohabit.model.telemetry import CANARY_TIMES, WORKLOAD_TYPES, feature_names
from cohabit.predict import variability_training as training
from cohabit.predict.variability_data import Runs
from cohabit.predict.variability_learners import KINDS, library_shares

APPLICATIONS = 7
TABLE_I = {"sysclassib": 22, "opa_info": 34, "lustre2_client": 34}  # the paper's counters
GOAL_US = 100.0


def runs_like_the_papers(each: int, rng: np.random.Generator) -> Runs:
    """Runs with 282 inputs; what they say matters less here than how many there are."""
    counters = [f"{source}.c{at}" for source, count in TABLE_I.items() for at in range(count)] + list(CANARY_TIMES)
    count = APPLICATIONS * each
    which = np.arange(count) % APPLICATIONS
    table = rng.lognormal(0, 1, (count, 3 * len(counters)))
    felt = table[:, 2] * (which % 3 == 1) + table[:, 170] * (which % 3 == 2)
    run_s = (100.0 + 30.0 * which) * (1.0 + 0.2 * felt + 0.02 * rng.standard_normal(count))
    return Runs(
        tuple(f"app{at}" for at in which), np.arange(count) * 3600.0, run_s,
        tuple(WORKLOAD_TYPES[at % 3] for at in which), table, feature_names(counters),
    )  # fmt: skip


def microseconds(times: int, work: Callable[[], object]) -> float:
    """Per call, the best of five rounds."""
    work()
    took = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            work()
        took.append((time.process_time() - began) / times)
    return 1e6 * min(took)


def main() -> None:
    """A line per learner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs to learn from")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(1)
    data = runs_like_the_papers(40 if quick else 200, rng)
    print(f"{len(data)} runs, {data.inputs.shape[1]} inputs; microseconds per verdict")
    print("model         columns      ours   scikit-learn   ratio")
    for kind in KINDS:
        for columns in (None, np.r_[2, 170, rng.choice(279, 30, replace=False), 279:282]):
            trained = training.fit(data, kind, 0, None if columns is None else np.unique(columns))
            model = trained.deployed
            binding, vector = model.bind(data.columns), data.table[5]
            row = data.inputs[5:6, model.chosen]
            ours = microseconds(500, lambda binding=binding, vector=vector: binding.judge(vector, "network"))
            library = microseconds(
                10, lambda flat=model.flat, own=trained.estimator, row=row: library_shares(flat, own, row)
            )
            verdict = "" if ours < GOAL_US else f"  above {GOAL_US:.0f}"
            print(f"{kind:12} {len(model.chosen):8} {ours:9.1f} {library:14.1f} {library / ours:7.1f}{verdict}")


if __name__ == "__main__":
    main()
