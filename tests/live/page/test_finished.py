"""`cohabit view`: finished runs through the same page, read-only; zoom, the run's clock, two runs side by side."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.page.browsing import PHONE, Tab

pytestmark = pytest.mark.system
NewTab = Callable[..., Tab]
Runs = tuple[Path, Path, Path]
VIEWS = ("", "jobs", "jobs/3", "nodes", "nodes/0", "gantt", "programs", "predictions", "domains", "compare", "whatif")


@contextmanager
def viewed(*folders: Path) -> Iterator[str]:
    """`cohabit view` as a person starts it; its link."""
    command = [sys.executable, "-m", "cohabit.cli", "view", *map(str, folders), "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        link = process.stdout.readline().strip()
        assert link, process.stderr.read()
        yield link
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_every_view_of_a_finished_run(runs: Runs, tab: NewTab) -> None:
    with viewed(runs[0], runs[1]) as link:
        one, phone = tab(color_scheme="light").open(link), tab(color_scheme="dark", viewport=PHONE).open(link)
        for path in VIEWS:
            one.view(path)
            assert not one.complaints(), path
            phone.view(path)
            assert not phone.cut(), path
        for path in ("", "predictions", "compare"):
            phone.view(path)
            assert not phone.complaints(), path


def test_the_clock_of_the_run_is_moved(runs: Runs, tab: NewTab) -> None:
    with viewed(runs[0]) as link:
        one = tab().open(link)
        slider = one.page.get_by_label("Instant of the run")
        slider.evaluate("(it) => { it.value = 1000; it.dispatchEvent(new Event('input')); }")
        one.see("No job waits or runs.")
        slider.evaluate("(it) => { it.value = 1; it.dispatchEvent(new Event('input')); }")
        one.page.locator(".jobs-table tbody tr").first.wait_for()
        one.view("nodes/0", ".mask .ways .on")
        one.until("document.querySelectorAll('.mask .lane').length >= 2")


def test_a_job_tells_why_it_waited_and_how_fast_it_was(runs: Runs, tab: NewTab) -> None:
    with viewed(runs[0]) as link:
        one = tab().open(link)
        one.view("jobs/15")
        one.see("Its speed over time")
        one.page.get_by_role("button", name="Explain").click()
        one.page.locator(".timeline li").first.wait_for()
        assert any(letter.isdigit() for letter in one.page.locator(".timeline").inner_text())
        one.view("jobs/17")
        one.page.get_by_role("button", name="Explain").click()
        one.see("more times with other numbers or jobs", ".timeline > li > details")
        assert one.page.locator(".timeline > li").first.inner_text().startswith("at submission")
        assert one.page.get_by_role("button", name="Cancel").count() == 0


def test_the_gantt_is_zoomed_by_wheel_keys_and_buttons(runs: Runs, tab: NewTab) -> None:
    with viewed(runs[1]) as link:
        one = tab().open(link)
        one.view("gantt", "canvas")
        span = "document.querySelector('.view-gantt').gantt.until - document.querySelector('.view-gantt').gantt.from"
        whole = one.page.evaluate(span)
        canvas = one.page.locator(".gantt-box canvas")
        canvas.hover()
        one.page.mouse.wheel(0, -600)
        one.until(f"{span} < {whole} * 0.9")
        near = one.page.evaluate(span)
        canvas.focus()
        one.page.keyboard.press("+")
        one.until(f"{span} < {near} * 0.9")
        one.page.keyboard.press("Home")
        one.until(f"Math.abs(({span}) - {whole}) < 1e-6")
        one.page.get_by_text("Jobs in sight as a table").click()
        one.until("document.querySelectorAll('.gantt-box tbody tr').length === 20")
        box = canvas.bounding_box()
        assert box is not None
        canvas.click(position={"x": 80, "y": 10})
        one.page.wait_for_selector(".view-jobs h1")


def test_two_runs_side_by_side(runs: Runs, tab: NewTab) -> None:
    with viewed(runs[0], runs[1]) as link:
        one = tab().open(link)
        one.view("compare", "table")
        row = one.page.locator("tr", has_text="Mean wait").first.inner_text()
        assert "%" in row
        assert "better" in row or "worse" in row
        assert one.page.locator(".gantt-box canvas").count() == 2
        one.page.get_by_role("button", name="exclusive: fcfs + easy").click()
        one.view("")
        one.see("exclusive")


def test_a_run_is_simulated_again_with_another_policy(runs: Runs, tab: NewTab) -> None:
    with viewed(runs[0]) as link:
        one = tab().open(link)
        one.view("whatif", "select")
        one.see("simulated in")
        figures = one.page.locator("table", has_text="Mean turnaround")
        same = figures.locator("tbody tr .number:last-child").all_inner_texts()
        assert set(same) == {"="}, "the run's own settings give its own figures"
        one.page.locator("#whatif-policy").select_option("ce-easy")
        one.see("fcfs + easy: simulated in")
        alone = one.page.locator("tr", has_text="Run time against alone").locator(".number").nth(1).inner_text()
        assert float(alone) == pytest.approx(1.0, abs=0.001), "jobs alone on their nodes run as fast as alone"


def test_domains_of_a_coupled_run(runs: Runs, tab: NewTab) -> None:
    with viewed(runs[2]) as link:
        one = tab().open(link)
        one.view("domains", "table")
        one.see("Waited for mates")
        assert one.page.locator("tbody tr").count() > 5


def test_only_who_has_the_link_looks(runs: Runs) -> None:
    with viewed(runs[0]) as link:
        host = link.split("/")[2]
        for headers in ({}, {"authorization": "Bearer guess"}):
            asked = http.client.HTTPConnection(host, timeout=60)
            asked.request("GET", "/v1/page/jobs", headers=headers)
            assert asked.getresponse().status == 401
            asked.close()
