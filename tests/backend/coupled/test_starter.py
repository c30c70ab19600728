"""Our starter in a queue of Grid Engine: jobs begin as they do without it, those with mates when they are told to."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from cohabit.app.steer.threshold import OF_A_RUN
from cohabit.live.peers.keys import read_keys
from cohabit.live.peers.threshold_door import Hello
from tests.backend.coupled.conftest import packaged
from tests.backend.gridengine.steering import jobs_of
from tests.backend.slurm.steering import until
from tests.support.gridengine_cluster import GridEngineCluster

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("coupled-managers")]
USER = "nobody"
WITH_INTERPRETER = """#!/bin/bash -l
echo "script $(id -un) <$1> <$2> [$COHABIT_THRESHOLD] $(shopt -q login_shell && echo login)" >> {out}
"""
WITHOUT = """echo "no interpreter: $(tr '\\0' ' ' < /proc/$$/cmdline | sed 's/[^ ]*job_scripts.*//')" >> {out}\n"""


class Said:
    """A threshold that lets everybody pass, and notes who came."""

    def __init__(self, folder: Path) -> None:
        self.hellos: list[Hello] = []
        path, hellos = folder / "passing.sock", self.hellos
        path.unlink(missing_ok=True)

        class Pass(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                hellos.append(msgspec.json.decode(self.rfile.readline(), type=Hello))
                self.wfile.write(b"wait\nopen\n")

        self.server = socketserver.ThreadingUnixStreamServer(str(path), Pass)
        path.chmod(0o666)
        self.address = f"unix:{path}"


@contextmanager
def passing(folder: Path) -> Iterator[Said]:
    said = Said(folder)
    thread = threading.Thread(target=said.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield said
    finally:
        said.server.shutdown()
        said.server.server_close()


def begin_all(ge: GridEngineCluster, folder: Path, *options: str) -> str:
    """Jobs of every kind under both modes, one after the other; what they said."""
    out = folder / "said"
    out.write_text("")
    out.chmod(0o666)
    scripts = folder / "with.sh", folder / "without.sh"
    for path, text in zip(scripts, (WITH_INTERPRETER, WITHOUT), strict=True):
        path.write_text(text.format(out=out))
        path.chmod(0o755)
    note = f"echo $0 $1 >> {out}"
    kinds = (
        (str(scripts[0]), "a b", "c"), (str(scripts[1]),), ("-b", "y", "echo", "$0 and", '"a  b"', ">>", str(out)),
        ("-b", "y", "-shell", "n", "/bin/sh", "-c", note, "x y", "z"),
    )  # fmt: skip
    for mode in ("posix_compliant", "unix_behavior"):
        ge.run("qconf", "-mattr", "queue", "shell_start_mode", mode, "all.q")
        for kind in kinds:
            ge.run("qsub", "-wd", "/tmp", "-o", "/dev/null", "-j", "y", *options, *kind, user=USER)
            until(lambda: not jobs_of(ge), 60, lambda: ge.run("qstat", "-u", "*"))
    return out.read_text()


def test_jobs_begin_as_without_it(gridengine: GridEngineCluster, threshold: Path, folder: Path) -> None:
    (gridengine.folder / "lease").unlink(missing_ok=True)  # nobody steers
    key = gridengine.folder / "threshold.key"
    with_it = begin_all(gridengine, folder)
    with passing(folder) as said:
        with_mates = begin_all(gridengine, folder, "-v", f"COHABIT_THRESHOLD={said.address}")
    try:
        for setting in ("starter_method", "prolog"):
            gridengine.run("qconf", "-mattr", "queue", setting, "NONE", "all.q")
        without = begin_all(gridengine, folder)
    finally:
        starter, prolog = (packaged(folder, f"gridengine/{name}", key) for name in ("starter.sh", "prolog.sh"))
        gridengine.run("qconf", "-mattr", "queue", "starter_method", str(starter), "all.q")
        gridengine.run("qconf", "-mattr", "queue", "prolog", f"root@{prolog}", "all.q")
    assert len(without.splitlines()) == 8, without
    assert with_it == without
    assert with_mates == without
    keys = read_keys(key)
    assert len(said.hellos) == 8
    assert all(one.token == keys.seal(OF_A_RUN + one.job.encode()) for one in said.hellos), "every run has its token"
