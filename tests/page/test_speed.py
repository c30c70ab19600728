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

import pytest

from cohabit.app.serving import ServeConfig
from cohabit.live.api.page_files import assets
from cohabit.live.api.settings import ApiSettings
from tests.api.serving import Server
from tests.page.browsing import Tab
from tests.page.conftest import link_of
from tests.page.test_finished import viewed

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timing]
NewTab = Callable[..., Tab]
NODES, JOBS, MEMBERS, BARS = 1000, 10_000, 1000, 100_000
PAINT_MS, UPDATE_S, FRAMES_PER_S = 1000.0, 1.0, 30.0


def told(name: str, **figures: float) -> None:
    """Figures for whoever wants them."""
    print(json.dumps({"what": name, "load": os.getloadavg()[0], **figures}))  # noqa: T201


def attempts(measure: Callable[[], float], good: Callable[[float], bool]) -> list[float]:
    """Several tries: a neighbour on the machine may spoil one, a slow page spoils all of them."""
    found: list[float] = []
    while len(found) < 5 and not (found and good(found[-1])):
        found.append(measure())
    return found


@pytest.fixture(scope="module")
def large() -> Iterator[Server]:
    """A real scheduler of 1,000 nodes with 10,000 jobs, forty of which run."""
    place = Path(tempfile.mkdtemp(prefix="cohabit-large-"))
    one = Server(ServeConfig(place / "state", NODES, api=ApiSettings()))
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


def test_an_event_shows_within_a_second(large: Server, tab: NewTab) -> None:
    one = tab().open(link_of(large))
    one.page.locator("#status", has_text="live").wait_for()
    running = "document.querySelectorAll('.tile')[1].querySelector('.value').textContent"
    number = 0

    def measure() -> float:
        nonlocal number
        number += 1
        before = one.page.evaluate(running)
        answer = large.ask(
            "POST", "/v1/jobs", {"command": ["sleep", "1200"], "limit_s": 1200, "name": f"now-{number}x"}
        )
        since = time.monotonic()
        assert answer.status == 201
        one.until(f"{running} !== {json.dumps(before)}")
        return time.monotonic() - since

    found = attempts(measure, lambda took: took < UPDATE_S)
    told("update", seconds=min(found), tries=len(found))
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

        def measure() -> float:
            return float(one.page.evaluate(
                """async () => {
                  const { gantt } = document.querySelector('.view-gantt');
                  gantt.home(); gantt.zoom(0.7);
                  do await new Promise(requestAnimationFrame); while (gantt.waiting);
                  gantt.frames.length = 0;
                  const begin = performance.now();
                  let step = 0;
                  while (performance.now() - begin < 2500) {
                    gantt.pan(step % 40 < 20 ? 0.01 : -0.01);
                    step += 1;
                    await new Promise(requestAnimationFrame);
                  }
                  return gantt.frames.length / ((performance.now() - begin) / 1000);
                }"""
            ))  # fmt: skip

        found = attempts(measure, lambda rate: rate >= FRAMES_PER_S)
        bars = one.page.evaluate("document.querySelector('.view-gantt').gantt.count")
        told("gantt", frames_per_s=max(found), bars=bars, tries=len(found))
        assert bars >= BARS
        assert max(found) >= FRAMES_PER_S


def test_the_page_is_light() -> None:
    """All of it together, as it is sent; docs/page.md states the figure."""
    files = assets()
    whole, packed = sum(len(one.content) for one in files.values()), sum(len(one.packed) for one in files.values())
    told("weight", files=len(files), bytes=whole, packed=packed)
    assert whole < 150_000
    assert packed < 60_000
