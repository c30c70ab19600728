"""The test cluster itself: whoever started it may be killed, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.backend.gridengine.steering import until
from tests.support.gridengine_cluster import missing

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("gridengine")]
HOLD = """
import sys, time
from pathlib import Path
from tests.support.gridengine_cluster import running_gridengine
with running_gridengine(Path(sys.argv[1]), hosts=1, slots=2) as cluster:
    print("up", flush=True)
    time.sleep(600)
"""


def of_cluster(folder: Path) -> list[int]:
    """Living processes that belong to it."""
    mark, found = f"SGE_ROOT={folder / 'root'}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found += [int(entry.name)] if mark in (entry / "environ").read_bytes().split(b"\0") else []
            except OSError:
                continue
    return found


def test_nothing_is_left_of_a_cluster_whose_starter_was_killed() -> None:
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cohabit-gridengine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        starter = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE)
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        assert len(of_cluster(folder)) >= 2  # qmaster and execd
        starter.send_signal(signal.SIGKILL)
        starter.wait()
        until(lambda: not of_cluster(folder), lambda: str(of_cluster(folder)))
