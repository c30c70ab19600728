"""The wheel alone: built, installed in an environment away from the project, and the tutorial typed there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from test_commands import DOCS, ROOT, blocks

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # a wheel is built and installed


def run(*command: str | Path, cwd: Path, timeout_s: float = 600, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=os.environ | environment, capture_output=True, text=True,
        timeout=timeout_s, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel. What it depends on is that of these tests, but no other file of the project is."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    tree.mkdir()
    for name in ("src", "packaging", "scenarios", "pyproject.toml", "README.md"):
        run("cp", "-r", ROOT / name, tree, cwd=folder)
    run("rm", "-rf", *tree.glob("src/*.egg-info"), cwd=folder)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--no-build-isolation", "-w", folder, tree, cwd=folder)  # fmt: skip
    (wheel,) = folder.glob("cohabit-*.whl")
    run("rm", "-rf", tree, cwd=folder)
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", environment, cwd=folder)
    run(environment / "bin" / "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", wheel, cwd=folder)
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its .pth files are not read
    return environment


def test_it_carries_what_an_installation_needs(installed: Path) -> None:
    share = installed / "share" / "cohabit"
    for name in ("packaging", "scenarios"):
        shipped = sorted(path.relative_to(share) for path in (share / name).rglob("*") if path.is_file())
        assert shipped == sorted(path.relative_to(ROOT) for path in (ROOT / name).rglob("*") if path.is_file())
    for path in (ROOT / "packaging").rglob("*"):
        assert os.access(path, os.X_OK) == os.access(share / path.relative_to(ROOT), os.X_OK)
    (package,) = installed.glob("lib/python3*/site-packages/cohabit")
    data = {path.relative_to(ROOT / "src/cohabit") for path in (ROOT / "src/cohabit").rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc")}  # fmt: skip
    assert len(data) > 30
    assert not [path for path in data if not (package / path).is_file()]


def test_the_tutorial_needs_nothing_else(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "scenarios").symlink_to(installed / "share" / "cohabit" / "scenarios")  # the page copies them
    lines = "\n".join(blocks(DOCS / "tutorial.md", "bash"))
    if os.geteuid() == 0:  # the page says so, too
        lines = lines.replace("cohabit up ", "cohabit up --root-jobs ")
    stop = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
    (tmp_path / "page.sh").write_text(f"set -euo pipefail\nset -m\n{stop}\n{lines}")
    path = f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}"
    where = run(installed / "bin" / "python", "-c", "import cohabit; print(cohabit.__file__)", cwd=tmp_path)
    assert where.startswith(str(installed))
    run("bash", "page.sh", cwd=tmp_path, PATH=path)
    assert (tmp_path / "rules" / "report.html").stat().st_size > 100_000


def test_the_demo_needs_neither_a_compiler_nor_tables(installed: Path, tmp_path: Path) -> None:
    """`make demo` installs neither numba nor polars. The part with real programs is imported, too."""
    code = (
        "import sys; sys.modules.update(numba=None, llvmlite=None, polars=None); "
        "import cohabit.app.simulate.demonstrating; "
        "from cohabit.cli.main import run; sys.argv = ['cohabit', 'demo', '--simulated']; run()"
    )
    said = run(installed / "bin" / "python", "-c", code, cwd=tmp_path, COHABIT_KERNELS="plain")
    assert "On 8 simulated nodes" in said
    assert (tmp_path / "out" / "demo" / "report.html").exists()
