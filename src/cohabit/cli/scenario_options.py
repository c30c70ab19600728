"""The options that define what to simulate, shared by the verbs that simulate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cohabit.app.scenario.reading import Scenario


@contextmanager
def naming(source: Path) -> Iterator[None]:
    """Add the scenario's file to errors about its settings."""
    from cohabit.model.errors import InputError

    try:
        yield
    except InputError as error:
        if source.suffix != ".toml" or str(source) in str(error):
            raise
        raise InputError(error.what, f"{source}: {error.where}" if error.where else str(source), error.fix) from error


def scenario_for(source: Path, **said: Any) -> Scenario:
    """Return a scenario file or a bare trace, with the command line's options over the file's; announce compilation."""
    from cohabit.app.scenario import choice as scenario_choice
    from cohabit.cli.console import note
    from cohabit.compiled import is_warm

    scenario = scenario_choice.scenario_for(source, **said)
    if not is_warm(_kernel_of(scenario)):
        note("first run of this kind: compiling, once (half a minute; COHABIT_KERNELS=plain does without) ...")
    return scenario


def _kernel_of(scenario: Scenario) -> str:
    """Return a kernel the run will need: the whole-trace driver's, or the world's on shared nodes."""
    from cohabit.policy.registry import BUNDLES, ORDERS

    if scenario.domain:
        return "moves.enqueue"
    bundle = BUNDLES[scenario.policy.name][0] if scenario.policy.name in BUNDLES else {}
    placement = scenario.policy.placement or bundle.get("placement", "exclusive")
    if "exclusive" not in (placement, scenario.cluster.sharing):
        return "moves.enqueue"
    backfill = str(scenario.policy.backfill or bundle.get("backfill", ""))
    if backfill == "conservative":
        return "trace_driver.drive_with_promises"
    order = scenario.policy.order or bundle.get("order", "fcfs")
    if order not in ORDERS or ORDERS[order].changing:
        return "trace_driver.drive_by_scores"
    return "trace_driver.drive_to_depth" if backfill.isdigit() else "trace_driver.drive_by_ladder"
