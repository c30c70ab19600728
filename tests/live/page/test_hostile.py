"""Markup in everything a person can write: names of jobs, programs, users, groups and domains, reasons, errors,
counters, output and addresses, of a running scheduler and of finished runs. All of it is shown as text;
no script runs."""

from __future__ import annotations

import csv
import http.client
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest

from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.serving import ServeConfig
from cohabit.backend.protocol import Launch
from cohabit.core.protocols import Coupling
from cohabit.live.api.settings import ApiSettings
from cohabit.model.event import TelemetryReduced
from cohabit.model.job import Job
from cohabit.model.telemetry import Window, encode
from cohabit.model.units import SECOND
from cohabit.report.tables import METADATA_KEY
from tests.live.api.serving import Server
from tests.live.page.browsing import Tab
from tests.live.page.conftest import ROOT, link_of
from tests.live.page.stages import learned, living, place_of, tell, until
from tests.live.page.test_finished import viewed
from tests.support.programs import FLAT, measured, profile

pytestmark = pytest.mark.system
NewTab = Callable[..., Tab]
IMAGE = "<img src=x onerror=hacked()>"
SCRIPT = "</title></textarea><script>hacked()</script>"
FRAME = "\"'><svg/onload=hacked()>"
LINK = "javascript:hacked()"
WORDS = (IMAGE, SCRIPT, FRAME, LINK)
ADDRESSES = tuple(f"{view}/{quote(word, safe='')}" for view in ("jobs", "nodes", "", "gantt") for word in WORDS)
WATCH = "window.hacked = () => { window.wasHacked = true; };"


def opened(new: NewTab, link: str) -> Tab:
    """A tab in which a script of somebody else would leave a trace."""
    one = new()
    one.page.add_init_script(WATCH)
    return one.open(link)


def harmless(one: Tab, where: str) -> str:
    """Nothing ran and nothing became an element; the text that is shown."""
    assert not one.page.evaluate("Boolean(window.wasHacked)"), where
    strange = "main img, main script, main iframe, main [onload], main [onerror], main a[href^=javascript]"
    assert one.page.locator(strange).count() == 0, where
    assert not one.wrong, where
    return str(one.page.locator("main").inner_text()) + one.page.title()


def shows(one: Tab, path: str, *words: str, wanted: str = "h1") -> None:
    """A view has these words, as text."""
    one.view(path, wanted)
    text = harmless(one, path)
    for word in words:
        assert word in text, (path, word)


# ---- a running scheduler ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Everything in it has a name that is markup; names the API refuses came in by another way."""
    with place_of("hostile") as place:
        coupling = Coupling(IMAGE, 0, peers=(SCRIPT,))
        api = ApiSettings(domains=(IMAGE, SCRIPT))
        config = ServeConfig(place / "state", 2, PolicyConfig(name="sns", learn=False), coupling, api=api)
        with living(Server(config)) as one:
            for word in (IMAGE, SCRIPT, FRAME):
                tell(one, *learned(profile(word, measured(1, 10.0, FLAT, 1.0), processes=1)))
            window = np.ones((2, 2), np.float32)
            tell(one, TelemetryReduced(encode(Window(one.service.parts.clock.now_us(), (IMAGE, FRAME), *[window] * 3))))
            held = Job(IMAGE, 60 * SECOND, program=SCRIPT, held=True, user=0)
            one.run(one.service.controller.submit(held, Launch((FRAME, SCRIPT))))
            one.submit(f"printf '%s' {IMAGE!r}", name="spoken", program=FRAME)
            one.over("spoken")
            broken = one.ask("POST", "/v1/jobs", {"command": [f"/nowhere/{IMAGE}"], "name": "broken", "program": IMAGE})
            assert broken.status == 201
            one.over("broken")
            one.submit("sleep 600", name="runs", program=IMAGE, limit_s=600)
            group = {"name": FRAME, "members": {IMAGE: "coupled", SCRIPT: LINK}}
            one.submit("sleep 600", name="coupled", program=LINK, group=group, limit_s=600)
            until(lambda: one.ask("GET", "/v1/page/domains").body["coupling"]["groups"])
            yield one


def test_every_view_of_a_living_scheduler_shows_it_as_text(server: Server, tab: NewTab) -> None:
    one = opened(tab, link_of(server))
    shows(one, "", IMAGE, SCRIPT, LINK)
    shows(one, "jobs", IMAGE, SCRIPT, LINK, wanted="table")
    shows(one, f"jobs/{quote(IMAGE, safe='')}", IMAGE, SCRIPT, FRAME)
    shows(one, "jobs/broken", "/nowhere/", wanted=".facts")
    shows(one, "jobs/coupled", FRAME, SCRIPT, LINK)
    shows(one, "nodes")
    shows(one, "nodes/0", wanted=".facts")
    shows(one, "gantt", IMAGE, wanted="canvas")
    shows(one, "programs", IMAGE, SCRIPT, FRAME, wanted=".cards")
    shows(one, "predictions", IMAGE, SCRIPT, FRAME, wanted="table")
    shows(one, "domains", IMAGE, SCRIPT, FRAME, LINK, wanted="table")
    shows(one, "compare")
    one.view("jobs/spoken", ".facts")
    one.page.get_by_role("button", name="Read it").click()
    one.page.locator(".output", has_text=IMAGE).wait_for()
    harmless(one, "output")


def test_reasons_are_text(server: Server, tab: NewTab) -> None:
    """Of a job that waits for a mate, of one that ended because its program is not there, and in the list."""
    one = opened(tab, link_of(server))
    one.view("jobs/coupled", ".timeline")
    assert LINK in one.page.locator(".timeline").inner_text()
    assert SCRIPT in one.page.locator(".timeline").inner_text()
    one.view("jobs", "table")
    one.page.get_by_role("button", name="Over").click()
    one.page.get_by_role("link", name="broken").wait_for()
    harmless(one, "jobs that are over")


def test_what_is_typed_and_done_is_text(server: Server, tab: NewTab) -> None:
    """The search box, the form, its refusals, and the short words about what was done."""
    one = opened(tab, link_of(server))
    one.view("jobs", "table")
    one.page.get_by_label("Find jobs by name or program").fill("no such thing " + IMAGE)
    one.see(f"No job matches “no such thing {IMAGE}”.")
    one.page.get_by_label("Find jobs by name or program").fill("")
    one.page.get_by_role("button", name="Submit a job").click()
    one.page.get_by_label("Command, without a shell").fill("true")
    one.page.get_by_label("Name", exact=True).fill(IMAGE)
    one.page.get_by_role("button", name="Submit", exact=True).click()
    one.page.locator("dialog [role=alert]", has_text="a name has").wait_for()
    one.page.get_by_label("Time limit").fill(IMAGE)
    one.page.get_by_role("button", name="Submit", exact=True).click()
    one.page.locator("dialog [role=alert]", has_text=IMAGE).wait_for()
    one.page.get_by_role("button", name="Close").click()
    one.wrong = [text for text in one.wrong if "422" not in text]  # the browser notes the refusal
    harmless(one, "the form")
    one.view(f"jobs/{quote(IMAGE, safe='')}")
    one.page.get_by_role("button", name="Release").click()
    one.page.locator(".toast", has_text=IMAGE).wait_for()
    harmless(one, "a toast")


def test_addresses_are_text(server: Server, tab: NewTab) -> None:
    """Of views, jobs and nodes there are not, encodings that are none, and a question behind the address."""
    link = link_of(server)
    one = opened(tab, link)
    for address in (*ADDRESSES, "jobs/%", "%E0%A4%A", "nodes/1e99", "nodes/-1"):
        one.page.evaluate("(to) => { document.querySelector('main > *')?.setAttribute('data-old', ''); "
                          "location.hash = to; }", f"#/{address}")  # fmt: skip
        one.page.wait_for_selector("main > :not([data-old])")
        one.wrong = [text for text in one.wrong if not any(code in text for code in ("404", "422"))]
        harmless(one, address)
    one.page.goto(f"{link.split('#')[0]}?q={quote(SCRIPT)}&{quote(IMAGE)}=1#/jobs")
    one.page.wait_for_selector(".view-jobs table")
    harmless(one, "a question")


def test_names_that_are_markup_do_not_get_in(server: Server) -> None:
    for word in (IMAGE, SCRIPT, FRAME):
        assert server.ask("POST", "/v1/jobs", {"command": ["true"], "name": word}).status == 422
        assert server.ask("POST", "/v1/tokens", {"user": word}).status == 422


def test_errors_are_sent_as_data(server: Server) -> None:
    """A browser that is led to an answer of the API itself must not take it for a page."""
    address = link_of(server).split("/")[2]
    for path in ("/v1/page/jobs", "/v1/nothing/", "/page/", "/v1/page/nodes/"):
        asked = http.client.HTTPConnection(address, timeout=60)
        asked.request("GET", path + quote(IMAGE))
        answer = asked.getresponse()
        assert answer.status >= 400
        assert answer.headers["content-type"] == "application/json", path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        asked.close()


# ---- finished runs --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of a hostile jobs.csv in a folder with a hostile name, and a coupled run whose table was changed."""
    place = tmp_path_factory.mktemp("runs")
    with (place / "jobs.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["job_id", "program", "processes", "submit_s", "run_s", "limit_s", "user"])
        for number in range(12):
            name = f"{number}<svg/onload=hacked()>"
            writer.writerow([name, WORDS[number % 4], 2, number, 600, 1200, WORDS[(number + 1) % 4]])
        writer.writerow(["too-large" + FRAME, IMAGE, 10_000, 1, 600, 1200, SCRIPT])  # is rejected, with a reason
    (place / "s.toml").write_text('[cluster]\nnodes = 4\ncores = 2\n[jobs]\nfile = "jobs.csv"\n', encoding="utf-8")
    first, second = place / "<img src=x onerror=hacked()>", place / "coupled"
    for scenario, out in ((place / "s.toml", first), (ROOT / "scenarios" / "coupled.toml", second)):
        command = [sys.executable, "-m", "cohabit.cli", "simulate", str(scenario), "--out", str(out)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    spoil(second / "jobs.parquet")
    return first, second


def spoil(path: Path) -> None:
    """Domains, groups and the policy of a coupled run become markup."""
    frame, about = pl.read_parquet(path), pl.read_parquet_metadata(path)[METADATA_KEY]
    names = dict(zip(sorted(set(frame["domain"].to_list())), (IMAGE, FRAME), strict=True))
    group = pl.when(pl.col("group").is_not_null()).then(pl.col("group") + SCRIPT).otherwise(None)
    frame = frame.with_columns(pl.col("domain").replace(names), group.alias("group"))
    policy = about.replace('"policy":"', f'"policy":"{IMAGE}')
    assert policy != about
    frame.write_parquet(path, metadata={METADATA_KEY: policy})


def test_every_view_of_a_finished_run_shows_it_as_text(hostile_runs: tuple[Path, Path], tab: NewTab) -> None:
    with viewed(*hostile_runs) as link:
        one = opened(tab, link)
        slider = one.page.get_by_label("Instant of the run")
        slider.evaluate("(it) => { it.value = 10; it.dispatchEvent(new Event('input')); }")
        one.see("<svg/onload=hacked()>")
        shows(one, "", IMAGE, SCRIPT)
        shows(one, "jobs", IMAGE, SCRIPT, FRAME, LINK, wanted="tbody tr")
        name = quote("3<svg/onload=hacked()>", safe="")
        shows(one, f"jobs/{name}", "3<svg/onload=hacked()>", wanted=".facts")
        one.page.get_by_role("button", name="Explain").click()
        one.page.get_by_role("button", name="Replaying").wait_for(state="detached")
        one.page.locator(".facts").first.wait_for()
        shows(one, "nodes/0", "<svg/onload=hacked()>", wanted="tbody tr")
        shows(one, f"jobs/{quote('too-large' + FRAME, safe='')}", "too-large" + FRAME, wanted=".facts")
        for path in ("gantt", "programs", "predictions", "domains", "nodes"):
            shows(one, path)
        shows(one, "compare", IMAGE, wanted="canvas")
        one.page.get_by_role("button", name=hostile_runs[1].name).click()
        shows(one, "domains", IMAGE, FRAME, SCRIPT, wanted="tbody tr")
        one.page.locator("tbody a").first.click()
        one.page.wait_for_selector(".view-jobs .facts")
        text = harmless(one, "a job of the coupled run")
        assert IMAGE in text or FRAME in text
        assert SCRIPT in text


def test_a_finished_run_that_is_broken_is_refused_in_one_sentence(
    hostile_runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """The facts in jobs.parquet are JSON somebody else may have written."""
    frame = pl.read_parquet(hostile_runs[1] / "jobs.parquet")
    for content in ("{", "[]", '{"workload": 1}', '{"workload": {}, "reasons": {}}', f'"{IMAGE}"'):
        frame.write_parquet(tmp_path / "jobs.parquet", metadata={METADATA_KEY: content})
        done = subprocess.run([sys.executable, "-m", "cohabit.cli", "view", str(tmp_path), "--no-open"],
                              capture_output=True, text=True, timeout=120)  # fmt: skip
        assert done.returncode == 2, (content, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, content
        assert "jobs.parquet" in done.stderr
