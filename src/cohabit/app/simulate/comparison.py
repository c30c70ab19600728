"""Run several policies over the same jobs, several times: `compare`. Finished runs are kept after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig, Scenario
from cohabit.app.scenario.workloads import load_workload
from cohabit.app.simulate import simulation
from cohabit.model.errors import InputError, unknown
from cohabit.model.records import RunTable
from cohabit.policy.registry import BACKFILLS, BUNDLES, LISTED_BY, ORDERS
from cohabit.report.intervals import Comparison, compare_runs
from cohabit.sim.streams import stream

Runs = Callable[[int, bool], Iterator[tuple[str, RunTable]]]  # (seed, record nodes) -> a run by every policy


def policy_from(text: str, base: PolicyConfig) -> PolicyConfig:
    """Parse a bundle name, or parts joined by + in any order: an order, a kind of backfilling ("wfp+conservative")."""
    if text in BUNDLES:
        return msgspec.structs.replace(
            base, name=text, order=None, backfill=None, backfill_order=None, placement=None, pairing=None, gate=None
        )
    config = msgspec.structs.replace(base, backfill_order=None)
    chosen: dict[str, str] = {}
    for part in (word.strip() for word in text.split("+")):
        kind = "order" if part in ORDERS or part.endswith(".py") else "backfill"
        if kind in chosen:
            raise InputError(f"{text!r} names two of a kind: {chosen[kind]} and {part}", "--policies", "keep one")
        chosen[kind] = part
        if kind == "order" or part in BACKFILLS or part.isdigit():
            config = msgspec.structs.replace(config, **{kind: part})
        else:
            raise unknown("policy", part, [*BUNDLES, *ORDERS, *BACKFILLS], LISTED_BY)
    return config


def compare(
    scenario: Scenario,
    names: Sequence[str],
    repeats: int,
    *,
    progress: Callable[[int, int], None] | None = None,
    finished: list[RunTable],
) -> None:
    """Run every policy `repeats` times into `finished`; a repeat has its own seed, and its own generated jobs."""
    if not names:
        raise InputError("no policies to compare", "--policies", "give names separated by commas")
    if repeats < 1:
        raise InputError(f"--repeat {repeats} is not a positive number")
    if len(set(names)) < len(names):
        raise InputError(
            f"{next(n for n in names if names.count(n) > 1)!r} is named twice", "--policies", "name it once"
        )
    run_all = _domain_runs(scenario, names) if scenario.domain else _cluster_runs(scenario, names)
    for repeat in range(repeats):
        for name, table in run_all(scenario.seed + repeat, repeat == 0):
            finished.append(replace(table, policy=name.replace("+", " + ")))
            if progress is not None:
                progress(len(finished), repeats * len(names))


def _cluster_runs(scenario: Scenario, names: Sequence[str]) -> Runs:
    """Compare on one cluster: the same jobs for every policy."""
    policies = {name: policy_from(name, scenario.policy) for name in names}
    for policy in policies.values():
        build(policy)

    def run_all(seed: int, record_nodes: bool) -> Iterator[tuple[str, RunTable]]:
        seeded = msgspec.structs.replace(scenario, seed=seed)
        workload = load_workload(seeded)
        for name, policy in policies.items():
            prepared = simulation.prepare(msgspec.structs.replace(seeded, policy=policy), workload)
            yield name, simulation.run(prepared, record_nodes=record_nodes)[0]

    return run_all


def _domain_runs(scenario: Scenario, names: Sequence[str]) -> Runs:
    """Compare over several domains: each policy applies to all domains, which are judged as one machine."""
    from cohabit.app.simulate.coupling import prepare_domains, run_domains
    from cohabit.app.simulate.coupling_results import merged
    from cohabit.app.simulate.coupling_scenario import with_policy

    chosen = {
        name: [with_policy(one, **msgspec.structs.asdict(policy_from(name, one.policy))) for one in scenario.domain]
        for name in names
    }
    for domain in chain.from_iterable(chosen.values()):
        build(domain.policy)

    def run_all(seed: int, record_nodes: bool) -> Iterator[tuple[str, RunTable]]:
        for name, domains in chosen.items():
            seeded = msgspec.structs.replace(scenario, seed=seed, domain=domains)
            yield name, merged(run_domains(prepare_domains(seeded), record_nodes=record_nodes).tables)

    return run_all


def judge(runs: Sequence[RunTable], seed: int) -> Comparison:
    """Return means, intervals over the repeats, and ratios to the first policy."""
    return compare_runs(runs, stream(seed, "bootstrap"))


def as_document(runs: Sequence[RunTable], comparison: Comparison, seed: int) -> dict[str, Any]:
    """Return the JSON of `compare`."""
    from cohabit.report.metrics import summarise
    from cohabit.report.variation import by_program, first_policy_norms

    norms = first_policy_norms(runs)
    return {
        "seed": seed,
        "runs": [
            {
                "policy": run.policy,
                "seed": run.seed,
                "journal_hash": run.journal_hash,
                "metrics": summarise(run, norms),
                "programs": by_program(run, norms),
            }
            for run in runs
        ],
        "comparison": comparison.rows(),
    }
