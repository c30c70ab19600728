"""What users have used is counted for every order that looks at it, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cohabit.policy.order import multifactor
from cohabit.policy.registry import ORDERS, looks_at_usage
from tests.cli.cli_calls import cohabit

HEADER = "import numpy as np\n\n"
DIRECTLY = "def scores(jobs, rows, now_us):\n    return jobs.usage_share[jobs.user[rows]]\n"
BY_A_HELPER = (
    "def of_user(jobs, rows):\n    return [jobs.usage[user] for user in jobs.user[rows]]\n\n"
    "def scores(jobs, rows, now_us):\n    return np.array(of_user(jobs, rows))\n"
)
BY_ITS_NAME = "def scores(jobs, rows, now_us):\n    return getattr(jobs, 'usage_share')[jobs.user[rows]]\n"
NOT_AT_ALL = "def scores(jobs, rows, now_us):\n    return jobs.submit_us[rows]  # no usage\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Few users, a busy machine."""
    rng, lines = np.random.default_rng(5), ["; MaxNodes: 16\n; MaxProcs: 16\n"]
    for job in range(400):
        run, size, user = int(rng.integers(60, 4000)), int(rng.choice([1, 2, 4, 8])), int(rng.geometric(0.4))
        lines.append(f"{job + 1} {job * 120} -1 {run} {size} -1 -1 {size} {run} -1 1 {user} -1 -1 -1 -1 -1 -1\n")
    path = tmp_path / "users.swf"
    path.write_text("".join(lines))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("backfill", ["easy", "conservative", "2"])
def test_a_copy_of_a_built_in_order_decides_as_it_does(backfill: str, trace: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(Path(multifactor.__file__).read_text())
    hashes = {
        order: cohabit("simulate", trace, "--backfill", backfill, "--order", order, "--json").document["journal_hash"]
        for order in ("multifactor", str(own), "age")
    }
    assert hashes[str(own)] == hashes["multifactor"] != hashes["age"]


@pytest.mark.parametrize(
    ("text", "looks"), [(DIRECTLY, True), (BY_A_HELPER, True), (BY_ITS_NAME, True), (NOT_AT_ALL, False)]
)
def test_looking_at_it_is_found_out(text: str, looks: bool, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(HEADER + text)
    assert looks_at_usage(str(path)) == looks


def test_one_built_in_order_looks_at_it() -> None:
    assert [name for name in ORDERS if looks_at_usage(name)] == ["multifactor"]
