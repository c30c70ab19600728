"""How quick the page is, measured in the browser: first paint, updates and the Gantt chart at their real sizes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from cohabit.app.serve.serving import ServeConfig
from cohabit.live.api.page.files import assets
from cohabit.live.api.settings import ApiSettings, UserLimits
from tests.live.api.serving import Server
from tests.live.page.browsing import Tab
from tests.live.page.conftest import link_of
from tests.live.page.test_finished import viewed
from tests.live.page.test_safety import sign_in, token

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timing]
NewTab = Callable[..., Tab]
T = TypeVar("T")
NODES, JOBS, MEMBERS, BARS = 1000, 10_000, 1000, 100_000
PAINT_MS, UPDATE_S, FRAMES_PER_S = 1000.0, 1.0, 30.0


# Pans for two and a half seconds to where nothing has been painted yet, and begins anew at the end of the run.
PAN = """async ([share, step]) => {
  const { gantt } = document.querySelector('.view-gantt');
  const begin = () => gantt.show(gantt.least, gantt.least + (gantt.most - gantt.least) * share);
  gantt.home();
  begin();
  do await new Promise(requestAnimationFrame); while (gantt.waiting);
  gantt.frames.length = 0;
  gantt.costs.length = 0;
  const since = performance.now();
  let pans = 0;
  while (performance.now() - since < 2500) {
    gantt.pan(step);
    pans += 1;
    if (gantt.until > gantt.most) { gantt.raster.tiles.clear(); begin(); }
    await new Promise(requestAnimationFrame);
  }
  const costs = [...gantt.costs].sort((a, b) => a - b);
  return { frames_per_s: gantt.frames.length / ((performance.now() - since) / 1000),
    ms_per_frame: costs.reduce((a, b) => a + b, 0) / costs.length,
    ms_per_frame_95: costs[Math.floor(costs.length * 0.95)], widths_of_new_chart: pans * step };
}"""
PANS = (("all of it in sight", 0.7, 0.01), ("a third in sight", 0.3, 0.02), ("a twentieth in sight", 0.05, 0.02),
        ("a two-hundredth in sight", 0.005, 0.05), ("a twentieth, at a run", 0.05, 0.1))  # fmt: skip


def told(name: str, **figures: float) -> None:
    """Figures for whoever wants them."""
    print(json.dumps({"what": name, "load": os.getloadavg()[0], **figures}))  # noqa: T201


def attempts(measure: Callable[[], T], good: Callable[[T], bool]) -> list[T]:
    """Several tries: a neighbour on the machine may spoil one, a slow page spoils all of them."""
    found: list[T] = []
    while len(found) < 5 and not (found and good(found[-1])):
        found.append(measure())
    return found


@pytest.fixture(scope="module")
def large() -> Iterator[Server]:
    """A real scheduler of 1,000 nodes with 10,000 jobs, forty of which run."""
    place = Path(tempfile.mkdtemp(prefix="cohabit-large-"))
    api = ApiSettings(host="127.0.0.1", others=UserLimits(max_queued=None))
    one = Server(ServeConfig(place / "state", NODES, api=api))
    for _ in range(40):
        one.submit("sleep 1200", limit_s=1200, program="runs")
    for _ in range(JOBS // MEMBERS):
        body = {"command": ["true"], "array": f"1-{MEMBERS}", "hold": True, "program": "waits"}
        assert one.ask("POST", "/v1/jobs", body).status == 201
    yield one
    for job in one.ask("GET", "/v1/jobs?state=running&limit=1000").body["jobs"]:
        one.ask("POST", f"/v1/jobs/{job['job']}/cancel")
    one.close()
    shutil.rmtree(place)


def test_first_paint_with_1000_nodes_and_10000_jobs(large: Server, tab: NewTab) -> None:
    painted: list[float] = []

    def measure() -> float:
        one = tab().open(link_of(large))
        one.until("performance.getEntriesByName('first-contentful-paint').length > 0")
        first = one.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        painted.append(one.page.evaluate("performance.getEntriesByName('shown-overview')[0].startTime"))
        return float(first)

    found = attempts(measure, lambda first: first < PAINT_MS and painted[-1] < 2 * PAINT_MS)
    told("first paint", first_ms=min(found), nodes_drawn_ms=min(painted))
    assert min(found) < PAINT_MS


@pytest.mark.parametrize("who", ["operator", "plain user"])
def test_an_event_shows_within_a_second(large: Server, tab: NewTab, who: str) -> None:
    """Also where it is a job of another user, of which a plain user sees only that a node is taken."""
    one = tab()
    if who == "operator":
        one.open(link_of(large))
    else:
        sign_in(one, large, token(large, "guest-without-account"))
        one.page.wait_for_selector(".view-overview canvas")
    one.page.locator("#status", has_text="live").wait_for()
    running = "document.querySelectorAll('.tile')[1].querySelector('.value').textContent"
    number = 0

    def measure() -> float:
        nonlocal number
        number += 1
        before = one.page.evaluate(running)
        answer = large.ask(
            "POST", "/v1/jobs", {"command": ["sleep", "1200"], "limit_s": 1200, "name": f"now-{number}-{who[:2]}"}
        )
        since = time.monotonic()
        assert answer.status == 201
        one.until(f"{running} !== {json.dumps(before)}")
        return time.monotonic() - since

    found = attempts(measure, lambda took: took < UPDATE_S)
    told(f"update, {who}", seconds=min(found), tries=len(found))
    assert min(found) < UPDATE_S


def test_a_gantt_of_100000_jobs_pans_smoothly(tab: NewTab, tmp_path: Path) -> None:
    trace = tmp_path / "many.swf"
    lines = ["; MaxNodes: 1000"]
    for job in range(BARS):
        run = 400 + (job * 7919) % 1600
        size = 1 + (job * 104729) % 17
        lines.append(f"{job + 1} {job * 10} -1 {run} {size} -1 -1 {size} {run} -1 1 {job % 50} 1 {job % 12} 1 1 -1 -1")
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "cohabit.cli", "simulate", str(trace), "--out", str(tmp_path / "run")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    with viewed(tmp_path / "run") as link:
        one = tab().open(link)
        one.view("gantt", "canvas")

        bars = one.page.evaluate("document.querySelector('.view-gantt').gantt.count")
        assert bars >= BARS
        for name, share, step in PANS:
            found = attempts(lambda: one.page.evaluate(PAN, [share, step]),  # noqa: B023
                             lambda pan: pan["frames_per_s"] >= FRAMES_PER_S)  # fmt: skip
            best = max(found, key=lambda pan: float(pan["frames_per_s"]))
            told(f"gantt, {name}", bars=bars, tries=len(found), **best)
            assert best["frames_per_s"] >= FRAMES_PER_S, name


def test_the_page_is_light() -> None:
    """All of it together, as it is sent; docs/page.md states the figure. Views are loaded when they are opened."""
    files = assets()
    whole, packed = sum(len(one.content) for one in files.values()), sum(len(one.packed) for one in files.values())
    told("weight", files=len(files), bytes=whole, packed=packed)
    assert whole < 160_000
    assert packed < 60_000
