"""The Python interface: simulate, compare and sweep from a script or a notebook, and read results as frames.

`import cohabit` offers these names and nothing else; what they return stays stable between versions. The command line
does the same with the same modules: a figure from here is the figure `cohabit simulate` prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.reading import scenario_for
from cohabit.app.simulate import comparison, outputs, simulation, sweeping
from cohabit.model.errors import InputError, unknown
from cohabit.model.records import RunTable
from cohabit.policy import registry
from cohabit.report import drawn
from cohabit.report.html import write_report
from cohabit.report.intervals import Comparison as Intervals
from cohabit.report.metrics import summarise
from cohabit.report.picture import write_comparison_svg
from cohabit.report.tables import jobs_frame
from cohabit.report.wording import GLOSSARY, shown
from cohabit.sim.journal import Journal

if TYPE_CHECKING:
    import plotly.graph_objects
    import polars as pl

Source = str | Path | Mapping[str, Any]
SHOWN = (
    "mean_turnaround_s", "mean_wait_s", "mean_slowdown_alone", "run_against_alone", "utilisation", "makespan_s",
    "node_hours_occupied",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Run:
    """One finished simulation."""

    table: RunTable
    journal: Journal
    notes: tuple[str, ...] = ()  # what was odd about the input, in words
    opened_at: float = 0.0

    @property
    def policy(self) -> str:
        """The name of the run in tables and pictures."""
        return self.table.policy

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """Every metric by name, as docs/metrics.md defines them."""
        return dict(summarise(self.table))

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job with the columns of jobs.csv; `.to_pandas()` gives a pandas frame."""
        return jobs_frame(self.table)

    def plot(self, kind: str = "utilisation", *, dark: bool = False) -> plotly.graph_objects.Figure | None:
        """A plotly figure: a key of PICTURES, or gantt; None if there is nothing to draw."""
        return _plot(kind, [self.table], dark)

    def report(self, path: str | Path, title: str = "") -> Path:
        """Write report.html: one file that opens from disk without a network."""
        return _report([self.table], path, title or self.policy)

    def save(self, folder: str | Path) -> Path:
        """Write summary.json, jobs.csv, jobs.parquet, report.html and the journal, as `cohabit simulate --out` does."""
        outputs.check_folder(Path(folder))
        outputs.write_run(
            self.table, self.journal, Path(folder), self.opened_at, report=True, keep_journal=True, title=self.policy
        )
        return Path(folder)

    def __repr__(self) -> str:
        return f"<Run of {len(self.table):,} jobs under {self.policy}>"

    def _repr_html_(self) -> str:
        return _html_table(["policy", *SHOWN], [[self.policy, *(_said(name, self.metrics[name]) for name in SHOWN)]])


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several policies over the same jobs; the first is the one the others are measured against."""

    tables: tuple[RunTable, ...]
    intervals: Intervals

    @property
    def policies(self) -> tuple[str, ...]:
        """Their names, in the order given."""
        return self.intervals.policies

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per policy and metric: mean over repeats, 95 % interval, ratio to the first policy with its own."""
        import polars

        return polars.DataFrame(self.intervals.rows(), infer_schema_length=None)

    def mean(self, policy: str, metric: str) -> float | None:
        """The mean of a metric over the repeats of a policy."""
        for kind, name, known in (("policy", policy, self.policies), ("metric", metric, self.intervals.metrics)):
            if name not in known:
                raise unknown(kind, name, known)
        return self.intervals.cells[policy, metric].value.mean

    def plot(self, kind: str = drawn.COMPARISON, *, dark: bool = False) -> plotly.graph_objects.Figure | None:
        """A plotly figure: comparison, or one of those of a run with all policies in it."""
        if kind == drawn.COMPARISON:
            return drawn.draw_comparison(self.intervals, dark)
        return _plot(kind, self.tables, dark)

    def report(self, path: str | Path, title: str = "Policies compared") -> Path:
        """Write report.html with all policies side by side."""
        return _report(self.tables, path, title, self.intervals)

    def picture(self, path: str | Path, title: str = "Utilisation over time and mean wait, by policy") -> Path:
        """Write a small SVG for a page: utilisation over time and mean wait, readable on white and on dark."""
        file = _in_folder(path)
        write_comparison_svg(self.tables, file, title)
        return file

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.policies)}>"

    def _repr_html_(self) -> str:
        rows = [[name, *(_said(metric, self.mean(name, metric)) for metric in SHOWN)] for name in self.policies]
        return _html_table(["policy", *SHOWN], rows)


def simulate(
    source: Source,
    *,
    nodes: int | None = None,
    cores: int | None = None,
    policy: str | None = None,
    order: str | None = None,
    backfill: str | int | None = None,
    backfill_order: str | None = None,
    placement: str | None = None,
    seed: int | None = None,
    kill: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Replay a trace, a scenario file, or a scenario as plain data (the tables of docs/scenarios.md) under one policy.

    >>> run = simulate("jobs.swf.xz", nodes=512, order="wfp", backfill="easy")  # doctest: +SKIP
    >>> run.metrics["mean_wait_s"], run.jobs.head()  # doctest: +SKIP
    """
    scenario = scenario_for(
        source,
        nodes=nodes,
        cores=cores,
        policy=policy,
        order=order,
        backfill=backfill,
        backfill_order=backfill_order,
        placement=placement,
        seed=seed,
        kill=kill,
    )
    if scenario.domain:
        raise InputError("several domains are not one run", "", "use `cohabit simulate` for them, or compare()")
    opened_at = time.perf_counter()
    prepared = simulation.prepare(scenario, policies=build(scenario.policy))
    table, journal = simulation.run(prepared, progress=progress)
    return Run(table, journal, prepared.notes, opened_at)


def compare(
    source: Source,
    policies: Sequence[str],
    *,
    repeats: int = 1,
    nodes: int | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Several policies over the same jobs; `repeats` gives each its own seeds, and intervals.

    A policy is a bundle ("sns") or parts joined by + ("wfp+conservative"); `cohabit.policies()` lists them.
    """
    scenario = scenario_for(source, nodes=nodes, cores=cores, seed=seed)
    finished: list[RunTable] = []
    comparison.compare(scenario, list(policies), repeats, progress=progress, finished=finished)
    return Comparison(tuple(finished), comparison.judge(finished, scenario.seed))


def sweep(
    source: Source,
    vary: Mapping[str, Sequence[Any]],
    *,
    nodes: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pl.DataFrame:
    """Every combination of settings ({"policy.order": ["fcfs", "sjf"], "jobs.load": [0.8, 1.0]}), one row each.

    Runs on all cores. Orders added with `add_order` exist in this process only: with them it runs here, one by one.
    """
    import polars

    texts = [
        f"{key}={','.join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)}"
        for key, values in vary.items()
    ]
    cells = sweeping.grid(scenario_for(source, nodes=nodes), texts)
    alone = any(registry.is_given(name) for name in _orders_named(cells))
    finished: list[sweeping.Cell] = []
    sweeping.sweep(cells, 1 if alone else workers, None, finished=finished, progress=progress)
    for cell in finished:
        if "error" in cell:
            raise InputError(cell["error"], "sweep")
    keys = list(cells[0]["settings"])
    return polars.DataFrame(finished, infer_schema_length=None).sort(keys)


def policies() -> pl.DataFrame:
    """Every policy by name: its kind, what it does and where it is from."""
    import polars

    listed: list[tuple[str, Mapping[str, Any]]] = [
        ("bundle", {name: described for name, (_, described) in registry.BUNDLES.items()}),
        ("order", registry.ORDERS),
        ("backfill", registry.BACKFILLS),
        ("placement", registry.PLACEMENTS),
        ("partition", registry.PARTITIONS),
        ("gate", registry.GATES),
    ]
    rows = [
        {"kind": kind, "name": name, "summary": entry.summary, "source": entry.source}
        for kind, entries in listed
        for name, entry in entries.items()
    ]
    return polars.DataFrame(rows)


def add_order(
    name: str,
    scores: Callable[..., Any],
    *,
    changing: bool = True,
    falling: bool = False,
    summary: str = "given in this session",
) -> None:
    """Make a queue order of one vectorised function (CONTRIBUTING.md), for this process: `simulate(order=name)`.

    `scores(jobs, rows, now_us)` returns one number per row, the smallest first. `changing`: it depends on the time.
    `falling`: no score rises while its job waits. The same name again replaces the order.
    """
    registry.give_order(name, scores, changing=changing, falling=falling, summary=summary)


def _orders_named(cells: Sequence[sweeping.Cell]) -> set[str]:
    policies = [cell["scenario"]["policy"] for cell in cells]
    return {str(one[key]) for one in policies for key in ("order", "backfill_order") if one.get(key) is not None}


def _plot(kind: str, tables: Sequence[RunTable], dark: bool) -> plotly.graph_objects.Figure | None:
    if kind not in (known := (*drawn.PICTURES, drawn.GANTT)):
        raise unknown("picture", kind, known)
    return drawn.draw_runs(kind, tables, dark)


def _report(tables: Sequence[RunTable], path: str | Path, title: str, intervals: Intervals | None = None) -> Path:
    file = _in_folder(path)
    write_report(tables, file, title=title, intervals=intervals)
    return file


def _in_folder(path: str | Path) -> Path:
    """Return the path of a file to write; make its folder."""
    folder = Path(path).parent
    outputs.check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return Path(path)


def _said(metric: str, value: float | None) -> str:
    return shown(GLOSSARY[metric].kind, value)


def _html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from cohabit.report.html_tables import escaped

    head = "".join(f"<th>{escaped(GLOSSARY[name].label if name in GLOSSARY else name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
