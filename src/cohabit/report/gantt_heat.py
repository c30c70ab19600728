"""The Gantt chart of many jobs as heat maps: a cell is some nodes for some time, coloured by a property of its jobs.

A cell holds one byte: a level, whose meaning in words is in the figure beside it (`levels`), for the hover text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import RunTable
from cohabit.model.units import SECOND, duration
from cohabit.report.figures import Figure, colour, layout, packed, safe
from cohabit.report.gantt import (
    IDLE,
    RASTER_ROWS,
    RASTER_SLICES,
    Bars,
    cells,
    leading_raster,
    mean_raster,
    raster,
    recorded_bars,
)
from cohabit.report.metrics import RanJobs, ran_jobs
from cohabit.report.series import horizon
from cohabit.report.wording import LOG_TICKS_S, significant, time_unit

LEVELS = 255  # above 0, which is idle
RAMP = [[0, "@surface"], [0.5 / LEVELS, "@surface"], [0.5 / LEVELS, "@ramp0"], [0.5, "@ramp1"], [1, "@ramp2"]]
USE = [[0, "@heat0"], [0.5, "@heat1"], [1, "@heat2"]]
DARKER = "the darker (in the dark theme, the brighter), "


@dataclass(frozen=True)
class HeatMap:
    """One colouring: what a button calls it, how to read it, and the picture."""

    title: str
    caption: str
    figure: Figure


def heat_maps(run: RunTable, jobs: RanJobs, bars: Bars, users: Sequence[int]) -> tuple[HeatMap, ...]:
    """The machine by use, size of jobs, wait and user; those of no difference between jobs are left out.

    `users`: those with a colour of their own.
    """
    found = [_by_use(run, jobs, bars)]
    size = run.nodes.astype(np.float64)
    if len(np.unique(size[jobs.row])) > 1:
        ticks = [(2.0**power, f"{2**power:,}") for power in range(0, 40, 2 if size.max() > 64 else 1)]
        words = f"Each cell is {_cell(run, jobs)}; {DARKER}the larger the jobs in it are (mean, by cores)."
        of_nodes = [f"jobs of {_whole(value)}" for value in _steps(size[jobs.row])]
        found.append(_of_values(run, jobs, bars, HeatMap("Size", words, {}), size, ("nodes of a job", ticks, of_nodes)))
    wait = np.maximum((run.start_us - run.workload.submit_us) / SECOND, 1.0)
    if float(jobs.wait_s.max()) > 1:
        words = f"Each cell is {_cell(run, jobs)}; {DARKER}the longer the jobs in it had waited (mean, by cores)."
        of_wait = [f"jobs that waited {duration(value)}" for value in _steps(wait[jobs.row])]
        ticks = [(float(at), text) for at, text in LOG_TICKS_S]
        found.append(_of_values(run, jobs, bars, HeatMap("Wait", words, {}), wait, ("wait", ticks, of_wait)))
    if len(users) > 1:
        found.append(_by_user(run, jobs, bars, users))
    return tuple(found)


def booked_maps(run: RunTable) -> tuple[HeatMap, ...]:
    """Cache ways and bandwidth booked on each node over time; none where no job booked any."""
    jobs = ran_jobs(run)
    bars = recorded_bars(run, jobs)
    if run.shares is None or bars is None or not len(jobs):
        return ()
    how = [msgspec.json.decode(text) if text else {} for text in run.shares]
    cluster = run.settings.get("cluster", {})
    found = []
    for title, key, scale, unit in (("Cache ways", "ways", 1.0, "ways"), ("Bandwidth", "bandwidth_mbs", 1e-3, "GB/s")):
        each = np.array([one.get(key, 0) for one in how], np.float64) * scale
        amount = cells(run, jobs, bars, each[bars.row])
        if amount.max() > IDLE:
            found.append(_of_amounts(run, jobs, amount, _capacity(cluster, key), title, unit))
    return tuple(found)


def _capacity(cluster: Mapping[str, Any], key: str) -> float:
    """What one node has, by the scenario; 0: not known, or not the same of all nodes."""
    if cluster.get("group"):
        return 0.0
    if key == "ways":
        return float(cluster.get("ways") or 0)
    curve = cluster.get("bandwidth_gbs")
    return float(max(curve.values())) if isinstance(curve, Mapping) and curve else float(curve or 0)


def _of_amounts(
    run: RunTable, jobs: RanJobs, amount: NDArray[np.float64], most: float, title: str, unit: str
) -> HeatMap:
    top = max(most, float(amount.max()))
    levels = [f"{significant(top * level / LEVELS)} {unit} booked" for level in range(LEVELS + 1)]
    marks = np.linspace(0, LEVELS, 5)
    bar = _bar_of(f"{unit} booked", tickvals=marks.tolist(), ticktext=[significant(top * at / LEVELS) for at in marks])
    look = {"zmin": 0, "zmax": LEVELS, "colorscale": USE, "colorbar": bar, "levels": levels}
    whole = f" A node has {significant(most)} {unit}." if most else ""
    words = f"Each cell is {_cell(run, jobs)}; {DARKER}the more is booked by its jobs.{whole}"
    return HeatMap(title, words, _figure(run, jobs, np.rint(amount / top * LEVELS).astype(np.uint8), **look))


def _cell(run: RunTable, jobs: RanJobs) -> str:
    group = run.cluster_nodes / min(run.cluster_nodes, RASTER_ROWS)
    nodes = "one node" if group <= 1 else f"about {group:.3g} nodes"
    return f"{nodes} over {duration(horizon(jobs)[1] / SECOND / RASTER_SLICES)}"


def _whole(nodes: float) -> str:
    return "1 node" if round(nodes) == 1 else f"{round(nodes):,} nodes"


def _steps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The value of each level from 1 up, logarithmically between the least and the most."""
    return np.geomspace(max(float(values.min()), 1.0), float(values.max()), LEVELS)


def _figure(run: RunTable, jobs: RanJobs, level: NDArray[np.uint8], *more: Figure, **look: object) -> Figure:
    """A heat map over nodes and time; `more`: traces that explain colours."""
    _, span = horizon(jobs)
    unit, size = time_unit(span / SECOND)
    width, height = span / SECOND / size / level.shape[1], run.cluster_nodes / level.shape[0]
    trace = {
        "type": "heatmap",
        "name": "",
        "showlegend": False,
        "z": packed(level),
        "x0": width / 2,
        "dx": width,
        "y0": height / 2 - 0.5,
        "dy": height,
        "hovertemplate": f"around node %{{y:.0f}}, %{{x:.2f}} {unit}<br>%{{text}}<extra></extra>",
        **look,
    }
    plan = layout(460, f"time since the first submission ({unit})", "node", showlegend=bool(more))
    plan["xaxis"] |= {"range": [0, span / SECOND / size], "showgrid": False}
    plan["yaxis"] |= {"range": [-0.5, run.cluster_nodes - 0.5], "showgrid": False, "tickformat": ",d"}
    return {"data": [trace, *more], "layout": plan}


def _bar_of(title: str, **more: object) -> Figure:
    """The bar beside the map that tells what colours mean."""
    return {"title": {"text": title, "side": "right"}, "thickness": 12, "outlinewidth": 0, **more}


def _by_use(run: RunTable, jobs: RanJobs, bars: Bars) -> HeatMap:
    words = (
        f"Each cell is {_cell(run, jobs)}; {DARKER}the more of its cores were in use. Drag to zoom in, double-click to "
        "go back; choose a close look to see single jobs."
    )
    look = {"zmin": 0, "zmax": 100, "colorscale": USE, "colorbar": _bar_of("cores in use (%)")}
    unit, _ = time_unit(horizon(jobs)[1] / SECOND)
    template = f"around node %{{y:.0f}}, %{{x:.2f}} {unit}<br>%{{z}} % of cores in use"
    figure = _figure(run, jobs, raster(run, jobs, bars), hovertemplate=template + "<extra></extra>", **look)
    return HeatMap("Cores in use", words, figure)


def _of_values(
    run: RunTable,
    jobs: RanJobs,
    bars: Bars,
    plan: HeatMap,
    value: NDArray[np.float64],
    scale: tuple[str, list[tuple[float, str]], list[str]],
) -> HeatMap:
    """Cells by the geometric mean of a value of their jobs; `scale`: its name, ticks, and each level in words."""
    title, ticks, words = scale
    logs = np.log(np.maximum(value, 1.0))
    low, high = float(logs[jobs.row].min()), float(logs[jobs.row].max())
    mean = (mean_raster(run, jobs, bars, np.where(np.isfinite(logs), logs, 0.0)) - low) / (high - low)
    level = np.where(np.isnan(mean), 0, 1 + np.rint(np.clip(np.nan_to_num(mean), 0, 1) * (LEVELS - 1))).astype(np.uint8)
    inside = [(float(np.log(at)), text) for at, text in ticks if low <= np.log(at) <= high]
    at = [1 + (place - low) / (high - low) * (LEVELS - 1) for place, _ in inside]
    bar = _bar_of(title, tickvals=at, ticktext=[text for _, text in inside])
    look = {"zmin": 0, "zmax": LEVELS, "colorscale": RAMP, "colorbar": bar, "levels": ["idle", *words]}
    return HeatMap(plan.title, plan.caption, _figure(run, jobs, level, **look))


def _by_user(run: RunTable, jobs: RanJobs, bars: Bars, users: Sequence[int]) -> HeatMap:
    """Cells by the user who had most of their cores."""
    names = [safe(run.workload.user_names[number]) for number in users]
    group = np.full(len(run), len(users) + 1, np.int32)
    for place, number in enumerate(users):
        group[run.workload.user == number] = place + 1
    fills = [colour(place) for place in range(len(users))]
    if (group[jobs.row] > len(users)).any():
        names.append("others")
        fills.append("@neutral")
    count = len(names) + 1
    scale = [[edge / count, fill] for code, fill in enumerate(["@surface", *fills]) for edge in (code, code + 1)]
    look = {"zmin": -0.5, "zmax": count - 0.5, "colorscale": scale, "showscale": False, "levels": ["idle", *names]}
    keys = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [None],
            "y": [None],
            "marker": {"color": fill, "symbol": "square", "size": 11},
        }
        for name, fill in zip(names, fills, strict=True)
    ]
    words = f"Each cell is {_cell(run, jobs)}, in the colour of the user whose jobs had most of its cores."
    return HeatMap("User", words, _figure(run, jobs, leading_raster(run, jobs, bars, group), *keys, **look))
