"""The pictures of a report as plotly figures in plain data: {"data": [...], "layout": {...}}.

Colours are names such as "@series0"; the page's script replaces them with the colours of the light or the dark
theme. Every text that comes from a user is escaped here, because plotly reads a little HTML in its labels.
Nothing here imports plotly.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import RunTable
from cohabit.model.units import SECOND, duration
from cohabit.report.against_alone import job_slowdowns, known_of_all, promises, run_ratios, slowed
from cohabit.report.intervals import Comparison
from cohabit.report.metrics import ran_jobs
from cohabit.report.predicted import compared_rows
from cohabit.report.series import (
    Level,
    busy_level,
    ended_level,
    horizon,
    pooled,
    queue_level,
    round_step,
    shares_below,
)
from cohabit.report.wording import GLOSSARY, LOG_TICKS_S, shown, time_unit

Figure = dict[str, Any]
Groups = Mapping[str, Sequence[RunTable]]

SERIES = 8  # colours in the palette
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
OVERLAY_SLICES = 200  # a coarser curve where several lie over each other
USERS_SHOWN = 12
POINTS_SHOWN = 2000  # marks of one policy
MOST_PROMISES = 3  # lines of different promises
RATIO_METRICS = ("mean_turnaround_s", "mean_wait_s", "p95_wait_s", "mean_slowdown_alone", "run_against_alone",
                 "user_max_slowdown_alone", "node_hours_occupied", "makespan_s")  # fmt: skip


def safe(text: object) -> str:
    """Text from outside as plotly label text."""
    return html.escape(str(text), quote=False)


def packed(values: NDArray[Any], exact: bool = False) -> dict[str, str]:
    """Numbers as plotly's typed arrays, a fifth of the size of decimal text: bytes, or floats of 4 (exact: 8) bytes."""
    kind = "u1" if values.dtype == np.uint8 else "f8" if exact else "f4"
    plain = np.ascontiguousarray(values, dtype=f"<{kind}")
    packed_values = {"dtype": kind, "bdata": base64.b64encode(plain.tobytes()).decode("ascii")}
    if values.ndim == 2:
        packed_values["shape"] = f"{values.shape[0]}, {values.shape[1]}"
    return packed_values


def colour(number: int) -> str:
    """The name of a palette colour."""
    return f"@series{number % SERIES}"


def layout(height: int, x_title: str, y_title: str, **more: Any) -> Figure:
    """Return the common layout of all figures; the script adds fonts and colours of the theme."""
    base: Figure = {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 38, "b": 52},
        "xaxis": {"title": {"text": x_title, "standoff": 10}, "automargin": True, "zeroline": False},
        "yaxis": {"title": {"text": y_title, "standoff": 8}, "automargin": True, "zeroline": False},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "showlegend": False,
    }
    for name, value in more.items():
        base[name] = base[name] | value if isinstance(value, dict) and name in base else value
    return base


def bar(name: str, x: Sequence[Any], y: Sequence[Any], number: int, hover: str = "", **more: Any) -> Figure:
    """Return one series of bars in a colour of the palette."""
    trace = {"type": "bar", "name": safe(name), "x": x, "y": y, "marker": {"color": colour(number)}, **more}
    return trace | ({"hovertemplate": hover} if hover else {})


def marks(name: str, x: Any, y: Any, number: int, hover: str, size: int = 10, **more: Any) -> Figure:
    """Return marks in a colour of the palette; `marker` holds more of their look."""
    marker = {"size": size, "color": colour(number), **more.pop("marker", {})}
    trace = {"type": "scatter", "mode": "markers", "name": safe(name), "x": x, "y": y, "marker": marker}
    return trace | {"hovertemplate": hover, **more}


def bars(names: Sequence[str], series: Mapping[str, Sequence[float]], y_title: str, unit: str = "") -> Figure:
    """Return groups of bars, one colour per series."""
    data = [
        bar(label, list(names), [float(one) for one in values], number, f"%{{y:.3g}}{unit}<extra>{safe(label)}</extra>")
        for number, (label, values) in enumerate(series.items())
    ]
    return {"data": data, "layout": layout(360, "", y_title, barmode="group", showlegend=True)}


def line(x: Sequence[float], y: Sequence[float], name: str, number: int, **more: Any) -> Figure:
    """Return a curve with a name."""
    dash = more.pop("dash", "solid")
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [float(one) for one in x],
        "y": [float(one) for one in y],
        "name": safe(name),
        "line": {"width": 2, "color": colour(number), "dash": dash},
        **more,
    }


def dotted(**ends: Any) -> Figure:
    """Return a dotted line for `shapes` between x0, y0 and x1, y1."""
    return {"type": "line", "line": {"color": "@muted", "width": 1.5, "dash": "dot"}, **ends}


def level(at: float) -> Figure:
    """Return a dotted line over the whole width."""
    return dotted(xref="paper", x0=0, x1=1, y0=at, y1=at)


def _extra(policy: str, policies: Sized) -> str:
    """Return the end of a hover text, with the policy where there are several."""
    return f"<extra>{safe(policy) if len(policies) > 1 else ''}</extra>"


def _steps(name: str, x: NDArray[Any], y: NDArray[Any], number: int, width: float, hover: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": safe(name),
        "x": packed(x),
        "y": packed(y),
        "line": {"shape": "hv", "width": width, "color": colour(number), "dash": DASHES[number % len(DASHES)]},
        "hovertemplate": hover,
    }


def _over_time(levels: Mapping[str, Level], span_us: int, y_title: str, hover: str, scale: float) -> Figure:
    unit, size = time_unit(span_us / SECOND)
    traces = []
    for number, (policy, curve) in enumerate(levels.items()):
        x, y = curve.at_us / SECOND / size, curve.value * scale
        trace = _steps(policy, x, y, number, 1.6, f"%{{x:.2f}} {unit}<br>{hover}" + _extra(policy, levels))
        if len(levels) == 1:
            trace |= {"fill": "tozeroy", "fillcolor": "@fill0"}
        traces.append(trace)
    plan = layout(
        300,
        f"time since the first submission ({unit})",
        y_title,
        showlegend=len(levels) > 1,
        xaxis={"range": [0, span_us / SECOND / size]},
        yaxis={"rangemode": "tozero"},
    )
    return {"data": traces, "layout": plan}


def _first_of_each(groups: Groups) -> dict[str, RunTable]:
    return {policy: runs[0] for policy, runs in groups.items()}


def _longest_span_us(runs: Mapping[str, RunTable]) -> int:
    return max(horizon(ran_jobs(run))[1] for run in runs.values())


def utilisation_figure(groups: Groups) -> Figure:
    """Percent of cores in use over time; the first repeat of each policy."""
    runs = _first_of_each(groups)
    slices = OVERLAY_SLICES if len(runs) > 1 else None
    levels = {policy: busy_level(run, ran_jobs(run), slices) for policy, run in runs.items()}
    figure = _over_time(levels, _longest_span_us(runs), "cores in use (%)", "%{y:.1f} % in use", 100.0)
    top = max(100.0, *(100 * float(curve.value.max()) for curve in levels.values()))
    figure["layout"]["yaxis"] |= {"range": [0, top * 1.03]}
    return figure


def queue_figure(groups: Groups) -> Figure:
    """Jobs waiting over time; the first repeat of each policy."""
    runs = _first_of_each(groups)
    slices = OVERLAY_SLICES if len(runs) > 1 else None
    levels = {policy: queue_level(run, ran_jobs(run), slices) for policy, run in runs.items()}
    return _of_whole_jobs(_over_time(levels, _longest_span_us(runs), "jobs waiting", "%{y:.4~g} waiting", 1.0), levels)


def throughput_figure(groups: Groups) -> Figure:
    """Jobs that ended in each interval of a round length; the first repeat of each policy."""
    runs = _first_of_each(groups)
    span_us = _longest_span_us(runs)
    step_us = round_step(span_us)
    levels = {policy: ended_level(ran_jobs(run), step_us) for policy, run in runs.items()}
    each = f"jobs ended in each {duration(step_us / SECOND)}"
    figure = _over_time(levels, span_us, each, "%{y:,d} jobs ended", 1.0)
    return _of_whole_jobs(figure, levels)


def _of_whole_jobs(figure: Figure, levels: Mapping[str, Level]) -> Figure:
    """The figure with an axis of whole numbers."""
    figure["layout"]["yaxis"] |= {"tickformat": ",~r"}
    if max(float(curve.value.max()) for curve in levels.values()) <= 5:
        figure["layout"]["yaxis"] |= {"dtick": 1}
    return figure


def _shares(values: Mapping[str, NDArray[np.float64]], low: float, x_title: str, hover: str) -> Figure:
    traces = []
    for number, (policy, column) in enumerate(values.items()):
        x, share = shares_below(column, low)
        words = f"%{{y:.1f}} % of jobs: {hover}" + _extra(policy, values)
        traces.append(_steps(policy, x, 100 * share, number, 2, words))
    top = max(float(column.max()) for column in values.values())
    ends = [float(np.log10(low)) - 0.02, float(np.log10(max(top, low * 10))) + 0.05]
    plan = layout(
        320,
        x_title,
        "share of jobs (%)",
        showlegend=len(values) > 1,
        xaxis={"type": "log", "range": ends},
        yaxis={"range": [0, 103]},
    )
    return {"data": traces, "layout": plan}


def wait_figure(groups: Groups) -> Figure:
    """Cumulative distribution of waits, all repeats together."""
    values = {policy: pooled(list(runs))[0] for policy, runs in groups.items()}
    figure = _shares(values, 1.0, "wait, logarithmic", "waited at most %{customdata}")
    for trace, column in zip(figure["data"], values.values(), strict=True):
        trace["customdata"] = [shown("duration", float(x)) for x in shares_below(column, 1.0)[0]]
    highest = 10 ** figure["layout"]["xaxis"]["range"][1]
    ticks = [tick for tick in LOG_TICKS_S if tick[0] <= highest]
    figure["layout"]["xaxis"] |= {"tickvals": [at for at, _ in ticks], "ticktext": [text for _, text in ticks]}
    return figure


def slowdown_figure(groups: Groups) -> Figure:
    """Cumulative distribution of slowdowns, all repeats together."""
    alone = known_of_all(run for runs in groups.values() for run in runs)
    values = {
        policy: np.concatenate([job_slowdowns(run, ran_jobs(run), alone) for run in runs])
        for policy, runs in groups.items()
    }
    low = min(1.0, *(float(column.min()) for column in values.values())) if alone else 1.0
    title = "slowdown against alone, logarithmic" if alone else "bounded slowdown, logarithmic (1 = did not wait)"
    figure = _shares(values, max(low, 0.01), title, "slowed down at most %{x:.3~g} times")
    top = 10 ** figure["layout"]["xaxis"]["range"][1]
    marks = [mark * 10**power for power in range(8) for mark in (1, 2, 5) if mark * 10**power <= top]
    marks = ([0.5] if low < 0.9 else []) + marks
    if len(marks) > 9:
        marks = [mark for mark in marks if str(mark)[0] in "01"]
    figure["layout"]["xaxis"] |= {"tickvals": marks, "ticktext": [f"{mark:,}" for mark in marks]}
    return figure


def user_figure(groups: Groups) -> Figure | None:
    """Mean slowdown of the users with the most jobs; None where fewer than two users are known."""
    first = next(iter(groups.values()))[0]
    owner = first.workload.user[ran_jobs(first).row]
    counts = np.bincount(owner[owner >= 0], minlength=1)
    if np.count_nonzero(counts) < 2:
        return None
    users = [int(user) for user in np.argsort(-counts, kind="stable")[:USERS_SHOWN] if counts[user]][::-1]
    names = [safe(first.workload.user_names[user]) for user in users]
    traces, alone = [], known_of_all(run for runs in groups.values() for run in runs)
    for number, (policy, runs) in enumerate(groups.items()):
        means = _means_by_user(runs, alone, [first.workload.user_names[user] for user in users])
        hover = "%{y}: slowed down %{x:.3~g} times on average" + _extra(policy, groups)
        traces.append(marks(policy, means, names, number, hover, marker={"symbol": number % 6}))
    plan = layout(
        90 + 26 * len(users),
        "mean slowdown against alone" if alone else "mean bounded slowdown (1 = did not wait)",
        "",
        showlegend=len(groups) > 1,
        yaxis={"type": "category"},
        xaxis={"rangemode": "tozero"},
    )
    return {"data": traces, "layout": plan}


def predicted_figure(runs: Mapping[str, RunTable]) -> Figure:
    """Predicted against measured slowdown, one mark per job; evenly chosen where there are very many."""
    traces, most = [], 1.0
    for number, (policy, run) in enumerate(runs.items()):
        rows, slowdowns = compared_rows(run), run.slowdowns
        assert slowdowns is not None
        rows = rows[:: -(-len(rows) // POINTS_SHOWN)]
        names = [
            f"{safe(run.workload.job_id[row])} {safe(run.workload.program_names[code]) if code >= 0 else ''}"
            for row, code in zip(rows, run.workload.program[rows], strict=True)
        ]
        x, y = slowdowns.predicted[rows], slowdowns.measured[rows]
        most = max(most, float(x.max()), float(y.max()))
        hover = "%{customdata}<br>predicted %{x:.3f}, measured %{y:.3f}" + _extra(policy, runs)
        more = {"symbol": number % 6, "opacity": 0.6}
        traces.append(marks(policy, packed(x), packed(y), number, hover, 6, customdata=names, marker=more))
    plan = layout(
        360,
        "predicted slowdown (1 = as alone)",
        "measured slowdown",
        showlegend=len(runs) > 1,
        shapes=[dotted(x0=1, y0=1, x1=most, y1=most)],
    )
    return {"data": traces, "layout": plan}


def promise_figure(groups: Groups) -> Figure | None:
    """The share of its speed alone that each job kept, and the promise; None where nothing changes run times.

    The first repeat of each policy; evenly chosen jobs where there are very many.
    """
    runs = _first_of_each(groups)
    if not any(slowed(run) for run in runs.values()):
        return None
    unit, size = time_unit(_longest_span_us(runs) / SECOND)
    traces, promised = [], set[float]()
    for number, (policy, run) in enumerate(runs.items()):
        jobs = ran_jobs(run)
        ratio, alpha = run_ratios(run, jobs), promises(run, jobs)
        promised |= {round(float(one), 4) for one in np.unique(1 / (2 - alpha))}
        known = np.flatnonzero(np.isfinite(ratio) & (ratio > 0))
        known = known[:: max(-(-len(known) // POINTS_SHOWN), 1)]
        programs, names = run.workload.program[jobs.row[known]], run.workload.program_names
        words = [
            f"job {safe(run.workload.job_id[row])}{f', {safe(names[code])}' if code >= 0 else ''}"
            for row, code in zip(jobs.row[known], programs, strict=True)
        ]
        start = (jobs.start_us[known] - horizon(jobs)[0]) / SECOND / size
        hover = "%{customdata}<br>kept %{y:.1f} % of its speed alone" + _extra(policy, runs)
        marker = {"symbol": number % 6, "opacity": 0.7}
        kept = packed(100 / ratio[known])
        traces.append(marks(policy, packed(start), kept, number, hover, 6, customdata=words, marker=marker))
    plan = layout(
        340,
        f"start, time since the first submission ({unit})",
        "share of the speed alone (%)",
        showlegend=len(runs) > 1,
        yaxis={"rangemode": "tozero"},
        shapes=[level(100 * one) for one in sorted(promised)[:MOST_PROMISES]],
    )
    return {"data": traces, "layout": plan}


def _means_by_user(runs: Sequence[RunTable], alone: bool, names: Sequence[str]) -> list[float | None]:
    """Mean slowdown of each named user over all repeats."""
    total, count = np.zeros(len(names)), np.zeros(len(names))
    for run in runs:
        jobs = ran_jobs(run)
        place = {name: number for number, name in enumerate(names)}
        seat = np.array([place.get(name, -1) for name in run.workload.user_names] + [-1], dtype=np.int64)
        owner = seat[run.workload.user[jobs.row]]
        known = owner >= 0
        slowed = job_slowdowns(run, jobs, alone)[known]
        total += np.bincount(owner[known], weights=slowed, minlength=len(names))
        count += np.bincount(owner[known], minlength=len(names))
    return [round(float(value / times), 4) if times else None for value, times in zip(total, count, strict=True)]


def _two_lines(label: str) -> str:
    """A long label broken at its last space, so that it leaves room for the plot."""
    return "<br>".join(label.rsplit(" ", 1)) if len(label) > 15 else label


def comparison_figure(comparison: Comparison) -> Figure:
    """Every policy's metrics relative to the first policy, with the interval over repeats."""
    others = comparison.policies[1:]
    metrics = [
        name
        for name in RATIO_METRICS
        if name in comparison.metrics and any(comparison.cells[one, name].ratio.mean is not None for one in others)
    ][::-1]
    traces = []
    for number, policy in enumerate(others):
        lift = (number - (len(others) - 1) / 2) * 0.62 / max(len(others), 1)
        x, y, plus, minus, words = [], [], [], [], []
        for line, metric in enumerate(metrics):
            cell = comparison.cells[policy, metric]
            if cell.ratio.mean is None:
                continue
            x.append(cell.ratio.mean)
            y.append(line - lift)
            plus.append(0.0 if cell.ratio.high is None else cell.ratio.high - cell.ratio.mean)
            minus.append(0.0 if cell.ratio.low is None else cell.ratio.mean - cell.ratio.low)
            words.append(f"{GLOSSARY[metric].label}: {shown(GLOSSARY[metric].kind, cell.value.mean)}")
        spread = {"array": plus, "arrayminus": minus, "symmetric": False, "thickness": 2, "width": 5}
        hover = "%{customdata}<br>%{x:.3f} times the first policy<extra>" + safe(policy) + "</extra>"
        trace = marks(policy, x, y, number + 1, hover, customdata=words, marker={"symbol": (number + 1) % 6})
        traces.append(trace | {"error_x": {"type": "data", "color": colour(number + 1), **spread}})
    names = [_two_lines(GLOSSARY[metric].label) for metric in metrics]
    plan = layout(120 + 46 * len(metrics), "ratio to the first policy", "", showlegend=True)
    plan["yaxis"] |= {"tickvals": list(range(len(names))), "ticktext": names, "range": [-0.6, len(names) - 0.4]}
    plan["shapes"] = [dotted(x0=1, x1=1, yref="paper", y0=0, y1=1)]
    return {"data": traces, "layout": plan}
