"""How Hypothesis plays in all tests: by reasons, not by luck.

Whether a change may land must not depend on which examples were drawn today, nor on how busy the machine was: the same
examples every time, and no opinion about the clock. COHABIT_EXPLORE=1 draws others (pytest --hypothesis-seed=N repeats
them): for whoever looks for new faults.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "cohabit", deadline=None, derandomize=not os.environ.get("COHABIT_EXPLORE"), print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example,
    ],
)  # fmt: skip
settings.load_profile("cohabit")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `make test &` in a script: commands would ignore Ctrl-C, too
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).resolve().parent
# Of the tests that steer a real Slurm or Grid Engine `make test` has these; the others are for `make test-all`.
CLUSTER_SHORT = {
    "backend/slurm/test_steering.py", "backend/slurm/test_deaths.py", "backend/slurm/test_shadow.py",
    "attack/test_slurm_submission.py",
}  # fmt: skip
FIRST = ("cluster", "system", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests go to one worker, which makes its fixtures once; files that take long come first."""
    ranks: dict[str, list[bool]] = {}
    for item in items:
        file = item.path.relative_to(HERE).as_posix()
        if item.get_closest_marker("cluster") and file not in CLUSTER_SHORT:
            item.add_marker(pytest.mark.wide)
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(file))
        rank = [item.get_closest_marker(name) is None for name in FIRST]
        ranks[file] = min(ranks.get(file, rank), rank)
    items.sort(key=lambda item: ranks[item.path.relative_to(HERE).as_posix()])
