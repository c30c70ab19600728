"""report.html: one file that opens from disk with no network, for one run or for several policies.

The page carries plotly's script, the figures as data and its own style; a content security policy forbids it to
load anything else. Text from users (names of programs, users, policies, files) is escaped on its way into the
page and again, inside figures, for plotly. Plotly is used only here, when a page is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from cohabit.model.records import RunTable
from cohabit.report import figures
from cohabit.report.against_alone import known_of_all
from cohabit.report.gantt_figures import gantt_charts
from cohabit.report.gantt_heat import HeatMap, booked_maps
from cohabit.report.headline import one_run, several_runs
from cohabit.report.html_tables import (
    cards,
    comparison_table,
    escaped,
    metric_table,
    origin,
    predicted_table,
    variation_table,
)
from cohabit.report.intervals import Comparison, by_policy, compare
from cohabit.report.metrics import summarise
from cohabit.report.predicted import compared_rows
from cohabit.report.variation import by_program, first_policy_norms
from cohabit.report.waiting import cause_figures
from cohabit.report.wording import unbroken
from cohabit.whole_files import replacing

CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)
INTERVAL_SEED = 20_240_229  # so that the same runs always give the same page

UTILISATION_WORDS = "How much of the machine was in use; below 100 % while jobs wait means that none of them fitted."
THROUGHPUT_WORDS = "Counted in intervals of equal length; where the queue stays long, this is what the machine can do."
QUEUE_WORDS = "Jobs submitted and not yet started; a line that keeps rising means more work than the machine can do."
CAUSE_WORDS = (
    "Counted from the table of the run at equally spaced instants. A node that was down or closed counts as free. "
    "The scheduler's own reasons for one job: cohabit why JOB --run DIR."
)
WAIT_WORDS = (
    "Read a point as: this share of all jobs waited at most that long; jobs that waited less than 1 s are at the "
    "left edge."
)
SLOWDOWN_WORDS = "Read a point as: this share of all jobs took at most that many times their run time"
SLOWDOWN_ALONE = " alone; below 1 they ran on more nodes and gained by it."
PROMISE_WORDS = (
    "Each mark is a job. At 100 % it ran as fast as alone; above, it gained by running on more nodes. Below the dotted "
    "line it was slowed more than its promise allows."
)
USER_WORDS = (
    "Mean slowdown of the users with the most jobs, most active on top; marks far to the right are users who "
    "were served badly."
)
VARIATION_WORDS = (
    "Runs of the same program and size. A run varies if it is longer than the mean by more than 1.5 deviations; mean "
    "and deviation are those of the first policy; the first repeat is shown. A program with fewer than five runs "
    "is absent."
)
PREDICTED_WORDS = (
    "Time against running alone. On the dotted line a prediction was right; above it the job was slowed more than "
    "predicted. Jobs that had neighbours, or a share of the cache, and ended well."
)
SPREAD_WORDS = (
    "The bars are 95 % bootstrap confidence intervals over repeats: where one crosses 1, the difference may be chance."
)
NO_SPREAD_WORDS = (
    "There is one run per policy, so there are no confidence intervals; repeat with other seeds to get them."
)


def leads(sentences: Iterable[str]) -> str:
    """Return opening sentences, each a paragraph; empty ones are left out."""
    return "".join(f'<p class="lead">{escaped(unbroken(words))}</p>' for words in sentences if words)


class Page:
    """Collects the parts of the page and the figures they point to."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.figures: dict[str, figures.Figure] = {}
        self.panels = 0  # so far, for unique names

    def picture(self, figure: figures.Figure, label: str, caption: str) -> str:
        """The place of a figure, with its caption."""
        name = f"figure{len(self.figures)}"
        self.figures[name] = figure
        return (
            f'<figure><div class="plot" role="img" data-figure="{name}" aria-label="{escaped(label)}" '
            f'style="min-height:{int(figure["layout"]["height"])}px"></div>'
            f"<figcaption>{escaped(caption)}</figcaption></figure>"
        )

    def add_head(self, title: str, sentences: Iterable[str], more: str = "") -> None:
        """Add the title and the opening sentences; empty ones are left out."""
        self.parts.append(f"<header><h1>{escaped(title)}</h1>{leads(sentences)}{more}</header>")

    def add_section(self, title: str, *content: str) -> None:
        self.parts.append(f"<section><h2>{escaped(title)}</h2>{''.join(content)}</section>")

    def add_pair(self, *sections: tuple[str, str]) -> None:
        """Add sections that lie beside each other where there is room."""
        self.parts.append('<div class="pair">')
        for title, content in sections:
            self.add_section(title, content)
        self.parts.append("</div>")


def write_report(
    runs: Sequence[RunTable],
    path: str | os.PathLike[str],
    title: str = "Cohabit report",
    intervals: Comparison | None = None,
) -> None:
    """Write report.html for one run, or compare several; runs of the same policy name are its repeats."""
    text = render_report(runs, title, intervals)
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def render_report(runs: Sequence[RunTable], title: str, intervals: Comparison | None = None) -> str:
    """The whole page as text."""
    if not runs:
        raise ValueError("a report needs at least one run")
    groups = by_policy(runs)
    norms = first_policy_norms(runs)
    summaries = {policy: [summarise(run, norms) for run in group] for policy, group in groups.items()}
    page = Page()
    if len(groups) > 1:
        comparison = intervals or compare(summaries, np.random.default_rng(INTERVAL_SEED))
        page.add_head(title, several_runs(groups, comparison), cards(summaries))
        _compared(page, comparison)
    else:
        page.add_head(title, one_run(runs[0], summaries[runs[0].policy][0]), cards(summaries))
    drawable = {policy: group for policy, group in groups.items() if summaries[policy][0]["jobs_ran"]}
    if drawable:
        add_pictures(page, drawable)
    if len(groups) == 1:
        page.add_section("All metrics", metric_table(summaries[runs[0].policy]))
    varied = {policy: by_program(group[0], norms) for policy, group in groups.items()}
    predicted = {policy: group[0] for policy, group in groups.items() if len(compared_rows(group[0]))}
    if predicted:
        picture = page.picture(
            figures.predicted_figure(predicted), "Predicted against measured slowdown", PREDICTED_WORDS
        )
        page.add_section("Predicted against measured slowdown", picture, predicted_table(predicted))
    if any(varied.values()):
        page.add_section("How run times vary", variation_table(varied), f'<p class="caption">{VARIATION_WORDS}</p>')
    page.add_section("Where this comes from", origin(runs))
    return assembled_page(title, page)


def _compared(page: Page, comparison: Comparison) -> None:
    repeated = any(cell.ratio.low is not None for cell in comparison.cells.values())
    reading = (
        f"Each mark is a policy's mean divided by that of {comparison.policies[0]}: left of the dotted line is less, "
        f"right is more. {SPREAD_WORDS if repeated else NO_SPREAD_WORDS}"
    )
    figure = figures.comparison_figure(comparison)
    page.add_section("Policies compared", page.picture(figure, "Policies relative to the first", reading))
    page.add_section("Metrics by policy", comparison_table(comparison))


def add_pictures(page: Page, groups: Mapping[str, Sequence[RunTable]]) -> None:
    repeats = " The first repeat of each policy is shown." if any(len(group) > 1 for group in groups.values()) else ""
    better = " Higher and further left is better." if len(groups) > 1 else ""
    _gantt(page, groups)
    used = page.picture(figures.utilisation_figure(groups), "Cores in use over time", UTILISATION_WORDS + repeats)
    page.add_section("Utilisation over time", used)
    ended = page.picture(figures.throughput_figure(groups), "Jobs that ended over time", THROUGHPUT_WORDS + repeats)
    queue = page.picture(figures.queue_figure(groups), "Jobs waiting over time", QUEUE_WORDS + repeats)
    page.add_pair(("Jobs that ended", ended), ("Jobs that wait", queue))
    why = cause_figures({policy: runs[0] for policy, runs in groups.items()})
    if why:
        maps = [HeatMap(policy, CAUSE_WORDS + repeats, figure) for policy, figure in why.items()]
        page.add_section("What jobs waited for", _coloured(page, "What jobs waited for", maps, "Policy"))
    waits = page.picture(figures.wait_figure(groups), "Distribution of waits", WAIT_WORDS + better)
    alone = known_of_all(run for group in groups.values() for run in group)
    of_slowdowns = SLOWDOWN_WORDS + (SLOWDOWN_ALONE if alone else ".")
    slowed = page.picture(figures.slowdown_figure(groups), "Distribution of slowdowns", of_slowdowns + better)
    of_slowing = "How much waiting and neighbours slowed jobs down" if alone else "How much waiting slowed jobs down"
    page.add_pair(("How long jobs waited", waits), (of_slowing, slowed))
    promised = figures.promise_figure(groups)
    if promised is not None:
        page.add_section(
            "Promises kept", page.picture(promised, "Share of the speed alone, by job", PROMISE_WORDS + repeats)
        )
    users = figures.user_figure(groups)
    if users is not None:
        page.add_section("How users fared", page.picture(users, "Slowdown by user", USER_WORDS))


def _gantt(page: Page, groups: Mapping[str, Sequence[RunTable]]) -> None:
    """One panel per policy and chart, of which one is shown at a time."""
    buttons: list[str] = []
    panels: list[str] = []
    for policy, runs in groups.items():
        for chart in gantt_charts(runs[0]):
            name, shown_first = f"gantt{page.panels}", not panels
            page.panels += 1
            label = chart.title if len(groups) == 1 else f"{policy}: {chart.title[0].lower()}{chart.title[1:]}"
            content = f'<p class="caption">{escaped(chart.caption)}</p>'
            if chart.choice:
                content = _coloured(page, label, chart.choice)
            elif chart.figure is not None:
                content = page.picture(chart.figure, f"{label}: nodes over time", chart.caption)
            buttons.append(_button(name, label, shown_first))
            panels.append(f'<div id="{name}"{"" if shown_first else " hidden"}>{content}</div>')
    choices = f'<div class="choices" role="group" aria-label="What to show">{"".join(buttons)}</div>'
    page.add_section("Which jobs had which nodes", choices if len(panels) > 1 else "", *panels)
    booked = [
        one if len(groups) == 1 else replace(one, title=f"{policy}: {one.title[0].lower()}{one.title[1:]}")
        for policy, runs in groups.items()
        for one in booked_maps(runs[0])
    ]
    if booked:
        title = "Cache ways and bandwidth booked"
        page.add_section(title, _coloured(page, title, booked, "What is shown"))


def _button(panel: str, label: str, pressed: bool) -> str:
    """A button that shows one panel instead of the others of its row."""
    state = "true" if pressed else "false"
    return f'<button type="button" aria-controls="{panel}" aria-pressed="{state}">{escaped(label)}</button>'


def _coloured(page: Page, label: str, maps: Sequence[HeatMap], asked: str = "Colour by") -> str:
    """One heat map in several colours, of which one is shown."""
    first = page.panels
    page.panels += len(maps)
    buttons = [_button(f"gantt{first + place}", one.title, place == 0) for place, one in enumerate(maps)]
    panels = [
        f'<div id="gantt{first + place}"{" hidden" if place else ""}>'
        f"{page.picture(one.figure, f'{label} by {one.title.lower()}: nodes over time', one.caption)}</div>"
        for place, one in enumerate(maps)
    ]
    row = f'<div class="choices minor" role="group" aria-label="{asked}"><span>{asked}</span>{"".join(buttons)}</div>'
    return (row if len(maps) > 1 else "") + "".join(panels)


def _inline_json(value: Any) -> str:
    """JSON that cannot end its script element."""
    text = msgspec.json.encode(value).decode("utf-8")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def assembled_page(title: str, page: Page) -> str:
    """The whole file."""
    own = resources.files("cohabit.report")
    style = own.joinpath("page.css").read_text(encoding="utf-8")
    script = own.joinpath("page.js").read_text(encoding="utf-8")
    plotly = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    parts = "\n".join(page.parts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<noscript><p>The pictures of this page need JavaScript; the tables do not.</p></noscript>
{parts}
<footer>Definitions of all metrics: docs/metrics.md of Cohabit. This page loads nothing from a network.</footer>
</main>
<script type="application/json" id="figures">{_inline_json(page.figures)}</script>
<script>{plotly}</script>
<script>{script}</script>
</body>
</html>
"""
