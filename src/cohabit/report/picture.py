"""A small static picture of a comparison for a README: pure SVG, readable on white and on dark, no script.

One line per policy: how full the machine was over time, and how long jobs waited on average.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence

import numpy as np

from cohabit.model.records import RunTable
from cohabit.model.units import SECOND, duration
from cohabit.report.intervals import Interval, bootstrap_interval, by_policy
from cohabit.report.metrics import ran_jobs, summarise
from cohabit.report.series import busy_level, horizon
from cohabit.report.wording import time_unit
from cohabit.whole_files import replacing

TITLE = "Utilisation over time and mean wait, by policy"
WIDTH, TOP, ROW, BOTTOM = 840, 64, 74, 40
CURVE_LEFT, CURVE_WIDTH = 24, 440
BAR_LEFT, BAR_WIDTH = 520, 200
SLICES = 160
COLOURS = ("#2f7fc1", "#e0761f", "#1a9a75", "#bb5f9e", "#b98a00", "#5aa9d6", "#8468c8", "#8a8f98")
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #2a3342; }
  .title { font-size: 15px; font-weight: 600; } .name { font-weight: 600; } .small { font-size: 12px; fill: #667085; }
  .axis { stroke: #98a2b3; stroke-width: 1; } .whisker { stroke: #344054; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eaf2; } .small { fill: #a4aec0; } .axis { stroke: #667085; } .whisker { stroke: #d0d5dd; }
  }
"""


def write_comparison_svg(runs: Sequence[RunTable], path: str | os.PathLike[str], title: str = TITLE) -> None:
    """Write the picture; runs of the same policy name are its repeats, and the first of them gives the curve."""
    text = comparison_svg(by_policy(runs), title)
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def comparison_svg(groups: Mapping[str, Sequence[RunTable]], title: str) -> str:
    """The picture as text."""
    rng = np.random.default_rng(1)
    waits = {
        policy: bootstrap_interval([summarise(run)["mean_wait_s"] for run in group], rng)
        for policy, group in groups.items()
    }
    reach = max((bar.high or bar.mean or 0.0 for bar in waits.values()), default=0.0) or 1.0
    drawn = [ran_jobs(group[0]) for group in groups.values()]
    span_us = max((horizon(jobs)[1] for jobs in drawn if len(jobs)), default=1)
    height = TOP + ROW * len(groups) + BOTTOM
    words = "; ".join(f"{policy}: mean wait {_said(bar)}" for policy, bar in waits.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img">',
        f"<title>{html.escape(title)}</title><desc>{html.escape(words)}</desc><style>{STYLE}</style>",
        f'<text class="title" x="{CURVE_LEFT}" y="24">{html.escape(title)}</text>',
        f'<text class="small" x="{CURVE_LEFT}" y="46">cores in use, 0 to 100 %</text>',
        f'<text class="small" x="{BAR_LEFT}" y="46">mean wait</text>',
    ]
    for number, (policy, group) in enumerate(groups.items()):
        parts.append(_row(number, policy, group[0], waits[policy], reach, span_us))
    parts += [_time_axis(span_us, TOP + ROW * len(groups) + 4), "</svg>\n"]
    return "\n".join(parts)


def _said(bar: Interval) -> str:
    return "unknown" if bar.mean is None else duration(bar.mean)


def _row(number: int, policy: str, run: RunTable, wait: Interval, reach: float, span_us: int) -> str:
    top = TOP + ROW * number
    floor, fill = top + ROW - 12, COLOURS[number % len(COLOURS)]
    middle = (top + 22 + floor) / 2
    parts = [f'<text class="name" x="{CURVE_LEFT}" y="{top + 14}">{html.escape(policy)}</text>']
    parts.append(_curve(run, floor, ROW - 36, fill, span_us))
    parts.append(f'<line class="axis" x1="{CURVE_LEFT}" y1="{floor}" x2="{CURVE_LEFT + CURVE_WIDTH}" y2="{floor}"/>')
    if wait.mean is not None:
        length = BAR_WIDTH * wait.mean / reach
        edge = BAR_LEFT + length
        size = f'width="{length:.1f}" height="18" rx="2"'
        parts.append(f'<rect x="{BAR_LEFT}" y="{middle - 9:.1f}" {size} fill="{fill}"/>')
        if wait.low is not None and wait.high is not None:
            low, high = (BAR_LEFT + BAR_WIDTH * mark / reach for mark in (wait.low, wait.high))
            line = f"M{low:.1f} {middle:.1f}H{high:.1f}M{high:.1f} {middle - 5:.1f}v10"
            parts.append(f'<path class="whisker" fill="none" d="{line}"/>')
            edge = max(edge, high)
        parts.append(f'<text x="{edge + 8:.1f}" y="{middle + 4.5:.1f}">{html.escape(_said(wait))}</text>')
    return "\n".join(parts)


def _curve(run: RunTable, floor: float, height: float, fill: str, span_us: int) -> str:
    """The machine's utilisation as a filled step curve over the common time axis."""
    jobs = ran_jobs(run)
    if not len(jobs):
        return ""
    curve = busy_level(run, jobs, SLICES)
    x = CURVE_LEFT + CURVE_WIDTH * curve.at_us / span_us
    y = floor - height * np.minimum(curve.value, 1.0)
    steps = "".join(f"H{right:.1f}V{level:.1f}" for right, level in zip(x[1:], y[1:], strict=True))
    line = f"M{x[0]:.1f} {floor:.1f}V{y[0]:.1f}{steps}V{floor:.1f}"
    return f'<path d="{line}Z" fill="{fill}" fill-opacity="0.28" stroke="{fill}" stroke-width="1.3"/>'


def _time_axis(span_us: int, y: float) -> str:
    unit, size = time_unit(span_us / SECOND)
    right = CURVE_LEFT + CURVE_WIDTH
    labels = (
        (CURVE_LEFT, "start", "0"),
        ((CURVE_LEFT + right) / 2, "middle", "time since the first submission"),
        (right, "end", f"{span_us / SECOND / size:.3g} {unit}"),
    )
    return "".join(
        f'<text class="small" x="{x:.0f}" y="{y + 12:.0f}" text-anchor="{anchor}">{words}</text>'
        for x, anchor, words in labels
    )
