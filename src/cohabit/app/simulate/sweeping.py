"""Run a grid of scenarios over all cores, or over an existing Dask cluster: `sweep`. Every finished cell is kept."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import msgspec

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.reading import scenario_from
from cohabit.app.scenario.tables import Scenario
from cohabit.app.simulate.quiet_workers import in_workers
from cohabit.model.errors import InputError

Cell = dict[str, Any]
SHORT_KEYS = {
    "policy": "policy.name", "order": "policy.order", "backfill": "policy.backfill",
    "backfill_order": "policy.backfill_order", "placement": "policy.placement", "nodes": "cluster.nodes",
    "cores": "cluster.cores", "load": "jobs.load", "kill": "world.kill",
}  # fmt: skip


def grid(scenario: Scenario, vary: Sequence[str]) -> list[Cell]:
    """Return every combination of "key=v1,v2,..." settings, each checked before anything runs."""
    axes: list[tuple[str, list[Any]]] = []
    for text in vary:
        key, found, values = text.partition("=")
        if not found or not values:
            raise InputError(f"{text!r} does not say key=v1,v2,...", "--vary", "for example policy.order=fcfs,sjf")
        axes.append((SHORT_KEYS.get(key.strip(), key.strip()), [_value(value.strip()) for value in values.split(",")]))
    if not axes:
        raise InputError("nothing to vary", "--vary", "for example --vary policy.order=fcfs,sjf")
    base = msgspec.to_builtins(scenario)
    cells = []
    for combination in itertools.product(*(values for _, values in axes)):
        settings = {key: value for (key, _), value in zip(axes, combination, strict=True)}
        data = msgspec.json.decode(msgspec.json.encode(base))
        for key, value in settings.items():
            _set(data, key, value)
        data["jobs"] = {key: value for key, value in data["jobs"].items() if value not in (None, "")}
        for key in ("cluster.nodes", "cluster.cores"):
            if settings.get(key, 1) == 0:
                raise InputError(f"{key} = 0", "--vary", "give a number from 1 up")
        checked = scenario_from(data, "--vary")
        for policy in [one.policy for one in checked.domain] or [checked.policy]:
            build(policy)
        cells.append({"settings": settings, "scenario": data})
    return cells


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for name in path:
        if isinstance(data, list):  # of domains
            data = next((one for one in data if one.get("name") == name), None)
        else:
            data = data.setdefault(name, {})
        if isinstance(data, list):
            continue
        if not isinstance(data, dict):
            raise InputError(f"{key!r} is not a setting", "--vary", "see docs/scenarios.md")
    data[last] = value


def run_cell(cell: Cell) -> Cell:
    """Run one simulation in a worker process; takes and returns plain data for that reason."""
    from cohabit.app.simulate import simulation
    from cohabit.report.metrics import summarise

    try:
        scenario = scenario_from(cell["scenario"], "sweep")
        if scenario.domain:
            return {**cell["settings"], **_domains_of(scenario)}
        table, _ = simulation.run(simulation.prepare(scenario), record_nodes=False)
    except InputError as error:
        return {**cell["settings"], "error": str(error)}
    return {**cell["settings"], "policy_used": table.policy, "journal_hash": table.journal_hash, **summarise(table)}


def _domains_of(scenario: Scenario) -> Cell:
    """Return a run of several domains as one row: all as one machine, then every domain with its name as prefix."""
    from cohabit.app.simulate.coupling import prepare_domains, run_domains
    from cohabit.app.simulate.coupling_results import merged, metrics_of
    from cohabit.report.metrics import summarise

    run = run_domains(prepare_domains(scenario), record_nodes=False)
    whole = merged(run.tables)
    own = {f"{name}.{key}": value for name, one in run.tables.items() for key, value in metrics_of(one).items()}
    return {"policy_used": whole.policy, "journal_hash": whole.journal_hash, **summarise(whole), **own}


def sweep(
    cells: Sequence[Cell],
    workers: int | None,
    dask: str | None,
    *,
    finished: list[Cell],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Run all cells into `finished`, in the order they end."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} is not a positive number")
    with _results(cells, workers, dask) as results:
        for result in results:
            finished.append(result)
            if progress is not None:
                progress(len(finished), len(cells))


@contextmanager
def _results(cells: Sequence[Cell], workers: int | None, dask: str | None) -> Iterator[Iterable[Cell]]:
    """Yield the results as cells end: on a Dask cluster, in this process, or in others."""
    if dask is not None:
        with _dask_client(dask) as client:
            from distributed import as_completed

            yield (result for _, result in as_completed(client.map(run_cell, cells, pure=False), with_results=True))
    elif workers == 1:
        yield map(run_cell, cells)
    else:
        count = min(workers or os.cpu_count() or 1, len(cells))
        with closing(in_workers([partial(run_cell, cell) for cell in cells], count)) as results:
            yield (result for _, result in results)


def _dask_client(address: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError("Dask is not installed", "--dask", "install cohabit[dask]") from None
    try:
        return distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers there: {error}", address, "check the address") from error
