"""Run a grid of scenarios over all cores, or over an existing Dask cluster: `sweep`. Every finished cell is kept."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

import msgspec

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.reading import Scenario, scenario_from
from cohabit.app.simulate import quiet_workers
from cohabit.model.errors import InputError

Cell = dict[str, Any]


def grid(scenario: Scenario, vary: Sequence[str]) -> list[Cell]:
    """Return every combination of "key=v1,v2,..." settings, each checked before anything runs."""
    axes: list[tuple[str, list[Any]]] = []
    for text in vary:
        key, found, values = text.partition("=")
        if not found or not values:
            raise InputError(f"{text!r} does not say key=v1,v2,...", "--vary", "for example policy.order=fcfs,sjf")
        axes.append((_full_key(key.strip()), [_value(value.strip()) for value in values.split(",")]))
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


def _full_key(key: str) -> str:
    short = {"order": "policy", "backfill": "policy", "backfill_order": "policy", "placement": "policy",
             "nodes": "cluster", "cores": "cluster", "load": "jobs", "kill": "world"}  # fmt: skip
    if key == "policy":
        return "policy.name"
    return f"{short[key]}.{key}" if key in short else key


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
    if workers == 1 and dask is None:
        for cell in cells:
            finished.append(run_cell(cell))
            if progress is not None:
                progress(len(finished), len(cells))
        return
    with _dask_pool(dask) if dask is not None else _process_pool(workers, len(cells)) as submit_all:
        for result in submit_all(cells):
            finished.append(result)
            if progress is not None:
                progress(len(finished), len(cells))


@contextmanager
def _process_pool(workers: int | None, most: int) -> Iterator[Callable[[Sequence[Cell]], Iterator[Cell]]]:
    import multiprocessing

    count = min(workers or os.cpu_count() or 1, most)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=spawn, initializer=quiet_workers.end_quietly) as pool:

        def submit_all(cells: Sequence[Cell]) -> Iterator[Cell]:
            with quiet_workers.unheard():
                futures: list[Future[Cell]] = [pool.submit(run_cell, cell) for cell in cells]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()

        yield submit_all


@contextmanager
def _dask_pool(address: str) -> Iterator[Callable[[Sequence[Cell]], Iterator[Cell]]]:
    try:
        import distributed
    except ImportError:
        raise InputError("Dask is not installed", "--dask", "install cohabit[dask]") from None
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers there: {error}", address, "check the address") from error

    def submit_all(cells: Sequence[Cell]) -> Iterator[Cell]:
        for _, result in distributed.as_completed(client.map(run_cell, cells, pure=False), with_results=True):
            yield result

    with client:
        yield submit_all
