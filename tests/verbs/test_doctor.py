"""What the doctor says: every missing thing with what it is for and, where there is one, the command to type."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cohabit.app.doctor import health
from cohabit.app.doctor.health import install, look
from tests.cli.cli_calls import cohabit


@pytest.mark.parametrize(("manager", "package"), [("apt-get", "openmpi-bin"), ("dnf", "openmpi")])
def test_what_is_not_here_comes_with_the_command_of_this_system(
    manager: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / manager
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    found = {one.what: one for one in look()}
    sudo = "" if os.geteuid() == 0 else "sudo "
    assert (found["MPI"].found, found["MPI"].command) == ("not here", f"{sudo}{manager} install {package}")
    assert "--framework mpi" in found["MPI"].advice
    assert (found["Spark"].found, found["Spark"].command) == ("not here", "")
    assert "SPARK_HOME" in found["Spark"].advice
    program.unlink()
    assert install(("openmpi-bin", "openmpi")) == ""


def test_a_program_that_is_here_is_shown_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\n")
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert {one.what: one.found for one in look()}["Spark"] == str(submit)


@pytest.mark.parametrize(
    ("advice", "words", "command"),
    [
        ("mount -t resctrl resctrl /sys/fs/resctrl (as root)", "", "mount -t resctrl resctrl /sys/fs/resctrl"),
        ("mount -t resctrl resctrl /x, where it can", "where it can", "mount -t resctrl resctrl /x"),
        ("mount cgroup2 on /sys/fs/cgroup", "mount cgroup2 on /sys/fs/cgroup", ""),
        ("use valgrind", "use valgrind", ""),
        ("", "", ""),
    ],
)
def test_commands_are_told_apart_from_words(advice: str, words: str, command: str) -> None:
    sudo = "" if os.geteuid() == 0 or not command else "sudo "
    assert health._typed(advice) == (words, sudo + command)


def test_the_doctor_says_what_is_missing_and_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COHABIT_SERVER", str(tmp_path / "nothing.sock"))
    answer = cohabit("doctor")
    assert answer.code == 0, answer
    assert "Everything that is needed is here." in answer.out
    assert "a running scheduler" in answer.out
    assert "\n      cohabit up\n" in answer.out
    document = cohabit("doctor", "--json").document
    assert {"what", "state", "found", "advice", "command"} == set(document["findings"][0])
