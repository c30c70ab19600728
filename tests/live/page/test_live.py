"""The page over a real scheduler in a real browser: look, submit, watch, hold, release, cancel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.live.api.serving import Server
from tests.live.page.browsing import PHONE, TABLET, WIDE, Tab
from tests.live.page.conftest import link_of
from tests.support.durations import SAID

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = pytest.mark.system
NewTab = Callable[..., Tab]
VIEWS = ("", "jobs", "nodes", "nodes/0", "gantt", "programs", "predictions", "domains", "compare")


def test_a_job_is_submitted_watched_held_released_and_cancelled(server: Server, tab: NewTab) -> None:
    one = tab().open(link_of(server))
    page = one.page
    page.get_by_role("button", name="Submit a job").click()
    page.get_by_label("Command, without a shell").fill("/bin/sh -c 'echo \"well done\"; sleep 300'")
    page.get_by_label("Name", exact=True).fill("by-hand")
    page.get_by_label("Program, for its profile").fill("sleeper")
    page.get_by_role("button", name="When would it start?").click()
    page.locator("dialog [role=alert]").get_by_text("It would start").wait_for()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("heading", name="Job by-hand").wait_for()
    page.locator(".badge", has_text=re.compile("^running$")).wait_for()
    page.get_by_role("button", name="Read it").click()
    one.see("well done", ".output")
    page.get_by_role("button", name="Cancel").click()
    page.locator(".badge", has_text=re.compile("^cancelled$")).wait_for()
    assert server.over("by-hand")["state"] == "cancelled"

    server.submit("exit 0", name="kept", hold=True)
    one.view("jobs/kept")
    one.see("held: it must be released first")
    page.get_by_role("button", name="Release").click()
    page.locator(".badge", has_text=re.compile("^done$")).wait_for()
    one.see("released", ".timeline")


def test_what_happens_elsewhere_shows_by_itself(server: Server, tab: NewTab) -> None:
    one = tab().open(link_of(server))
    one.page.locator("#status", has_text="live").wait_for()
    server.submit("sleep 300", name="from-elsewhere", program="elsewhere")
    one.see("from-elsewhere")
    server.ask("POST", "/v1/jobs/from-elsewhere/cancel")
    one.page.get_by_role("link", name="from-elsewhere").wait_for(state="detached")


def test_a_node_is_drained_and_resumed(server: Server, tab: NewTab) -> None:
    one = tab().open(link_of(server))
    one.view("nodes/1")
    one.page.get_by_role("button", name="Drain").click()
    one.page.locator(".badge", has_text="drained").wait_for()
    one.page.get_by_role("button", name="Resume").click()
    one.page.get_by_role("button", name="Drain").wait_for()
    assert server.ask("GET", "/v1/nodes").body["nodes"][1]["state"] in ("idle", "busy")  # another's job may end there


def test_an_older_answer_that_comes_late_does_not_replace_a_newer_one(server: Server, tab: NewTab) -> None:
    one = tab().open(link_of(server))
    one.view("nodes/1")
    one.page.get_by_role("button", name="Drain").wait_for()
    late: list[Callable[[], None]] = []

    def hold_the_first(route: Route) -> None:
        if late:
            route.continue_()
        else:
            answer = route.fetch()
            late.append(lambda: route.fulfill(response=answer))

    one.page.route(re.compile(r"/nodes/1$"), hold_the_first)
    server.submit("exit 0", name="something-happens")
    while not late:
        one.page.wait_for_timeout(20)
    one.page.get_by_role("button", name="Drain").click()
    one.page.locator(".badge", has_text="drained").wait_for()
    late[0]()
    one.page.wait_for_timeout(300)
    assert one.page.locator(".badge", has_text="drained").is_visible()
    one.page.get_by_role("button", name="Resume").click()
    one.page.get_by_role("button", name="Drain").wait_for()


def test_keys_alone_are_enough(server: Server, tab: NewTab) -> None:
    one = tab().open(link_of(server))
    page = one.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    one.see("node 1")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Node 1").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_out(server: Server, tab: NewTab, scheme: str) -> None:
    """axe over every view, in both themes."""
    name = server.submit("sleep 300", name=f"seen-{scheme}", program="watched")
    one = tab(color_scheme=scheme).open(link_of(server))
    found: dict[str, list[str]] = {}
    for path in (*VIEWS, f"jobs/{name}"):
        one.view(path)
        found[path] = one.complaints()
    one.view("jobs")
    one.page.get_by_role("button", name="Submit a job").click()
    one.page.get_by_role("heading", name="Submit a job").wait_for()
    found["submit"] = one.complaints()
    server.ask("POST", f"/v1/jobs/{name}/cancel")
    assert not {path: wrong for path, wrong in found.items() if wrong}


def test_dark_is_chosen_and_kept(server: Server, tab: NewTab) -> None:
    one = tab(color_scheme="light").open(link_of(server))
    ground = "getComputedStyle(document.body).backgroundColor"
    light = one.page.evaluate(ground)
    for _ in range(2):
        one.page.get_by_role("button", name=re.compile("^Colours")).click()
    dark = one.page.evaluate(ground)
    assert dark != light
    one.page.reload()
    one.page.wait_for_selector(".view-overview canvas")
    assert one.page.evaluate(ground) == dark


def test_nothing_is_cut_on_a_phone_a_tablet_and_a_screen(server: Server, tab: NewTab) -> None:
    name = server.submit("sleep 300", name="on-the-phone", program="a-program-with-quite-a-long-name")
    one = tab(has_touch=True).open(link_of(server))
    found = {}
    for path in (*VIEWS, f"jobs/{name}"):
        for size in (WIDE, TABLET, PHONE):
            one.page.set_viewport_size(size)
            one.view(path)
            found[path, size["width"]] = one.cut()
    server.ask("POST", f"/v1/jobs/{name}/cancel")
    assert not {where: what for where, what in found.items() if what}
    assert one.page.locator("#tabs a").count() == 6


def test_a_job_that_never_ran_and_an_array_say_so(server: Server, tab: NewTab) -> None:
    server.submit("exit 0", name="never-ran", hold=True)
    server.submit("exit 0", name="a-few", array="1-3", hold=True)
    for name in ("never-ran", "a-few"):
        server.ask("POST", f"/v1/jobs/{name}/cancel")
    one = tab().open(link_of(server))
    one.view("jobs/never-ran", ".facts")
    shown = one.page.locator("main").inner_text()
    assert "It never ran." in shown
    assert "It never had nodes." in shown
    assert "yet" not in shown
    assert "Output" not in shown
    assert one.page.locator(".timeline .when", has_text="now").count() == 0
    one.view("jobs/a-few", ".facts")
    assert one.page.locator("main .card", has_text="Members").locator("a").all_inner_texts() == [
        "a-few_1", "a-few_2", "a-few_3",
    ]  # fmt: skip
    assert "waited" not in one.page.locator("main").inner_text()
    one.view("", ".chart")
    waiting = one.page.locator(".tile", has_text="Waiting").locator(".value").inner_text()
    one.see(f"{waiting} waiting at the end.")


def test_a_slowdown_that_nobody_expected_is_shown(server: Server, tab: NewTab) -> None:
    point = {"ended_at": 1e9, "job": "j", "program": "p", "predicted": None, "actual": 1.5}
    one = tab()
    one.page.route("**/v1/slowdowns*", lambda route: route.fulfill(json={"points": [point], "mean_abs_error": None}))
    one.open(link_of(server)).view("predictions", "caption:has-text('Slowdowns')")
    row = one.page.locator("section", has_text="Expected against measured").locator("tbody tr").inner_text()
    assert row.split() == ["j", "p", "\u2013", "1.50\u00d7"]


def test_one_is_singular_and_nothing_is_zero(server: Server, tab: NewTab) -> None:
    one = tab().open(link_of(server))
    one.view("nodes/0", ".stack")
    assert re.search(r"0 of 1 core \(", one.page.locator("main").inner_text())
    spans = "seconds => import('/page/words.js').then(({ span }) => seconds.map(span))"
    assert one.page.evaluate(spans, [seconds for seconds, _ in SAID]) == [said for _, said in SAID]


def test_the_list_is_searched_and_sorted(server: Server, tab: NewTab) -> None:
    for number in range(4):
        server.submit("exit 0", name=f"listed-{number}", program="needle" if number == 2 else "hay", hold=True)
    one = tab().open(link_of(server))
    one.view("jobs", "table")
    assert one.page.get_by_role("link", name="Gantt").count() == 1
    assert one.page.get_by_role("link", name="Domains").count() == 0  # there is one domain only
    one.page.get_by_label("Find jobs by name or program").fill("needle")
    one.until("document.querySelectorAll('tbody tr').length === 1")
    assert one.page.get_by_role("link", name="listed-2").count() == 1
    one.page.get_by_label("Find jobs by name or program").fill("listed-")
    one.page.get_by_role("link", name="listed-3").wait_for()
    one.page.get_by_role("button", name="Job", exact=True).click()
    one.page.locator("th[aria-sort=ascending]", has_text="Job").wait_for()
    one.page.get_by_role("button", name="Job", exact=True).click()
    one.page.locator("th[aria-sort=descending]", has_text="Job").wait_for()
    one.page.locator("tbody tr:first-child", has_text="listed-3").wait_for()


def test_a_waiting_job_shows_its_expected_start(server: Server, tab: NewTab) -> None:
    server.submit("sleep 60", name="ahead", nodes=2, limit_s=300)
    server.submit("exit 0", name="behind", nodes=2, limit_s=60)
    one = tab().open(link_of(server))
    one.view("jobs/behind", ".timeline")
    one.see("expected start in")
    assert "on nodes 0\u20131, by requested times" in one.page.locator(".view").first.inner_text()
    for name in ("behind", "ahead"):
        server.ask("POST", f"/v1/jobs/{name}/cancel")


def test_planned_bars_lie_right_of_now(server: Server, tab: NewTab) -> None:
    """The first job runs for at most 300 s on both nodes; the second is planned behind it, for 60 s."""
    server.submit("sleep 60", name="first", nodes=2, limit_s=300, program="held")
    server.until(lambda: server.show("first")["state"] == "running")
    server.submit("exit 0", name="second", nodes=2, limit_s=60)
    one = tab().open(link_of(server))
    one.view("gantt", "canvas")
    one.see("planned, if every job takes its requested time")
    planned = "() => (({ data }) => data.counted > data.real)(document.querySelector('.view-gantt').gantt)"
    server.until(lambda: one.page.evaluate(planned))  # answers about starts may be some seconds old
    found = one.page.evaluate(
        """() => { const { data, ran } = document.querySelector(".view-gantt").gantt;
        return data.ids.map((id, job) => [id, data.start[job] - ran.until, data.end[job] - ran.until])
        .slice(data.real)
        .concat([[data.states.at(-1), data.counted - data.real, data.bar_job.length - ran.bar_job.length]]); }"""
    )
    (second, start, end), (first, now, over), last = found
    assert (second, first, now, last) == ("second", "first", 0, ["planned", 1, 2])
    assert 250 < over <= 300
    assert start == pytest.approx(over, abs=1)
    assert end - start == pytest.approx(60, abs=1)
    for name in ("second", "first"):
        server.ask("POST", f"/v1/jobs/{name}/cancel")
