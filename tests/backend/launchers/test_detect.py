"""What is found on a machine, with programs that answer like the real ones."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cohabit.backend.launchers.contract import Site
from cohabit.backend.launchers.registry import LAUNCHERS
from cohabit.backend.local.spec import site_of
from cohabit.launcher.acting import probe_for
from cohabit.launcher.probing import probe


def detect(framework: str, environment: dict[str, str]) -> Site:
    return site_of(probe(framework, environment), os.geteuid())


def program(path: Path, says: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    path.chmod(0o755)


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    for framework in LAUNCHERS:
        site = detect(framework, {"PATH": str(tmp_path)})
        assert (site.mpirun, site.mpi, site.spark) == ("", "", "")
        assert site.root == (os.geteuid() == 0)
        assert {"localhost", socket.gethostname()} <= site.here


def test_an_mpi_is_asked_for_its_name(tmp_path: Path) -> None:
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    program(tmp_path / "mpirun", "mpirun (Open MPI) 5.0.7")
    site = detect("mpi", path)
    assert (site.mpirun, site.mpi, site.mpi_version) == (str(tmp_path / "mpirun"), "openmpi", "5.0.7")
    assert detect("plain", path).mpirun == ""
    program(tmp_path / "mpirun", "I am something else")
    assert detect("mpi", path).mpi == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_the_owners_program_is_asked_as_its_owner() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        os.chmod(folder, 0o755)
        asked = Path(folder, "mpirun")
        asked.write_text('#!/bin/sh\necho "mpirun (Open MPI) $(id -u).$(id -g).$(id -G)"\n')
        asked.chmod(0o755)
        person = {"uid": 65534, "gid": 65533, "groups": [65533]}
        found = in_child(lambda: probe_for(person, (), "mpi", {"PATH": f"{folder}:/usr/bin:/bin"}))
    site = site_of(found, 65534)
    assert site.mpi_version == "65534.65533.65533"
    assert not site.root


def in_child(work: Callable[[], dict[str, str]]) -> dict[str, str]:
    """As the launcher does it: in a process that has no other children."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, json.dumps(work()).encode())
        os._exit(0)
    os.close(writes)
    with open(reads) as stream:
        return dict(json.loads(stream.read()))


def test_spark_by_its_home_by_path_and_behind_a_link(tmp_path: Path) -> None:
    home = tmp_path / "spark"
    program(home / "bin" / "spark-submit")
    assert detect("spark", {"PATH": str(home / "bin")}).spark == ""  # half a Spark is none
    program(home / "bin" / "spark-class")
    assert detect("spark", {"PATH": str(home / "bin")}).spark == str(home / "bin")
    assert detect("spark", {"PATH": str(tmp_path), "SPARK_HOME": str(home)}).spark == str(home / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "spark-submit").symlink_to(home / "bin" / "spark-submit")
    assert detect("spark", {"PATH": str(tmp_path / "links")}).spark == str(home / "bin")
    assert detect("spark", {"PATH": "", "SPARK_HOME": str(tmp_path / "none")}).spark == ""
