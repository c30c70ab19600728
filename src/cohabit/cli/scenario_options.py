"""The options that say what to simulate, shared by the verbs that simulate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cohabit.app.scenario import Scenario


@contextmanager
def naming(source: Path) -> Iterator[None]:
    """Errors about a scenario's settings name its file."""
    from cohabit.model.errors import InputError

    try:
        yield
    except InputError as error:
        if source.suffix != ".toml" or str(source) in str(error):
            raise
        raise InputError(error.what, f"{source}: {error.where}" if error.where else str(source), error.fix) from error


def scenario_for(
    source: Path,
    *,
    nodes: int | None = None,
    cores: int | None = None,
    order: str | None = None,
    backfill: str | None = None,
    backfill_order: str | None = None,
    placement: str | None = None,
    policy: str | None = None,
    seed: int | None = None,
    kill: bool = True,
) -> Scenario:
    """A scenario file or a bare trace, with the command line's word over the file's."""
    import msgspec

    from cohabit.app.coupling_scenario import with_policy
    from cohabit.app.scenario import read_scenario, scenario_from
    from cohabit.cli.console import note
    from cohabit.compiled import is_warm
    from cohabit.model.errors import InputError

    if source.suffix == ".toml":
        scenario = read_scenario(source)
    else:
        scenario = scenario_from({"jobs": {"trace": str(source)}}, str(source))
    cluster: dict[str, Any] = {key: value for key, value in (("nodes", nodes), ("cores", cores)) if value is not None}
    for key, value in cluster.items():
        if value < 1:
            raise InputError(f"--{key} {value} is not a positive number", "", "give a whole number from 1 up")
    if cluster and scenario.domain:
        raise InputError("--nodes and --cores do not go with [[domain]]", str(source), "edit the scenario")
    if cluster and scenario.cluster.group:
        raise InputError("--nodes and --cores do not go with [[cluster.group]]", str(source), "edit the scenario")
    chosen = {
        "name": policy, "order": order, "backfill": backfill, "backfill_order": backfill_order, "placement": placement,
    }  # fmt: skip
    if seed is not None and seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "use a number from 0 up")
    replace = msgspec.structs.replace
    said = {key: value for key, value in chosen.items() if value is not None}
    whole = replace(
        scenario,
        cluster=replace(scenario.cluster, **cluster),
        policy=scenario.policy if scenario.domain else replace(scenario.policy, **said),
        domain=[with_policy(one, **said) for one in scenario.domain],
        seed=scenario.seed if seed is None else seed,
        world=scenario.world if kill else replace(scenario.world, kill=False),
    )
    if not is_warm(_kernel_of(whole)):
        note("first run of this version: compiling, once (about half a minute) ...")
    return whole


def _kernel_of(scenario: Scenario) -> str:
    """A kernel the run will need: the whole-trace driver, or what the world calls event by event on shared nodes."""
    from cohabit.policy.registry import BUNDLES

    if scenario.domain:
        return "kernels.enqueue"
    bundle = BUNDLES[scenario.policy.name][0] if scenario.policy.name in BUNDLES else {}
    placement = scenario.policy.placement or bundle.get("placement", "exclusive")
    return "fast.drive" if "exclusive" in (placement, scenario.cluster.sharing) else "kernels.enqueue"
