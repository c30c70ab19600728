"""A place whose disk is full: new work is refused and says so, what runs goes on, and all is well with room again."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cohabit.app.serve.serving import ServeConfig
from cohabit.live.api.settings import ApiSettings
from tests.live.api.serving import Server

pytestmark = pytest.mark.system


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB for the whole place: journal, runs, output."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(place)], capture_output=True)
    if made.returncode:
        pytest.skip("needs root that may mount")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)  # a job that is just ending may still be there


def fill(disk: Path, leave: int) -> Path:
    """All but so many bytes."""
    there = os.statvfs(disk)
    filler = disk / "filler"
    with open(filler, "wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, there.f_bavail * there.f_frsize - leave)
    return filler


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("left", [600_000, 0])
def test_a_full_place_refuses_new_work_and_recovers(disk: Path, tmp_path: Path, left: int) -> None:
    mark = tmp_path / "mark"
    server = Server(ServeConfig(disk / "place", 2, api=ApiSettings(socket=tmp_path / "s")))
    try:
        running = server.submit(f"while ! test -e {mark}; do sleep 0.1; done; echo well")
        wait_until(lambda: server.show(running)["state"] == "running")
        held = server.submit("echo later", hold=True)
        filler = fill(disk, left)
        refused = server.ask("POST", "/v1/jobs", {"command": ["true"]})
        assert refused.status == 503, refused
        assert "nothing can be accepted now: the disk of" in refused.body["error"]
        assert "is full" in refused.body["error"]
        assert server.show(running)["state"] == "running"
        if left:  # what waits is not started either, and says why
            assert server.ask("POST", f"/v1/jobs/{held}/release").status == 200
            wait_until(lambda: "is full" in server.show(held)["why"])
            mark.touch()  # there is still room for an end
            assert server.over(running)["state"] == "done"
        filler.unlink()
        mark.touch()
        assert server.over(running)["state"] == "done"
        assert server.ask("GET", f"/v1/jobs/{running}/output").body == "well\n"
        if not left:
            assert server.ask("POST", f"/v1/jobs/{held}/release").status == 200
        assert server.over(held)["state"] == "done"
        assert server.over(server.submit("exit 0"))["state"] == "done"
    finally:
        mark.touch()
        server.close()
