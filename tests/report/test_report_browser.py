"""A real browser opens the page from disk and draws every picture."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cohabit.model.records import RunTable
from cohabit.report.html import write_report

pytestmark = pytest.mark.system
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium found: apt-get install chromium")


def drawn_page(path: Path, profile: Path) -> str:
    """The page as it stands after its scripts ran."""
    done = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--window-size=1280,3000",
            "--virtual-time-budget=10000", "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def check_drawn(page: str) -> None:
    states = re.findall(r'<div class="plot[^>]*>', page)
    assert states
    visible = [state for state in states if 'data-drawn="yes"' in state]
    assert not [state for state in states if 'data-drawn="failed"' in state]
    assert "could not be drawn" not in page.split('id="figures"')[0]
    assert page.count('<svg class="main-svg"') >= len(visible) > 4


@needs_browser
def test_a_small_run_is_drawn(small_run: RunTable, tmp_path: Path) -> None:
    write_report([small_run], tmp_path / "report.html", "Small")
    page = drawn_page(tmp_path / "report.html", tmp_path / "profile")
    check_drawn(page)
    assert page.count('class="point"') >= 198  # one bar per job at least


@needs_browser
def test_a_crowded_run_and_a_comparison_are_drawn(
    crowded_run: RunTable, policy_runs: list[RunTable], tmp_path: Path
) -> None:
    write_report([crowded_run], tmp_path / "crowded.html", "Crowded")
    page = drawn_page(tmp_path / "crowded.html", tmp_path / "profile")
    check_drawn(page)
    assert "heatmaplayer" in page
    write_report(policy_runs, tmp_path / "policies.html", "Policies")
    check_drawn(drawn_page(tmp_path / "policies.html", tmp_path / "profile"))
