"""What the page shows of living schedulers that share, promise, gate and couple, as a person sees it in the browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.live.api.serving import Server
from tests.live.page.browsing import PHONE, Tab
from tests.live.page.conftest import link_of
from tests.live.page.stages import COUNTERS, Divided, coupled, dividing, gating, half, shared_by_two, until

pytestmark = pytest.mark.system
NewTab = Callable[..., Tab]
MATES = {"alpha": "left", "beta": "right"}


def text_of(one: Tab, where: str) -> str:
    return " ".join(one.page.locator(where).inner_text().split())


def nobody_is_kept_out(new: NewTab, server: Server, *views: str) -> None:
    """axe has nothing serious to say, and a phone is wide enough."""
    one, phone = new(color_scheme="dark").open(link_of(server)), new(viewport=PHONE).open(link_of(server))
    for path in views:
        one.view(path)
        assert not one.complaints(), path
        phone.view(path)
        assert phone.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


# ---- a divided cache, bandwidth and a promise -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def divided() -> Iterator[Divided]:
    """Two jobs beside each other on one node."""
    with dividing() as one:
        shared_by_two(one.server)
        yield one


def drawn_ways(one: Tab, job: str) -> set[int]:
    """Which boxes of a job are filled."""
    lane = one.page.locator(".mask .lane", has=one.page.get_by_role("link", name=job, exact=True))
    boxes = lane.locator(".ways span")
    return {way for way in range(boxes.count()) if boxes.nth(way).get_attribute("class") == "on"}


def test_a_node_draws_the_masks_that_are_in_force(divided: Divided, tab: NewTab) -> None:
    """The boxes are the bits that stand in resctrl: the loop took two ways from the one and gave them to the other."""
    one = tab().open(link_of(divided.server))
    one.view("nodes/0", ".mask .ways .on")
    until(lambda: len(divided.ways_of("fast")) == 2)
    one.page.get_by_text("2 of 9", exact=True).wait_for()
    for job in ("slow", "fast"):
        assert drawn_ways(one, job) == divided.ways_of(job), job
    assert not drawn_ways(one, "slow") & drawn_ways(one, "fast")
    nobody_is_kept_out(tab, divided.server, "nodes/0", "jobs/slow", "predictions")


def test_a_node_shows_bandwidth_against_what_it_has(divided: Divided, tab: NewTab) -> None:
    one = tab().open(link_of(divided.server))
    one.view("nodes/0", ".chart")
    one.see("5.5 of 20 GB/s (28 %)")
    one.see("what the cores can draw")
    one.see("2 of 2 cores (100 %)")
    one.view("", "canvas")
    for name in ("Cache ways", "Bandwidth", "Cores"):
        one.page.get_by_role("button", name=name, exact=True).click()
        one.page.locator(f'.choice [aria-pressed=true]:text-is("{name}")').wait_for()
    one.page.locator("canvas").focus()
    one.page.keyboard.press("ArrowRight")
    said = text_of(one, "main .hover >> nth=0")
    assert said == "node 0 · shared · 2 of 2 cores · 2 of 9 ways · 5.5 of 20 GB/s · 2 jobs"


def test_who_slows_whom_among_the_jobs_that_run(divided: Divided, tab: NewTab) -> None:
    """Both jobs of the node are named with what each does to the other; the speed is that of the loop."""
    (found,) = divided.server.ask("GET", "/v1/page/predictions").body["together"]
    assert found["nodes"] == [0]
    assert {one["job"] for one in found["jobs"]} == {"slow", "fast"}
    for place, one in enumerate(found["jobs"]):
        assert one["slowed_percent"][place] is None
        assert one["slowed_percent"][1 - place] >= 0
        assert one["expected"] >= 1
        assert 0 < one["measured"]["last"] <= 2
    one = tab().open(link_of(divided.server))
    one.view("predictions", "caption:has-text('share nodes now')")
    rows = one.page.locator("table", has_text="Speed measured").locator("tbody tr")
    first, second = (row["job"] for row in found["jobs"])
    assert f"% by {second}" in rows.nth(0).inner_text()
    assert f"% by {first}" in rows.nth(1).inner_text()
    assert rows.count() == 2


def test_a_job_shows_what_it_was_promised_and_what_it_keeps(divided: Divided, tab: NewTab) -> None:
    one = tab().open(link_of(divided.server))
    one.view("jobs/slow", ".verdict")
    lanes = one.page.locator(".mask .lane").all_inner_texts()
    said = dict(lane.rsplit("\n", 1) for lane in lanes)
    assert said["Promised"] == "90 %"
    assert said["Measured recently"] == said["Measured on average"] == "80 %"
    assert text_of(one, ".verdict") == "10.0 % of its speed short of the promise."
    assert one.page.locator(".promise").count() == len(lanes)  # the promise is marked on each
    story = text_of(one, ".timeline")
    assert story.count("2 ways from job fast") == 1
    one.see("Beside it")
    one.view("jobs/fast", ".verdict")
    assert text_of(one, ".verdict") == "The promise is kept."
    assert "for job slow: 2 ways from job fast" in text_of(one, ".timeline")


def test_a_job_says_what_it_lacks_in_numbers(divided: Divided, tab: NewTab) -> None:
    divided.server.submit("exit 0", name="third", program="frugal")
    one = tab().open(link_of(divided.server))
    one.view("jobs/third", ".timeline")
    assert re.search(r"needs 1 core, 1\.5 GB/s and 1 ways? on one node; none has that free", text_of(one, ".timeline"))
    divided.server.ask("POST", "/v1/jobs/third/cancel")


# ---- a gate ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gated() -> Iterator[Server]:
    """One job waits for calmer weather, another does not care."""
    with gating() as one:
        one.submit("sleep 600", name="nervous", program="spread", workload_type="network", limit_s=600)
        one.submit("sleep 600", name="calm", program="add", workload_type="compute", limit_s=600)
        until(lambda: one.show("calm")["state"] == "running")
        yield one


def test_the_gate_shows_what_it_expects_and_the_counters_behind_it(gated: Server, tab: NewTab) -> None:
    one = tab().open(link_of(gated))
    one.view("predictions", "table")
    rows = {row.split("\t")[0]: row for row in one.page.locator("tbody tr").all_inner_texts()}
    assert "variation: jobs wait" in rows["network"]
    assert "no variation" in rows["compute"]
    assert re.search(r"\d %\s+\d\.\d\d.$", rows["network"])
    one.see("Jobs wait where variation is expected, at most 1,000 times each.")
    one.page.get_by_role("link", name="nervous").wait_for()
    assert one.page.get_by_text("looks at it").count() >= 1
    counters = one.page.locator("section", has_text="Counters behind it").locator("tbody tr").all_inner_texts()
    assert len(counters) >= COUNTERS
    assert all(re.match(r"\S+\.\S+\t", row) for row in counters), counters
    assert "looks at it" in counters[0]  # those the model looks at come first
    nobody_is_kept_out(tab, gated, "predictions", "jobs/nervous")


def test_a_job_kept_back_says_so_with_numbers(gated: Server, tab: NewTab) -> None:
    one = tab().open(link_of(gated))
    one.view("jobs/nervous", ".timeline")
    assert re.search(
        r"would probably vary now \(variation, p = [01]\.\d\d\); passed over \d+ of at most 1000 times",
        text_of(one, ".timeline"),
    )
    assert "calm" not in text_of(one, ".timeline")
    one.view("jobs/calm")
    one.page.locator(".badge", has_text=re.compile("^running$")).wait_for()


# ---- reasons over time ----------------------------------------------------------------------------------------------


def test_every_reason_is_kept_with_its_numbers(server: Server, tab: NewTab) -> None:
    server.submit("sleep 600", name="blocker", nodes=2, limit_s=600)
    until(lambda: server.show("blocker")["state"] == "running")
    server.submit("exit 0", name="patient", nodes=2)
    one = tab().open(link_of(server))
    one.view("jobs/patient", ".timeline")
    one.see("needs 2 nodes, 0 idle (1 job running)")
    server.ask("POST", "/v1/jobs/patient/hold")
    one.see("held")
    server.ask("POST", "/v1/jobs/patient/release")
    server.ask("POST", "/v1/jobs/blocker/cancel")
    one.page.locator(".badge", has_text=re.compile("^done$")).wait_for()
    story = text_of(one, ".timeline")
    assert story.index("needs 2 nodes, 0 idle") < story.index("released")
    assert one.page.locator(".timeline .when").count() >= 3
    assert "now" not in one.page.locator(".timeline .when").all_inner_texts()  # it is over


# ---- two domains ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    with coupled() as both:
        yield both


def test_two_domains_show_holds_leases_and_mates(pair: tuple[Server, Server], tab: NewTab) -> None:
    alpha, beta = pair
    half(alpha, "pair", "left", MATES, nodes=2)
    until(lambda: alpha.ask("GET", "/v1/page/jobs/left").body["placement"])
    one = tab().open(link_of(alpha))
    one.view("domains", "tbody tr")
    one.page.locator("tbody .badge", has_text=re.compile("^holding$")).wait_for()
    row = text_of(one, "tbody tr")
    assert re.match(r"pair left holding waits for its mates 2 nodes for [\d.]+ s . . 0 beta: right not submitted", row)
    one.view("jobs/left", ".timeline")
    one.see("Its share of nodes")
    assert re.search(r"it keeps 2 nodes and waits for its mates for [\d.]+ s: beta:right is not submitted yet",
                     text_of(one, ".timeline"))  # fmt: skip
    nobody_is_kept_out(tab, alpha, "domains", "jobs/left")

    half(beta, "pair", "right", MATES, nodes=1)
    until(lambda: alpha.show("left")["state"] == beta.show("right")["state"] == "running")
    other = tab().open(link_of(beta))
    for side, mate in ((one, "beta: right"), (other, "alpha: left")):
        side.view("domains", "tbody tr")
        side.page.locator("tbody .badge", has_text=re.compile("^running$")).wait_for()
        side.see("runs, bound to its mates")
        side.see(mate)
        side.page.get_by_text(re.compile(r"^ends in \d")).wait_for()  # its lease
    one.view("jobs/left")
    one.page.locator(".badge", has_text=re.compile("^running$")).wait_for()
    one.see("beta: right")
