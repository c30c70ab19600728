"""The Gantt chart as plotly figures: every job as a bar where they fit, else a raster and some close looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import STATUS_NAMES, RunTable
from cohabit.model.units import SECOND, duration
from cohabit.report.figures import SERIES, Figure, colour, layout, packed, safe
from cohabit.report.gantt import (
    MAX_BARS,
    Bars,
    Lanes,
    detail_windows,
    lanes,
    packed_bars,
    recorded_bars,
)
from cohabit.report.gantt_heat import HeatMap, heat_maps
from cohabit.report.metrics import ran_jobs
from cohabit.report.series import horizon
from cohabit.report.wording import time_unit

GROUPS = SERIES - 1  # groups with a colour of their own; the rest share a neutral one
PACKABLE_JOBS = 3000  # without node lists, longer runs are not laid out


@dataclass(frozen=True)
class Chart:
    """One picture, what to call it and how to read it; `figure` is None where there is only text, or a choice."""

    title: str
    caption: str
    figure: Figure | None
    choice: tuple[HeatMap, ...] = ()  # the same in several colours, of which one is shown


def gantt_charts(run: RunTable) -> list[Chart]:
    """One chart of all jobs, or an overview with close looks."""
    jobs = ran_jobs(run)
    bars = recorded_bars(run, jobs)
    remark = ""
    if bars is None:
        if len(jobs) > PACKABLE_JOBS:
            words = "Node lists were not recorded in this run, so the machine cannot be drawn node by node."
            return [Chart("All nodes", words, None)]
        bars = packed_bars(run, jobs)
        remark = " Node lists were not recorded: jobs lie on the lowest free lines, so only heights and times are real."
    origin, span = horizon(jobs)
    if len(bars) <= MAX_BARS:
        lines = max(run.cluster_nodes, int((bars.first + bars.count).max()))
        figure, by = _bar_figure(run, bars, origin, (0, span), (0, lines))
        words = f"Each bar is a job on its nodes from start to end, coloured by {by}; gaps are idle nodes."
        if run.shares is not None:
            words = (
                f"Each bar is a job on its nodes from start to end, coloured by {by}. Jobs that share a node lie side "
                "by side, each as high as its share of the cores; gaps are idle cores."
            )
        return [Chart("Every job", words + " Drag to zoom in, double-click to go back." + remark, figure)]
    charts = [Chart("The whole machine", "", None, heat_maps(run, jobs, bars, leading_groups(run, run.workload.user)))]
    for window, inside in detail_windows(run, jobs, bars):
        times = (window.from_us - origin, window.until_us - origin)
        figure, by = _bar_figure(run, inside, origin, times, (window.first_node, window.nodes))
        last = window.first_node + window.nodes - 1
        words = (
            f"{window.label[0].upper()}{window.label[1:]}: {duration((times[1] - times[0]) / SECOND)} on nodes "
            f"{window.first_node:,} to {last:,} of {run.cluster_nodes:,}. Each bar is a job from start to end, "
            f"coloured by {by}."
        )
        if window.left_out:
            words += f" The {window.left_out:,} narrowest bars are not drawn."
        charts.append(Chart(f"Close look: {window.label}", words + remark, figure))
    return charts


def _grouping(run: RunTable) -> tuple[str, NDArray[np.int32], list[str]]:
    """Return the grouping to colour by: programs where a handful are known, else users, else how jobs ended."""
    jobs = run.workload
    programs = np.unique(jobs.program[jobs.program >= 0])
    users = np.unique(jobs.user[jobs.user >= 0])
    if len(programs) > 1 and (len(programs) <= 2 * GROUPS or len(users) < 2):
        return "program", jobs.program, list(jobs.program_names)
    if len(users) > 1:
        return "user", jobs.user, list(jobs.user_names)
    return "how it ended", run.status.astype(np.int32), list(STATUS_NAMES)


def leading_groups(run: RunTable, group: NDArray[np.int32]) -> list[int]:
    """The groups with the most work, by the workload alone, so that all charts of a page colour them alike."""
    known = group >= 0
    work = (run.workload.processes * (run.workload.run_us / SECOND))[known]
    if not len(work):
        return []
    size = np.bincount(group[known], weights=np.maximum(work, 0))
    return [int(number) for number in np.argsort(-size, kind="stable")[:GROUPS] if size[number] > 0]


def _bar_figure(
    run: RunTable, bars: Bars, origin: int, times: tuple[int, int], lines: tuple[int, int]
) -> tuple[Figure, str]:
    """Bars of nodes x time, one trace per colour group; times are since the origin, lines are (first, how many)."""
    unit, size = time_unit((times[1] - times[0]) / SECOND)
    by, group, names = _grouping(run)
    leading = leading_groups(run, group)
    traces, shown = [], lanes(run, bars)
    for place, number in enumerate(leading):
        inside = shown.take(group[shown.row] == number)
        if len(inside):
            traces.append(_trace(run, inside, origin, size, safe(names[number]), colour(place)))
    rest = shown.take(~np.isin(group[shown.row], leading))
    if len(rest):
        traces.append(_trace(run, rest, origin, size, "others", "@neutral"))
    first, count = lines
    height = min(640, max(260, 120 + 12 * count))
    plan = layout(height, f"time since the first submission ({unit})", "node", showlegend=True, barmode="overlay")
    plan["xaxis"] |= {"range": [edge / SECOND / size for edge in times]}
    plan["yaxis"] |= {"range": [first - 0.5, first + count - 0.5], "tickformat": ",d"}
    return {"data": traces, "layout": plan}, by


def _trace(run: RunTable, bars: Lanes, origin: int, size: float, name: str, fill: str) -> Figure:
    start = (run.start_us[bars.row] - origin) / SECOND / size
    length = (run.end_us[bars.row] - run.start_us[bars.row]) / SECOND / size
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "base": packed(start, exact=True),
        "x": packed(length, exact=True),
        "y": packed(bars.low - 0.5 + bars.height / 2),
        "width": packed(bars.height),
        "marker": {"color": fill, "line": {"width": 0.7, "color": "@surface"}},
        "hovertext": [_words(run, int(row)) for row in bars.row],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _words(run: RunTable, row: int) -> str:
    """Return the hover text of a job."""
    jobs = run.workload
    program, user = int(jobs.program[row]), int(jobs.user[row])
    names = [safe(jobs.program_names[program])] if program >= 0 else []
    names += [f"user {safe(jobs.user_names[user])}"] if user >= 0 else []
    start, end = int(run.start_us[row]), int(run.end_us[row])
    nodes = int(run.nodes[row])
    cores = int(run.cores[row])
    place = f"{nodes:,} {'node' if nodes == 1 else 'nodes'}, {cores:,} {'core' if cores == 1 else 'cores'}"
    lines = [
        f"<b>job {safe(jobs.job_id[row])}</b>",
        ", ".join(names),
        f"waited {duration((start - int(jobs.submit_us[row])) / SECOND)}, ran {duration((end - start) / SECOND)}",
        f"{place}, {STATUS_NAMES[int(run.status[row])]}",
    ]
    return "<br>".join(line for line in lines if line)
