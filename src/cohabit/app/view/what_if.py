"""What if a finished run had had more or fewer nodes, another promise or another policy: it is simulated again.

The jobs, programs and seed are those of the run. A question that is answered with the run's own settings gives its own
figures, to the last digit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import msgspec

from cohabit.app.scenario.policies import VARYING
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.simulate.preparation import prepare
from cohabit.app.simulate.simulation import run as simulate
from cohabit.app.view.learning import compare
from cohabit.app.view.run import FinishedRun
from cohabit.model.errors import InputError
from cohabit.model.records import RunTable
from cohabit.policy.registry import BUNDLES

PATIENCE_S = 30.0
FEWEST, MOST = 0.25, 4.0  # of the run's nodes


@dataclass(frozen=True)
class Asked:
    """What is to be different; None: as in the run."""

    nodes: int | None = None
    alpha: float | None = None
    policy: str = ""


@dataclass(frozen=True)
class Tried:
    """The answer as a run to compare with."""

    name: str
    table: RunTable


def choices(run: FinishedRun) -> dict[str, Any]:
    """Return what can be asked of this run: bounds of the nodes (null: they come in groups), alpha, policies."""
    prepared = run.prepared
    if prepared is None:
        return {
            "why": "A run of several domains, or one whose scenario cannot be read any more, is not simulated again."
        }
    groups = bool(prepared.scenario.cluster.group)
    nodes = prepared.cluster.nodes
    return {
        "why": "",
        "nodes": None if groups else [max(1, round(nodes * FEWEST)), nodes, round(nodes * MOST)],
        "alpha": prepared.scenario.policy.alpha,
        "policy": run.table.policy,
        "policies": {name: about.summary for name, (_, about) in BUNDLES.items()},
    }


def _bundle(name: str, base: PolicyConfig) -> PolicyConfig:
    """Return the bundle with the options of the run; parts of its own policy, which a finished run names, are left."""
    usual = msgspec.structs.asdict(PolicyConfig())
    return msgspec.structs.replace(base, name=name, **{key: usual[key] for key in VARYING})


def what_if(run: FinishedRun, asked: Asked) -> dict[str, Any]:
    """Simulate the jobs of the run again and return both sides by side; an InputError says why it cannot be."""
    prepared = run.prepared
    if prepared is None:
        raise InputError("this run cannot be simulated again", str(run.folder), "simulate again with --out DIR")
    scenario = prepared.scenario
    policy = _bundle(asked.policy, scenario.policy) if asked.policy else scenario.policy
    if asked.alpha is not None:
        policy = msgspec.structs.replace(policy, alpha=asked.alpha)
    cluster = scenario.cluster
    if asked.nodes is not None and asked.nodes != prepared.cluster.nodes:
        if cluster.group:
            raise InputError("the nodes of this run come in groups", "nodes", "change them in the scenario")
        cluster = msgspec.structs.replace(cluster, nodes=asked.nodes)
    changed = prepare(msgspec.structs.replace(scenario, policy=policy, cluster=cluster), run.table.workload)
    until = time.monotonic() + PATIENCE_S

    def patient(_: int, __: int) -> None:
        if time.monotonic() > until:
            raise InputError(
                f"that takes longer than {PATIENCE_S:g} s here", "what if", "cohabit compare has no such limit"
            )

    began = time.monotonic()
    table, _ = simulate(changed, record_nodes=False, progress=patient)
    took = time.monotonic() - began
    told = compare([Tried("as it was", run.table), Tried("what if", table)])
    return told | {"notes": list(changed.notes), "took_s": round(took, 3), "policy": table.policy}
