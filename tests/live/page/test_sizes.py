"""Machines and queues of any size: a map that stays small, reasons with numbers in long queues, names that are not
unique over domains, and users who see nothing of others' jobs but that the machine has changed."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cohabit.app.serve.serving import ServeConfig
from cohabit.live.api.settings import ApiSettings
from tests.live.api.serving import Server
from tests.live.page.browsing import Tab
from tests.live.page.conftest import link_of
from tests.live.page.stages import living, place_of, until
from tests.live.page.test_finished import viewed
from tests.live.page.test_safety import sign_in, token

pytestmark = pytest.mark.system
NewTab = Callable[..., Tab]
NODES, ARRAYS = 32_768, 3


@pytest.fixture(scope="module")
def huge() -> Iterator[Server]:
    """32,768 nodes, a few of them busy, one drained, and three thousand jobs that want all of them."""
    with place_of("huge") as place:
        config = ServeConfig(place / "state", NODES, api=ApiSettings(host="127.0.0.1"))
        with living(Server(config)) as one:
            for _ in range(4):
                one.submit("sleep 600", nodes=1, limit_s=600)
            until(lambda: one.ask("GET", "/v1/page/overview").body["counts"]["running"] == 4)
            one.ask("POST", "/v1/nodes/777/drain")
            for _ in range(ARRAYS):
                body = {"command": ["true"], "array": "1-1000", "nodes": NODES, "program": "vast"}
                assert one.ask("POST", "/v1/jobs", body).status == 201
            yield one


def test_a_huge_machine_is_drawn_small_and_opened_in_parts(huge: Server, tab: NewTab) -> None:
    one = tab().open(link_of(huge))
    canvas = one.page.locator("canvas")
    one.see("a cell is 8 nodes")
    box = canvas.bounding_box()
    assert box is not None
    assert box["height"] <= 340
    canvas.focus()
    one.page.keyboard.press("ArrowRight")
    one.see("nodes 8 to 15 · 8 idle · 0 of")
    one.page.keyboard.press("Enter")
    one.see("nodes 0 to 1023")
    one.page.keyboard.press("ArrowRight")
    one.page.locator(".hover", has_text=re.compile(r"^node \d+ · idle")).wait_for()
    one.page.keyboard.press("Escape")
    one.page.locator(".hover", has_text="all nodes").wait_for()
    one.see("a cell is 8 nodes")
    assert not one.complaints()
    one.view("nodes", "table")
    one.see("1–200 of 32,768 nodes")  # noqa: RUF001
    one.page.get_by_role("button", name="Next").click()
    one.see("node 200")
    one.view("nodes/777")
    one.page.locator(".badge", has_text="drained").wait_for()


def test_a_long_queue_says_why_with_numbers(huge: Server, tab: NewTab) -> None:
    one = tab().open(link_of(huge))
    one.view("jobs", "table")
    one.page.get_by_role("button", name="Waiting", exact=True).click()
    one.page.locator("tbody tr:first-child td.why", has_text="needs 32").wait_for()
    reasons = one.page.locator("tbody td.why").all_inner_texts()
    assert len(reasons) == 50
    assert all(re.match(r"needs 32,?768 nodes, 32,?76\d idle", reason) for reason in reasons), reasons
    assert re.search(r"; 49 jobs ahead of it", reasons[-1])


def test_nothing_has_lasted_less_than_no_time(huge: Server, tab: NewTab) -> None:
    """The browser's clock may be ahead of the scheduler's, or behind it."""
    one = tab()
    one.page.add_init_script("const now = Date.now; Date.now = () => now() - 90000;")
    one.open(link_of(huge))
    one.view("jobs", "table")
    assert not re.findall(r"-\d", " ".join(one.page.locator("tbody td.number").all_inner_texts()))


def test_a_plain_user_is_told_that_the_machine_has_changed_and_no_more(huge: Server, tab: NewTab) -> None:
    text = token(huge, "guest-without-account")
    link = http.client.HTTPConnection("127.0.0.1", huge.port, timeout=60)
    link.request("GET", "/v1/events", headers={"Authorization": f"Bearer {text}"})
    answer = link.getresponse()
    assert answer.readline() == b": listening\n"
    huge.submit("sleep 600", name="secret-work", program="secret", limit_s=600, nodes=1)
    lines = [answer.readline()]
    while lines[-1] != b"event: machine\n":
        lines.append(answer.readline())
    assert set(json.loads(answer.readline().removeprefix(b"data: "))) == {"at"}
    assert not [line for line in lines if b"secret" in line or b"job" in line]
    link.close()
    visitor = tab()
    sign_in(visitor, huge, text)
    running = visitor.page.locator(".tile", has_text="Running").locator(".value")
    running.get_by_text("5", exact=True).wait_for()
    huge.ask("POST", "/v1/jobs/secret-work/cancel")
    running.get_by_text("4", exact=True).wait_for()
    assert "secret" not in visitor.page.content()


def test_the_same_number_in_two_domains_opens_the_right_job(runs: tuple[Path, Path, Path], tab: NewTab) -> None:
    with viewed(runs[2]) as link:
        one = tab().open(link)
        seen = set()
        for domain in ("intrepid", "eureka"):
            one.view(f"jobs/{domain}%3A7", ".facts")
            assert one.page.get_by_role("heading", name=f"Job {domain}:7").count() == 1
            seen.add(one.page.locator("main").inner_text().replace(domain, ""))
        assert len(seen) == 2
        one.view("domains", "tbody tr")
        name = one.page.locator("tbody a").first.inner_text()
        one.page.locator("tbody a").first.click()
        one.page.get_by_role("heading", name=f"Job {name}").wait_for()
