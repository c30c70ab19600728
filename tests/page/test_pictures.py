"""The pictures of docs/page.md are taken here. `COHABIT_PICTURES=docs/pictures pytest tests/page/test_pictures.py`
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

from tests.page.browsing import PHONE, Tab
from tests.page.conftest import ROOT
from tests.page.test_finished import viewed

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
    target = Path(os.environ["COHABIT_PICTURES"]) if "COHABIT_PICTURES" in os.environ else tmp_path / "pictures"
    target.mkdir(exist_ok=True)
    sns, alone = simulated(tmp_path, "sns"), simulated(tmp_path, "ce-easy")
    with viewed(sns, alone) as link:
        one, phone = tab(color_scheme="light"), tab(color_scheme="dark", viewport=PHONE)
        one.open(link)
        one.page.locator(".chart").first.wait_for()
        shots = {"overview": one}
        take(one, target, "overview")
        for name, path, wanted in (
            ("node", "nodes/0", ".mask .ways .on"), ("job", "jobs/150", ".facts"), ("gantt", "gantt", "canvas"),
            ("compare", "compare", "canvas"), ("programs", "programs", ".chart"),
        ):  # fmt: skip
            one.view(path, wanted)
            take(one, target, name)
            shots[name] = one
        phone.open(link)
        take(phone, target, "phone")
        shots["phone"] = phone
    for name in shots:
        content = (target / f"page-{name}.png").read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        assert width >= PHONE["width"], name
        assert height > 500, name
        assert len(content) > 10_000, name  # not an empty sheet


def take(one: Tab, target: Path, name: str) -> None:
    """One picture, when the canvases have been drawn."""
    one.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    one.page.screenshot(path=str(target / f"page-{name}.png"))


def test_the_docs_show_pictures_that_are_there() -> None:
    text = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    wanted = re.findall(r"\]\((pictures/[^)]+)\)", text)
    assert len(wanted) >= 5
    assert not [name for name in wanted if not (ROOT / "docs" / name).is_file()]
