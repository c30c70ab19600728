"""The lock pins everything pyproject.toml asks for, by hash, and nothing else decides what is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from source_tree import ROOT

LOCK = (ROOT / "requirements" / "locked.txt").read_text(encoding="utf-8")
PINS: dict[str, tuple[str, list[str]]] = {
    canonicalize_name(name): (version, re.findall(r"--hash=sha256:[0-9a-f]{64}", block))
    for name, version, block in re.findall(r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    .*\n)+)", LOCK, re.MULTILINE)
}


def test_all_that_is_asked_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        asked += extra
    for requirement in map(Requirement, asked):
        version, _ = PINS.get(canonicalize_name(requirement.name), ("missing", []))
        assert version in requirement.specifier, f"{requirement}: locked {version}; run scripts/lock"


def test_every_pin_has_its_hashes() -> None:
    assert len(PINS) == LOCK.count("==") >= 30
    assert not [name for name, (_, hashes) in PINS.items() if not hashes]


def test_compiled_packages_have_files_for_every_platform() -> None:
    """Four Pythons on two kinds of processor at least; `scripts/lock --verify` downloads and proves it."""
    compiled = ("llvmlite", "msgspec", "numba", "numpy", "scikit-learn", "scipy", "rustworkx")
    assert not [name for name in compiled if len(PINS[name][1]) < 8]


def test_the_demo_installs_a_part_of_the_lock() -> None:
    """As scripts/lock writes it; without the compiler and the tables, which are most of what there is to download."""
    made = subprocess.run([sys.executable, ROOT / "scripts" / "demo-lock"], capture_output=True, text=True, check=True)
    kept = (ROOT / "requirements" / "demo.txt").read_text(encoding="utf-8")
    assert kept == made.stdout, "run scripts/demo-lock > requirements/demo.txt"
    names = set(re.findall(r"^([a-z0-9-]+)==", kept, re.MULTILINE))
    assert {"numpy", "sqlalchemy", "plotly", "setuptools"} <= names
    assert not names & {"numba", "llvmlite", "polars", "pytest"}


def test_the_lock_has_no_options() -> None:
    lines = [line for line in LOCK.splitlines() if line.strip() and not line.startswith("    ")]
    assert not [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==\S+ \\", line)]
