"""The pictures of a report as plotly figures for a notebook, in the light or dark colours of report.html.

`figures.py` and `gantt_figures.py` define what is drawn, `page.css` the colours; nothing is decided here. The only
module of `report/` that imports plotly's Python side, and only when a figure is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cohabit.model.records import RunTable
from cohabit.report import figures
from cohabit.report.gantt_figures import gantt_charts
from cohabit.report.intervals import Comparison, by_policy

if TYPE_CHECKING:
    import plotly.graph_objects

PICTURES: dict[str, Callable[[figures.Groups], figures.Figure | None]] = {
    "utilisation": figures.utilisation_figure,
    "throughput": figures.throughput_figure,
    "queue": figures.queue_figure,
    "waits": figures.wait_figure,
    "slowdowns": figures.slowdown_figure,
    "users": figures.user_figure,
}
GANTT, COMPARISON = "gantt", "comparison"


def colours(dark: bool) -> dict[str, str]:
    """The palette of report.html by name."""
    text = files("cohabit.report").joinpath("page.css").read_text(encoding="utf-8")
    light, night = re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]
    named = dict(re.findall(r"--([a-z0-9]+): ([^;]+);", light))
    return named | dict(re.findall(r"--([a-z0-9]+): ([^;]+);", night)) if dark else named


def draw_runs(kind: str, runs: Sequence[RunTable], dark: bool) -> plotly.graph_objects.Figure | None:
    """One of PICTURES, or the Gantt chart of the first run; None where there is nothing to draw."""
    if kind == GANTT:
        chart = gantt_charts(runs[0])[0]
        return _drawn(chart.choice[0].figure if chart.choice else chart.figure, dark)
    return _drawn(PICTURES[kind](by_policy(runs)), dark)


def draw_comparison(comparison: Comparison, dark: bool) -> plotly.graph_objects.Figure | None:
    """Every policy relative to the first."""
    return _drawn(figures.comparison_figure(comparison), dark)


def _drawn(figure: figures.Figure | None, dark: bool) -> plotly.graph_objects.Figure | None:
    if figure is None:
        return None
    import plotly.graph_objects

    palette = colours(dark)
    made = plotly.graph_objects.Figure(_coloured(figure, palette))
    made.update_layout(
        paper_bgcolor=palette["surface"], plot_bgcolor=palette["surface"], font={"color": palette["ink"], "size": 13}
    )
    made.update_xaxes(gridcolor=palette["grid"], linecolor=palette["line"])
    made.update_yaxes(gridcolor=palette["grid"], linecolor=palette["line"])
    return made


def _coloured(value: Any, palette: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _coloured(item, palette) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_coloured(item, palette) for item in value]
    return palette.get(value[1:], value) if isinstance(value, str) and value.startswith("@") else value
