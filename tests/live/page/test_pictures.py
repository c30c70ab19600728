"""The pictures of docs/page.md are taken here. `COHABIT_PICTURES=docs/pictures pytest tests/live/page/test_pictures.py`
writes them anew; without it they go to a folder of the test, and those in the docs must be there."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.page.browsing import PHONE, Tab
from tests.live.page.conftest import ROOT, link_of
from tests.live.page.stages import coupled, dividing, gating, half, shared_by_two, until
from tests.live.page.test_finished import viewed

pytestmark = pytest.mark.system
NewTab = Callable[..., Tab]
SCENARIO = """
seed = 7
[cluster]
nodes = 96
cores = 28
ways = 20
min_ways = 2
closids = 16
bandwidth_gbs = { 1 = 18.80, 2 = 37.17, 4 = 70.0, 8 = 104.0, 16 = 114.8, 28 = 118.26 }
[programs]
catalogue = "sns12"
[jobs]
generator = "mix"
jobs = 400
processes = [16, 28]
ratio = [0.4, 0.8]
[policy]
name = "NAME"
"""


def simulated(place: Path, policy: str) -> Path:
    """A run of 400 jobs on 96 nodes."""
    scenario = place / f"{policy}.toml"
    scenario.write_text(SCENARIO.replace("NAME", policy), encoding="utf-8")
    command = [sys.executable, "-m", "cohabit.cli", "simulate", str(scenario), "--out", str(place / policy)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return place / policy


def test_pictures_for_the_docs(tab: NewTab, tmp_path: Path) -> None:
    target = folder(tmp_path)
    sns, alone = simulated(tmp_path, "sns"), simulated(tmp_path, "ce-easy")
    with viewed(sns, alone) as link:
        one, phone = tab(color_scheme="light"), tab(color_scheme="dark", viewport=PHONE)
        one.open(link)
        one.page.locator(".chart").first.wait_for()
        shots = {"overview": one}
        take(one, target, "overview")
        for name, path, wanted in (
            ("job", "jobs/150", ".facts"), ("gantt", "gantt", "canvas"), ("compare", "compare", "canvas"),
            ("programs", "programs", ".chart"),
        ):  # fmt: skip
            one.view(path, wanted)
            take(one, target, name)
            shots[name] = one
        phone.open(link)
        take(phone, target, "phone")
        shots["phone"] = phone
    for name in shots:
        well_taken(target, name, 500)


@pytest.mark.wide  # the pages are tested one by one elsewhere
def test_pictures_of_living_schedulers(tab: NewTab, tmp_path: Path) -> None:
    """A promise kept by moving cache ways, a gate, and two domains."""
    target = folder(tmp_path)
    with dividing() as divided:
        shared_by_two(divided.server)
        one = tab(color_scheme="light").open(link_of(divided.server))
        one.view("jobs/slow", ".verdict")
        take(one, target, "promise", ".half:has(.verdict)")
        one.view("nodes/0", ".mask .ways .on")
        take(one, target, "ways", "main")
        one.close()
    with gating() as gated:
        gated.submit("sleep 600", name="nervous", program="exchange", workload_type="network", limit_s=600)
        one = tab(color_scheme="light").open(link_of(gated))
        one.view("predictions", "table")
        one.page.get_by_role("link", name="nervous").wait_for()
        take(one, target, "gate", "section:has-text('Variability now')")
        one.close()
    with coupled() as (alpha, beta):
        half(alpha, "first", "left", {"alpha": "left", "beta": "right"}, nodes=1)
        half(beta, "first", "right", {"alpha": "left", "beta": "right"}, nodes=1)
        until(lambda: alpha.show("left")["state"] == "running")
        half(alpha, "second", "third", {"alpha": "third", "beta": "fourth"}, nodes=1)
        one = tab(color_scheme="light").open(link_of(alpha))
        one.view("domains", "tbody tr")
        one.page.locator(".badge", has_text="holding").wait_for()
        one.page.locator(".badge", has_text="runs, bound").first.wait_for()
        take(one, target, "domains", "main > .view-domains")
        one.close()
    for name in ("promise", "ways", "gate", "domains"):
        well_taken(target, name, 150)


def folder(otherwise: Path) -> Path:
    """Where pictures go."""
    target = Path(os.environ["COHABIT_PICTURES"]) if "COHABIT_PICTURES" in os.environ else otherwise / "pictures"
    target.mkdir(exist_ok=True)
    return target


def well_taken(target: Path, name: str, least: int) -> None:
    """It is no empty sheet."""
    content = (target / f"page-{name}.png").read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    assert width >= PHONE["width"], name
    assert height > least, name
    assert len(content) > 10_000, name


def take(one: Tab, target: Path, name: str, part: str = "") -> None:
    """One picture of the page or of a part of it, when the canvases have been drawn."""
    one.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    path = str(target / f"page-{name}.png")
    if part:
        one.page.locator(part).first.screenshot(path=path)
    else:
        one.page.screenshot(path=path)


def test_the_docs_show_pictures_that_are_there() -> None:
    text = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    wanted = re.findall(r"\]\((pictures/[^)]+)\)", text)
    assert len(wanted) >= 5
    assert not [name for name in wanted if not (ROOT / "docs" / name).is_file()]
