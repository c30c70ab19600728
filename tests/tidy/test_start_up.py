"""`cohabit --help` answers at once: nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from source_tree import PACKAGE

HEAVY = (
    "numpy",
    "numba",
    "polars",
    "plotly",
    "sklearn",
    "httpx",
    "scipy",
    "distributed",
    "pandas",
    "sqlalchemy",
    "psycopg",
    "skops",
    "rustworkx",
)
HELP = f"""
import sys
from cohabit.cli.main import run
sys.argv = ["cohabit", "--help"]
try:
    run()
finally:
    print("HEAVY:", *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""

pytestmark = pytest.mark.skipif(
    not (PACKAGE / "cli" / "main.py").exists(), reason="there is no command line yet: src/cohabit/cli/main.py"
)


def ask_for_help(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_help_imports_nothing_heavy() -> None:
    done = ask_for_help(HELP)
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout
    assert done.stderr.splitlines()[-1].split() == ["HEAVY:"]


@pytest.mark.timing
def test_help_is_quick() -> None:
    """Under 0.3 s of wall time with warm caches. The best of up to twenty: what a busy neighbour adds is not ours."""
    code = 'import sys; from cohabit.cli.main import run; sys.argv = ["cohabit", "--help"]; run()'
    took: list[float] = []
    while len(took) < 20 and min(took, default=1.0) >= 0.3:
        begun = time.perf_counter()
        assert ask_for_help(code).returncode == 0
        took.append(time.perf_counter() - begun)
    assert min(took) < 0.3, took


def test_kept_machine_code_is_read_without_all_that_numba_can_compile(tmp_path: Path) -> None:
    """Loading that takes a fifth of a second of every start; what is read can still be compiled with."""
    code = """
import sys
import numpy as np
from numba import njit
from cohabit.core import ladder
rungs, jobs = ladder.make(8), np.ones((2, 8), np.int64)
ladder.insert(*rungs, jobs, np.zeros(8), np.arange(8), 3)
print(ladder.all_rows(rungs).tolist(), "numba.np.linalg" in sys.modules)
if "compile" in sys.argv:
    rows = njit(lambda items, info, meta, out: ladder.rows_in_order(items, info, meta, out) + 1)
    print(rows(*rungs, np.empty(8, np.int64)))
"""
    env = os.environ | {"COHABIT_CACHE": str(tmp_path)}
    for more, said in ((), "[3] True"), ((), "[3] False"), (("compile",), "[3] False\n2"):
        done = subprocess.run(
            [sys.executable, "-c", code, *more], capture_output=True, text=True, timeout=300, check=False, env=env
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == said
