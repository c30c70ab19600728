"""Combine a scenario file, a bare trace or plain data with the caller's options, which win. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cohabit.app.scenario.reading import Scenario, read_scenario, scenario_from
from cohabit.app.simulate.coupling_scenario import with_policy
from cohabit.model.errors import InputError


def scenario_for(
    source: Path | Mapping[str, Any],
    *,
    nodes: int | None = None,
    cores: int | None = None,
    order: str | None = None,
    backfill: str | int | None = None,
    backfill_order: str | None = None,
    placement: str | None = None,
    policy: str | None = None,
    seed: int | None = None,
    kill: bool = True,
) -> Scenario:
    """Return the scenario, changed by every option that is not None; `kill` False lets jobs exceed their request."""
    where = "the scenario given" if isinstance(source, Mapping) else str(source)
    if isinstance(source, Mapping):
        scenario = scenario_from(dict(source), where)
    elif source.suffix == ".toml":
        scenario = read_scenario(source)
    else:
        scenario = scenario_from({"jobs": {"trace": str(source)}}, where)
    cluster: dict[str, Any] = {key: value for key, value in (("nodes", nodes), ("cores", cores)) if value is not None}
    for key, value in cluster.items():
        if value < 1:
            raise InputError(f"--{key} {value} is not a positive number", "", "give a whole number from 1 up")
    if cluster and scenario.domain:
        raise InputError("--nodes and --cores do not go with [[domain]]", where, "edit the scenario")
    if cluster and scenario.cluster.group:
        raise InputError("--nodes and --cores do not go with [[cluster.group]]", where, "edit the scenario")
    if seed is not None and seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "use a number from 0 up")
    chosen = {
        "name": policy, "order": order, "backfill": backfill, "backfill_order": backfill_order, "placement": placement,
    }  # fmt: skip
    said = {key: value for key, value in chosen.items() if value is not None}
    replace = msgspec.structs.replace
    return replace(
        scenario,
        cluster=replace(scenario.cluster, **cluster),
        policy=scenario.policy if scenario.domain else replace(scenario.policy, **said),
        domain=[with_policy(one, **said) for one in scenario.domain],
        seed=scenario.seed if seed is None else seed,
        world=scenario.world if kill else replace(scenario.world, kill=False),
    )
