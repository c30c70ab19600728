"""`cohabit serve` as a person calls it: one machine, real programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SITE = """
nodes = 2
[[job]]
name = "good"
command = ["sh", "-c", "echo $COHABIT_JOB"]
stdout = "good.out"
[[job]]
name = "bad"
command = ["sh", "-c", "exit 3"]
[[job]]
name = "long"
command = ["sleep", "SECONDS"]
"""


AS_ROOT = ("--as-root",) if os.geteuid() == 0 else ()  # jobs of the file write into folders that pytest closes


def cohabit(*words: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cohabit.cli", *words],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
def test_jobs_of_a_site_file_run_once(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(SITE.replace("SECONDS", "0.1"))
    for _ in range(2):
        process = cohabit("serve", "site.toml", "--until-idle", "--json", *AS_ROOT, cwd=tmp_path)
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert json.loads(out) == {"domain": None, "jobs": {"good": "done", "bad": "failed", "long": "done"}}
    assert (tmp_path / "good.out").read_text() == "good\n"
    out, err = (process := cohabit("replay", "site.toml", "--verify", cwd=tmp_path)).communicate()
    assert (process.returncode, "identical" in out) == (0, True), err


@pytest.mark.slow
def test_jobs_outlive_a_server_that_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(SITE.replace("SECONDS", "3"))
    first = cohabit("serve", "site.toml", *AS_ROOT, cwd=tmp_path)
    runs = tmp_path / "state" / "runs"
    while not (runs / "long.1" / "started").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    began = int(json.loads((runs / "long.1" / "started").read_text())["pid"])
    first.send_signal(signal.SIGTERM)
    out, err = first.communicate(timeout=30)
    assert (first.returncode, "long: running" in out) == (0, True), err
    os.kill(began, 0)  # it runs on
    out, err = cohabit("serve", "site.toml", "--until-idle", "--json", *AS_ROOT, cwd=tmp_path).communicate(timeout=60)
    assert json.loads(out)["jobs"]["long"] == "done", err


def test_bad_calls_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("nods = 1\n")
    for words in (("serve", "site.toml"), ("serve", "nowhere.toml"), ("peer-key", "site.toml")):
        out, err = (process := cohabit(*words, cwd=tmp_path)).communicate()
        assert (process.returncode, out, err.count("\n")) == (2, "", 1), err


def test_a_new_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    out, err = (process := cohabit("peer-key", "pair.key", "--json", cwd=tmp_path)).communicate()
    assert (process.returncode, json.loads(out)) == (0, {"file": "pair.key"}), err
    assert (tmp_path / "pair.key").stat().st_mode & 0o777 == 0o600
