"""Speed of one gate decision at the paper's size: 512 nodes, 93 counters, 282 features, a job on 16 nodes.

    python -m benchmarks.gate [--quick]

A decision is everything a start costs more because of the gate: the window read, reduced to features, the model asked,
skips counted. "later" is what the next job pays: the window of all nodes is reduced once. Processor time, best of five.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from benchmarks.variability import microseconds, runs_like_the_papers
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.core.gating import Gatekeeper
from cohabit.model.cluster import uniform_cluster
from cohabit.model.event import JobSubmitted, TelemetryReduced
from cohabit.model.job import Job
from cohabit.model.telemetry import Window, encode
from cohabit.model.units import SECOND
from cohabit.policy.gate.variability import ModelJudge, VariabilityGate
from cohabit.predict import variability_training as training
from cohabit.predict.variability_learners import KINDS

NODES, JOB_NODES, GOAL_US = 512, 16, 200.0


def main() -> None:
    """A line per learner and set of nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs to learn from")
    rng = np.random.default_rng(1)
    data = runs_like_the_papers(40 if parser.parse_args().quick else 200, rng)
    counters = tuple(name.removesuffix(".min") for name in data.columns[::3])
    table = rng.lognormal(0, 1, (NODES, len(counters))).astype(np.float32)
    window = Window(0, counters, table - np.float32(0.5), table + np.float32(0.5), table)
    ranges = ((0, JOB_NODES),)
    print(f"{NODES} nodes, {len(counters)} counters, {data.inputs.shape[1]} features; microseconds per gate decision")
    print("model         nodes   decision    later   telemetry told")
    for kind in KINDS:
        model = training.fit(data, kind, 0, None).deployed
        for all_nodes in (False, True):
            gate = VariabilityGate(ModelJudge(model, all_nodes), labels=("none", "little", "variation"))
            policies = replace(build(PolicyConfig(name="ce-easy")), gates=(gate,))
            core = SchedulerCore(uniform_cluster(NODES), policies)
            told = TelemetryReduced(encode(window))
            job = Job("a", 600 * SECOND, nodes=JOB_NODES, workload_type="network")
            core.step(0, [told, JobSubmitted(job)])
            view = core.view(0)
            row = core.state.rows["a"]

            def again(view=view, gate=gate, row=row) -> None:  # type: ignore[no-untyped-def]
                view._state.memory.clear()  # asked as if for the first time
                Gatekeeper(view, (gate,)).lets(row, ranges)

            def decide(view=view, again=again) -> None:  # type: ignore[no-untyped-def]
                if view.window is not None:
                    view.window.__dict__.pop("of_all_nodes", None)
                again()

            def tell(core=core, told=told) -> None:  # type: ignore[no-untyped-def]
                core.state.window = None
                core.step(0, [told])

            took, later, telling = microseconds(200, decide), microseconds(200, again), microseconds(50, tell)
            verdict = "" if took < GOAL_US else f"  above {GOAL_US:.0f}"
            print(f"{kind:12} {'all' if all_nodes else 'job':>6} {took:10.1f} {later:8.1f} {telling:16.1f}{verdict}")


if __name__ == "__main__":
    main()
