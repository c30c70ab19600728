"""Run several policies over the same jobs, several times: `compare`. Finished runs are kept after a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.reading import PolicyConfig, Scenario
from cohabit.app.scenario.workloads import load_workload
from cohabit.app.simulate import simulation
from cohabit.model.errors import InputError, unknown
from cohabit.model.records import RunTable
from cohabit.policy.registry import BACKFILLS, BUNDLES, LISTED_BY, ORDERS
from cohabit.report.intervals import Comparison, compare_runs
from cohabit.sim.streams import stream


def policy_from(text: str, base: PolicyConfig) -> PolicyConfig:
    """Parse a bundle name, or parts joined by + in any order: an order, a kind of backfilling ("wfp+conservative")."""
    if text in BUNDLES:
        return msgspec.structs.replace(
            base, name=text, order=None, backfill=None, backfill_order=None, placement=None, pairing=None, gate=None
        )  # fmt: skip
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
    if scenario.domain:
        _compare_domains(scenario, names, repeats, progress, finished)
        return
    policies = [policy_from(name, scenario.policy) for name in names]
    for policy in policies:
        build(policy)
    total = repeats * len(policies)
    for repeat in range(repeats):
        seeded = msgspec.structs.replace(scenario, seed=scenario.seed + repeat)
        workload = load_workload(seeded)
        for name, policy in zip(names, policies, strict=True):
            prepared = simulation.prepare(msgspec.structs.replace(seeded, policy=policy), workload)
            table, _ = simulation.run(prepared, record_nodes=repeat == 0)
            finished.append(replace(table, policy=name.replace("+", " + ")))
            if progress is not None:
                progress(len(finished), total)


def _compare_domains(
    scenario: Scenario,
    names: Sequence[str],
    repeats: int,
    progress: Callable[[int, int], None] | None,
    finished: list[RunTable],
) -> None:
    """Compare over several domains: each policy applies to all domains, which are judged as one machine."""
    from cohabit.app.simulate.coupling import prepare_domains, run_domains
    from cohabit.app.simulate.coupling_results import merged
    from cohabit.app.simulate.coupling_scenario import with_policy

    ways = {name: [with_policy(one, **_keys(policy_from(name, one.policy))) for one in scenario.domain]
            for name in names}  # fmt: skip
    for domains in ways.values():
        for domain in domains:
            build(domain.policy)
    for repeat in range(repeats):
        for name, domains in ways.items():
            seeded = msgspec.structs.replace(scenario, seed=scenario.seed + repeat, domain=domains)
            table = merged(run_domains(prepare_domains(seeded), record_nodes=repeat == 0).tables)
            finished.append(replace(table, policy=name.replace("+", " + ")))
            if progress is not None:
                progress(len(finished), repeats * len(names))


def _keys(policy: PolicyConfig) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in policy.__struct_fields__}


def judge(runs: Sequence[RunTable], seed: int) -> Comparison:
    """Return means, intervals over the repeats, and ratios to the first policy."""
    return compare_runs(runs, stream(seed, "bootstrap"))


def as_document(runs: Sequence[RunTable], comparison: Comparison, seed: int) -> dict[str, Any]:
    """Return the JSON of `compare`."""
    from cohabit.report.metrics import summarise

    return {
        "seed": seed,
        "runs": [
            {"policy": run.policy, "seed": run.seed, "journal_hash": run.journal_hash, "metrics": summarise(run)}
            for run in runs
        ],
        "comparison": comparison.rows(),
    }
