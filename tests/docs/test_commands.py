"""What the pages tell a newcomer to type is typed: every `bash` block runs, in order, beside scenarios and examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "researchers.md", DOCS / "gallery.md", *sorted((DOCS / "papers").glob("*.md"))]  # test_wheel: tutorial


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    """A line that fails fails the page; what it left behind is stopped."""
    for name in ("scenarios", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    lines = "\n".join(blocks(page, "bash"))
    if os.geteuid() == 0:  # the page says so, too
        lines = lines.replace("cohabit up ", "cohabit up --root-jobs ")
    assert lines, "the page has nothing to type"
    script = tmp_path / "page.sh"
    script.write_text(f"set -euo pipefail\nset -m\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{lines}")
    paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", str(script)], cwd=tmp_path, env=os.environ | {"PATH": paths}, capture_output=True, text=True,
        timeout=600, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.slow
def test_the_python_page_runs(tmp_path: Path) -> None:
    (lines,) = blocks(DOCS / "python.md", "python")
    done = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run.html").stat().st_size > 100_000


def test_the_order_of_the_guide_is_the_one_of_the_examples() -> None:
    """The guide leaves out types and the long words; what is computed is the same."""
    (shown,) = blocks(DOCS / "researchers.md", "python")
    own = (ROOT / "examples" / "orders" / "short_and_patient.py").read_text()
    for line in shown.splitlines():
        if line.startswith(("    asked_s", "    waited_s", "    return", "CHANGING")):
            assert line in own


@pytest.mark.slow
def test_the_site_builds_whole_and_without_a_network(tmp_path: Path) -> None:
    """mkdocs in strict mode refuses a missing page or a dead link; no page loads anything from elsewhere."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    commands = (tmp_path / "site" / "reference" / "commands.html").read_text()
    assert "cohabit simulate" in commands
    assert "cohabit submit" in commands
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", page.read_text()), (
            page.name
        )
