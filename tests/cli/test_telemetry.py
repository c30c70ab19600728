"""`cohabit telemetry`: collecting on this very machine, stopping in the middle, importing, showing, and wrong calls."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli_calls import COMMAND, Answer, cohabit

BEGIN = 1_605_312_000
HEADER = "#Time,Time_usec,ProducerName,component_id,job_id,app_id,lstats.open#llite.fs,lstats.write_bytes#llite.fs\n"


def ldms(nodes: int = 3, minutes: int = 30) -> str:
    """Node k opens k + 1 files and writes 1000 (k + 1) bytes a second."""
    return HEADER + "".join(
        f"{BEGIN + 60 * minute}.000000,0,q{node},1,0,0,{60 * minute * (node + 1)},{60000 * minute * (node + 1)}\n"
        for minute in range(minutes) for node in range(nodes)
    )  # fmt: skip


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ldms")
    (folder / "lustre2_client.csv").write_text(ldms())
    answer = cohabit("telemetry", "import", "ldms", folder / "lustre2_client.csv", "--out", folder / "store")
    assert answer.code == 0, answer.err
    assert "imported 6 windows of 2 counters from 3 nodes (90 samples)" in answer.out
    return folder / "store"


def test_collecting_here(tmp_path: Path) -> None:
    options = ("--interval", "0.2s", "--duration", "1s", "--node", "me", "--json")
    answer = cohabit("telemetry", "collect", "--out", tmp_path / "store", *options)
    document = answer.document
    assert answer.code == 0
    assert document["complete"] is True
    assert document["samples"] == 6
    assert document["windows"] in (1, 2)  # a window may have ended meanwhile
    assert document["nodes"] == ["me"]
    for one in document["absent"]:
        assert f"cohabit: {one['source']} is left out: {one['reason']}\n" in answer.err
        assert answer.err.count(f"{one['source']} is left out") == 1
    shown = cohabit("telemetry", "show", tmp_path / "store", "--json").document
    assert shown["nodes"] == ["me"]
    assert shown["stale"] is None
    assert set(shown["counters"]) == set(document["counters"])
    features = shown["windows"][-1]["features"]["load.load_15m"]
    assert features["min"] <= features["mean"] <= features["max"]


def test_the_page_for_people(imported: Path) -> None:
    answer = cohabit("telemetry", "show", imported)
    assert "lustre2_client.open" in answer.out
    assert "bytes/s" in answer.out
    assert "3 nodes" in answer.out
    assert "stale: newest window ended" in answer.out
    one = cohabit("telemetry", "show", imported, "--counter", "lustre2_client.open", "--node", "q1")
    assert one.out.count("2020-11-14 00:") == 7  # six windows, and the heading
    assert "window ended" in one.out


def test_rates_over_nodes_and_of_one(imported: Path) -> None:
    everybody = cohabit("telemetry", "show", imported, "--json").document
    assert len(everybody["windows"]) == 6  # the hour before the newest holds all of them
    found = everybody["windows"][3]["features"]
    assert found["lustre2_client.open"] == {"min": 1, "max": 3, "mean": 2}
    assert found["lustre2_client.write_bytes"] == {"min": 1000, "max": 3000, "mean": 2000}
    second = cohabit(
        "telemetry", "show", imported, "--node", "q1", "--counter", "lustre2_client.open", "--json"
    ).document
    assert second["windows"][3]["features"] == {"lustre2_client.open": {"min": 2, "max": 2, "mean": 2}}


@pytest.mark.parametrize(
    ("options", "windows"),
    [
        (["--last", "10m"], 3),
        (["--since", "2020-11-14T00:10", "--until", "2020-11-14T00:20"], 2),
        (["--since", "2020-11-14T01:10+01:00", "--until", "2020-11-14T00:20"], 2),
        (["--since", "2020-11-14", "--until", "2020-11-14T00:05"], 1),
        (["--since", "2021-01-01", "--until", "2021-01-02"], 0),
        (["--node", "nobody"], 0),
        (["--counter", "disk"], 0),
    ],
)
def test_stretches_of_time(imported: Path, options: list[str], windows: int) -> None:
    answer = cohabit("telemetry", "show", imported, *options, "--json")
    assert len(answer.document["windows"]) == windows
    assert cohabit("telemetry", "show", imported, *options).code == 0


def test_broken_lines_are_counted_aloud_and_packed_files_read(tmp_path: Path) -> None:
    text = ldms().replace(f"{BEGIN + 300}.000000,0,q1", f"{BEGIN + 300}.000000,q1") + "cut"
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(text.encode()))
    call = (
        "telemetry",
        "import",
        "ldms",
        tmp_path / "data.csv.gz",
        "--out",
        tmp_path / "s",
        "--source",
        "lustre2_client",
    )
    answer = cohabit(*call)
    assert "1 lines of another length" in answer.err
    assert "1 lines cut short" in answer.err
    document = cohabit(*call, "--json").document
    assert document["defects"] == {"lines cut short": 1, "lines of another length": 1}
    assert len(cohabit("telemetry", "show", tmp_path / "s", "--json").document["windows"]) == 6  # twice is once


def refused(folder: Path, *arguments: str | Path) -> str:
    before = sorted(folder.rglob("*"))
    sentence = cohabit("telemetry", *arguments).sentence()
    assert sorted(folder.rglob("*")) == before
    return sentence


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["collect", "--out", "S", "--interval", "0"], "--interval is shorter"),
        (["collect", "--out", "S", "--interval", "soon"], "--interval: 'soon' is not a duration"),
        (["collect", "--out", "S", "--interval", "10m"], "--interval is longer than --window"),
        (["collect", "--out", "S", "--window", "45s"], "multiple of 30 s"),
        (["collect", "--out", "S", "--duration", "1s"], "--duration is shorter"),
        (["collect", "--out", "S", "--keep", "1s"], "--keep is shorter"),
        (["collect", "--out", "S", "--prometheus", "nowhere"], "nowhere: is not the URL of a server"),
        (["collect", "--out", "S", "--node", "", "--duration", "20s"], "--node"),
        (["collect", "--out", "F"], "cannot be written"),
        (["collect", "--out", "/proc/cohabit"], "cannot be written"),
        (["collect"], "--out"),
        (["show", "S"], "there is no telemetry store"),
        (["show", "F"], "there is no telemetry store"),
        (["show", "D", "--last", "1h", "--since", "2020-01-01"], "do not go together"),
        (["show", "D", "--since", "yesterday"], "'yesterday' is not a time"),
        (["show", "D", "--counter", "disk.raeds"], "did you mean 'disk.reads'?"),
        (["import", "ldms", "absent.csv", "--out", "S"], "absent.csv: no such file"),
        (["import", "ldms", "F", "--out", "S"], "does not begin with the header"),
        (["import", "ldms", "H", "--out", "S"], "has no row that can be used"),
        (["import", "ldms", "H", "--out", "S", "--source", "disc"], "there is no source 'disc'"),
        (["import", "ldm", "F", "--out", "S"], "did you mean 'ldms'?"),
        (["import", "prometheus", "ftp://x", "--out", "S"], "it looks like http://host:9090"),
        (["import", "prometheus", "http://h:9090", "--out", "S", "--step", "10m"], "--step"),
        (["import", "prometheus", "http://h:9090", "--out", "S", "--last", "1s"], "--last is shorter"),
    ],
)
def test_wrong_calls_are_one_sentence_and_leave_nothing(tmp_path: Path, call: list[str], words: str) -> None:
    if "prometheus" in call or "--prometheus" in call:
        pytest.importorskip("httpx", reason="httpx is not here")
    (tmp_path / "file").write_text("nothing\n")
    (tmp_path / "head.csv").write_text(HEADER)
    (tmp_path / "dir").mkdir()
    places = {"S": tmp_path / "new", "F": tmp_path / "file", "H": tmp_path / "head.csv", "D": tmp_path / "dir"}
    assert words in refused(tmp_path, *(places.get(word, word) for word in call))


def test_a_prometheus_that_is_not_there_is_a_failure_and_not_a_wrong_call(tmp_path: Path) -> None:
    pytest.importorskip("httpx", reason="httpx is not here")
    answer = cohabit("telemetry", "import", "prometheus", "http://127.0.0.1:1", "--out", tmp_path / "s", "--json")
    assert answer.code == 1
    assert "does not answer" in answer.err
    assert answer.document["problem"] in answer.err
    assert not (tmp_path / "s").exists()


def started(out: Path, *options: str) -> subprocess.Popen[str]:
    call = [COMMAND, "telemetry", "collect", "--out", str(out), "--interval", "0.1s", "--window", "30s", *options]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def stopped(process: subprocess.Popen[str], out: Path, how: int) -> Answer:
    """Once it has written its lock and taken some samples."""
    deadline = time.monotonic() + 60
    while not (out / ".writer").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(4)  # at ten samples a second
    os.killpg(process.pid, how)
    said, complained = process.communicate(timeout=60)
    return Answer(process.returncode, said, complained)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle_everything_so_far_is_kept(tmp_path: Path, how: int) -> None:
    out = tmp_path / "store"
    answer = stopped(started(out, "--json"), out, how)
    assert answer.code == 130
    assert "Traceback" not in answer.err
    assert answer.document["complete"] is False
    assert answer.document["samples"] >= 2
    assert f"stopped: {answer.document['windows']} window" in answer.err
    shown = cohabit("telemetry", "show", out, "--json").document
    assert len(shown["windows"]) == answer.document["windows"] >= 1


@pytest.mark.slow
def test_kill_9_leaves_a_store_that_can_be_read_and_written(tmp_path: Path) -> None:
    out = tmp_path / "store"
    assert stopped(started(out), out, signal.SIGKILL).code == -signal.SIGKILL
    assert cohabit("telemetry", "show", out).code == 0
    again = cohabit("telemetry", "collect", "--out", out, "--interval", "0.1s", "--duration", "0.3s", "--json")
    assert again.code == 0
    assert cohabit("telemetry", "show", out, "--json").document["windows"]


@pytest.mark.slow
def test_two_at_once_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "store"
    first = started(out)
    deadline = time.monotonic() + 60
    while not (out / ".writer").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    sentence = cohabit("telemetry", "collect", "--out", out, "--duration", "20s")
    os.killpg(first.pid, signal.SIGINT)
    first.communicate(timeout=60)
    assert sentence.code == 2
    assert "another process is writing it" in sentence.err
