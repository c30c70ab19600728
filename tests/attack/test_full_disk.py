"""A user fills the disk of the journal with the output of a job: others can still cancel, and ends are recorded.

On a real small file system. What is submitted meanwhile is refused with a sentence, and taken when there is room again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.accounts import Account
from tests.attack.controllers import RootController, controller

MIB = 2**20
SIZE = 48 * MIB
FILLING = {
    "until nothing fits": "cat /dev/zero; exec sleep 600",
    "without end": "exec python3 -c 'import os\nblock = bytes(4096)\nwhile True:\n try: os.write(1, block)\n"
    " except OSError: pass'",  # faster than anybody who looks for room
}


@pytest.fixture
def small() -> Iterator[Path]:
    """A folder whose place is a file system of its own."""
    made = Path(tempfile.mkdtemp(prefix="cohabit-attack-"))
    made.chmod(0o711)
    place = made / "place"
    place.mkdir(0o755)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "none", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        shutil.rmtree(made)
        pytest.skip("needs root that may mount")
    yield made
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    shutil.rmtree(made)


def left(place: Path) -> int:
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def state(one: RootController, job: str) -> str:
    return str(one.ask(None, "GET", f"/v1/jobs/{job}").body["state"])


@pytest.mark.parametrize("how", list(FILLING))
def test_a_full_disk_stops_no_cancel_and_no_end(small: Path, ann: Account, bob: Account, how: str) -> None:
    mark = small / "mark"
    with controller(small) as up:
        ends = up.submit(bob, f"while ! test -e {mark}; do sleep 0.1; done; exit 3", name="ends")
        waits = up.submit(bob, "exit 0", name="waits", hold=True)
        up.until(lambda: state(up, ends) == "running")
        fills = up.submit(ann, FILLING[how], name="fills")
        up.until(lambda: left(up.place) == 0)

        refused = up.ask(bob, "POST", "/v1/jobs", {"command": ["/bin/true"]})
        assert (refused.status, refused.body["fix"]) == (503, "try again when there is room")
        assert "nothing can be accepted now: the disk of" in refused.body["error"]

        assert up.ask(bob, "POST", f"/v1/jobs/{waits}/cancel").status == 200
        assert state(up, waits) == "cancelled"
        assert up.ask(None, "POST", "/v1/nodes/0/drain").status == 200
        assert up.ask(None, "POST", "/v1/nodes/0/resume").status == 200
        assert up.ask(ann, "POST", f"/v1/jobs/{fills}/cancel").status == 200
        assert up.over(fills)["state"] == "cancelled"
        mark.touch()  # the output of ann's job is still there
        assert (up.over(ends)["state"], up.over(ends)["exit_status"]) == ("failed", 3)
        assert up.ask(bob, "POST", "/v1/jobs", {"command": ["/bin/true"]}).status == 503

        (up.kill if how == "without end" else up.stop)()  # and a restart on the full disk
        up.start()
        assert [state(up, job) for job in (ends, waits, fills)] == ["failed", "cancelled", "cancelled"]

        for file in (up.place / "output").rglob("*.out"):
            file.unlink()
        assert up.over(up.submit(bob, "exit 0"))["state"] == "done"
        up.until(lambda: reserve_of(up.place) == SIZE // 40)


def reserve_of(place: Path) -> int:
    """How much is kept, wherever the journal is."""
    return sum(file.stat().st_size for file in place.rglob("*.reserve"))
