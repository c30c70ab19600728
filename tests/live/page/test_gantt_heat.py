"""The Gantt chart of many jobs: zoomed out a heat map, whose cells say what report.html says; zoomed in, bars."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.view.run import FinishedRun
from cohabit.model.units import SECOND
from cohabit.report.gantt import (
    IDLE,
    RASTER_ROWS,
    RASTER_SLICES,
    cells,
    core_share,
    mean_raster,
    raster,
    recorded_bars,
)
from cohabit.report.metrics import ran_jobs
from cohabit.report.series import horizon
from tests.live.page.browsing import Tab
from tests.live.page.test_finished import viewed

pytestmark = pytest.mark.system
NODES, JOBS, USERS = 320, 3000, 14
GANTT = "document.querySelector('.view-gantt').gantt"
CELLS = [(row, column) for row in (0, 3, 80, 140, 159) for column in (5, 130, 300, 430, 540)]
ALL_CELLS = """([way, cells]) => { const gantt = document.querySelector('.view-gantt').gantt;
  gantt.by = way; gantt.shown(); gantt.draw();
  return cells.map(([from, until, low, high]) => gantt.raster.words(from, until, low, high)); }"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of many small jobs of fourteen users, more than have a colour of their own."""
    place = tmp_path_factory.mktemp("many")
    lines = [f"; MaxNodes: {NODES}"]
    for job in range(JOBS):
        run, size = 300 + (job * 7919) % 900, 1 + (job * 104729) % 40
        user = job * 31 % 17 % USERS
        lines.append(f"{job + 1} {job * 40} -1 {run} {size} -1 -1 {size} {run} -1 1 {user} 1 {job % 3} 1 1 -1 -1")
    (place / "many.swf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "cohabit.cli", "simulate", str(place / "many.swf"), "--out", str(place / "run")]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return place / "run"


def number(words: str) -> float:
    """The first number of a sentence; spans of two units in seconds; 0 for an idle cell."""
    parts = re.findall(r"([\d,.]+) (d|h|min|s)\b", words)
    scale = {"d": 86400, "h": 3600, "min": 60, "s": 1}
    if parts:
        return sum(float(text.replace(",", "")) * scale[unit] for text, unit in parts)
    found = re.search(r"[\d,.]+", words)
    return float(found.group().replace(",", "")) if found else 0.0


def test_cells_are_those_of_the_report(many: Path, tab: Callable[..., Tab]) -> None:
    run = FinishedRun(many).table
    jobs = ran_jobs(run)
    bars = recorded_bars(run, jobs)
    assert bars is not None
    width, height = horizon(jobs)[1] / SECOND / RASTER_SLICES, NODES / RASTER_ROWS
    areas = [[c * width, (c + 1) * width, r * height, (r + 1) * height] for r, c in CELLS]
    used = raster(run, jobs, bars)
    size = np.exp(mean_raster(run, jobs, bars, np.log(run.nodes.astype(float))))
    waits = np.maximum((run.start_us - run.workload.submit_us) / SECOND, 1.0)
    wait = np.exp(mean_raster(run, jobs, bars, np.log(waits)))
    own = np.argsort(-np.bincount(run.workload.user), kind="stable")[:10].tolist()
    parts = {f"most cores: {run.workload.user_names[one]}": run.workload.user == one for one in own}
    parts["most cores: 4 others"] = ~np.isin(run.workload.user, own)
    of = {}
    for name, jobs_of in parts.items():
        some = bars.take(jobs_of[bars.row])
        of[name] = cells(run, jobs, some, core_share(run, some.row))
    with viewed(many) as link:
        one = tab().open(link)
        one.view("gantt", "canvas")
        told = {way: one.page.evaluate(ALL_CELLS, [way, areas]) for way in ("cores", "size", "wait", "user")}
    assert len({used[cell] for cell in CELLS}) > 4, "the cells differ"
    for place, cell in enumerate(CELLS):
        assert abs(number(told["cores"][place]) - int(used[cell])) <= 1, (cell, told["cores"][place])
        for way, wanted in (("size", size), ("wait", wait)):
            if np.isnan(wanted[cell]):
                assert told[way][place] == "idle"
            else:
                assert number(told[way][place]) == pytest.approx(wanted[cell], rel=0.02, abs=0.6), (way, cell)
        most = max(float(part[cell]) for part in of.values())
        leader = told["user"][place]
        assert leader == "idle" if most < IDLE else of[leader][cell] == pytest.approx(most, abs=1e-4), (cell, leader)


def test_zoomed_out_a_heat_map_zoomed_in_bars(many: Path, tab: Callable[..., Tab]) -> None:
    with viewed(many) as link:
        one = tab().open(link)
        one.view("gantt", "canvas")
        legend = one.page.locator(".gantt-box .legend")
        one.see("100 % of cores in use", ".gantt-box")
        canvas = one.page.locator(".gantt-box canvas")
        canvas.hover(position={"x": 300, "y": 100})
        said = one.page.locator(".gantt-box .hover").inner_text()
        assert re.fullmatch(r"node \d+( to \d+)? · T\+.* · (\d+ % of cores in use|idle)", said), said
        one.page.get_by_role("button", name="Wait").click()
        one.see("the mean of the jobs in each cell", ".gantt-box")
        one.page.get_by_role("button", name="User").click()
        one.see("4 others", ".gantt-box")
        whole = one.page.evaluate(f"{GANTT}.until - {GANTT}.from")
        canvas.click(position={"x": 300, "y": 100})
        one.until(f"{GANTT}.until - {GANTT}.from < {whole} * 0.5 && {GANTT}.bottom - {GANTT}.top < {NODES} * 0.5")
        one.page.evaluate(f"{GANTT}.show({GANTT}.from, {GANTT}.from + {whole} / 40)")
        one.until(f"!{GANTT}.heat")
        assert "heat map" not in legend.inner_text()
        said_of = []
        for x in range(200, 900, 100):
            canvas.hover(position={"x": x, "y": 200})
            said_of.append(one.page.locator(".gantt-box .hover").inner_text())
        assert [text for text in said_of if text.startswith("job ")], said_of
