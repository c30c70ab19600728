"""report.html for a run of several domains: what starting together cost, then every domain as a run of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cohabit.model.records import RunTable
from cohabit.report.headline import one_run
from cohabit.report.html import Page, add_pictures, assembled_page, leads
from cohabit.report.html_tables import cards, escaped, metric_table, origin, table
from cohabit.report.mates import MATES_GLOSSARY, summarise_mates
from cohabit.report.metrics import Metric, summarise
from cohabit.report.wording import shown
from cohabit.whole_files import replacing

COST_WORDS = (
    "Synchronisation time is what jobs with mates waited after there had been nodes for them. Service-unit loss is "
    "what stood idle meanwhile: node-hours kept for jobs that did not run yet. A domain that yields loses none."
)


def write_coupled_report(
    tables: Mapping[str, RunTable], coupling: Mapping[str, Any], path: str | os.PathLike[str], title: str
) -> None:
    """Write the page; `coupling` is that part of summary.json."""
    with replacing(path) as stream:
        stream.write(render_coupled_report(tables, coupling, title).encode("utf-8"))


def render_coupled_report(tables: Mapping[str, RunTable], coupling: Mapping[str, Any], title: str) -> str:
    """The whole page as text."""
    page = Page()
    summaries = {name: summarise(run) for name, run in tables.items()}
    page.add_head(title, _sentences(tables, coupling))
    costs = {name: summarise_mates(run) for name, run in tables.items()}
    page.add_section("What starting together cost", _cost_table(costs), f'<p class="caption">{escaped(COST_WORDS)}</p>')
    for name, run in tables.items():
        _add_domain(page, name, run, summaries[name])
    page.add_section("Where this comes from", origin(list(tables.values())))
    return assembled_page(title, page)


def _sentences(tables: Mapping[str, RunTable], coupling: Mapping[str, Any]) -> list[str]:
    groups, together = int(coupling["groups"]), int(coupling["groups_together"])
    words = [f"{len(tables)} domains with schedulers of their own: {', '.join(tables)}."]
    if not groups:
        return [*words, "No jobs belonged together."]
    started = int(coupling["groups_started"])
    found = f"Of {groups:,} groups of jobs that belong together, {started:,} started, {together:,} at the same instant."
    words.append(found)
    if coupling["max_apart_s"]:
        words.append(f"The others were at most {shown('duration', coupling['max_apart_s'])} apart.")
    if coupling["deadlock"]:
        words.append(f"In the end no job could start any more: {' waits for '.join(coupling['deadlock'])}.")
    return [" ".join(words)]


def _cost_table(costs: Mapping[str, Mapping[str, Metric]]) -> str:
    rows = []
    for key, entry in MATES_GLOSSARY.items():
        cells = "".join(f'<td class="number">{escaped(shown(entry.kind, one[key]))}</td>' for one in costs.values())
        meaning = f'<div class="meaning">{escaped(entry.meaning)}</div>'
        rows.append(f'<th scope="row">{escaped(entry.label)}{meaning}</th>{cells}')
    return table([("", ""), *((name, "number") for name in costs)], rows)


def _add_domain(page: Page, name: str, run: RunTable, summary: Mapping[str, Metric]) -> None:
    page.add_section(f"Domain {name}", leads(one_run(run, summary)), cards({name: [summary]}))
    if summary["jobs_ran"]:
        add_pictures(page, {run.policy: [run]})
    page.add_section(f"All metrics of {name}", metric_table([summary]))
