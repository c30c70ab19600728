"""What people write and read: spans, scripts, memory, arrays, mates, addresses. No scheduler is needed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cohabit.app.client import submission as making
from cohabit.app.client.connection import Address, Connection, find_server, find_token
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.site_file import read_site
from cohabit.backend.launchers.registry import program_of
from cohabit.cli.job_words import moment, numbers, outcome, span
from cohabit.cli.jobs import _lines
from cohabit.cli.queue import row_of
from cohabit.cli.report import _show
from cohabit.cli.up_site import site_file
from cohabit.model.errors import InputError
from tests.cli.cli_calls import cohabit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (-0.2, "0 s"), (0.44, "0.44 s"), (42, "42 s"), (125, "2 min 5 s"),
        (2 * 86400 + 4 * 3600 + 9, "2 d 4 h"),
    ],
)  # fmt: skip
def test_spans(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


def test_numbers_and_moments() -> None:
    assert numbers([3, 0, 1, 2, 8]) == "0-3,8"
    assert numbers([]) == "-"
    assert moment(None) == "-"
    assert len(moment(1_000_000.0, 1_000_100.0)) == len("00:00:00")
    assert moment(1_000_000.0, 5_000_000.0).startswith("1970-01-12")


def test_how_a_job_ended() -> None:
    job = {"state": "failed", "exit_status": 3, "exit_signal": None, "limit_s": 60.0}
    assert outcome(job) == "failed: exit status 3"
    assert outcome(job | {"exit_signal": 9}) == "failed: signal 9"
    assert outcome(job | {"state": "killed"}) == "killed: at its limit of 1 min"
    assert outcome(job | {"state": "done"}) == "done"


VIEW: dict[str, Any] = {
    "job": "4", "name": "4", "user": "ann", "program": "true", "command": ["/bin/true"], "state": "done", "why": "",
    "processes": 1, "nodes": [0], "cores": 1, "scale": 1, "limit_s": 60.0, "submitted_at": 1e9, "started_at": 1e9 + 2,
    "ended_at": 1e9 + 3, "attempt": 1, "exit_status": 0, "exit_signal": None, "stdout": "/out/4", "stderr": "/out/4",
    "array": None, "after": [], "predicted_slowdown": 1.0, "actual_slowdown": None,
    "slowdown_why": "too short to tell", "whole_nodes": 0,
}  # fmt: skip
WAITS = {"state": "queued", "started_at": None, "ended_at": None, "nodes": [], "cores": 0}
NEVER_RAN = WAITS | {"state": "cancelled", "ended_at": 1e9 + 3, "slowdown_why": "", "predicted_slowdown": None}


@pytest.mark.parametrize(
    ("changed", "label", "text"),
    [
        ({}, "slowed by", "0 % expected, too short to tell"),
        ({"actual_slowdown": 1.25, "slowdown_why": ""}, "slowed by", "0 % expected, 25 % measured"),
        ({}, "ran on", "1 core on node 0"),
        ({"nodes": [0, 1], "cores": 2}, "ran on", "2 cores on nodes 0-1"),
        ({"whole_nodes": 3}, "asks for", "3 whole nodes for up to 1 min"),
        ({"array": "1-6"} | WAITS, "array", "members 1-6"),
        ({"array": "4", "job": "4_2"}, "array", "member of 4"),
        (NEVER_RAN, "output", None),  # there is no such file
        (WAITS, "output", "/out/4"),
    ],
)
def test_show_says_what_is_so(changed: dict[str, Any], label: str, text: str | None) -> None:
    assert dict(_lines(VIEW | changed)).get(label) == text


def test_show_says_how_long_a_job_waits_but_not_an_array() -> None:
    assert dict(_lines(VIEW))["submitted"].endswith(", waited 2 s")
    assert ", waiting for " in dict(_lines(VIEW | WAITS))["submitted"]
    assert "wait" not in dict(_lines(VIEW | {"array": "1-6"}))["submitted"]


def test_queue_does_not_call_whole_nodes_cores() -> None:
    assert row_of(VIEW | WAITS | {"whole_nodes": 3}, 2e9)[4] == "-"
    assert row_of(VIEW | WAITS, 2e9)[4] == "1"


def test_report_shows_short_jobs_and_does_not_call_noise_a_slowdown(capsys: pytest.CaptureFixture[str]) -> None:
    faster = {"job": "5", "actual_slowdown": 0.95, "slowdown_why": "", "cores": 7200}
    _show([VIEW, VIEW | faster])
    *_, first, second, _, total = capsys.readouterr().out.splitlines()
    assert first.split()[-6:] == ["too", "short", "to", "tell", "0", "%"]
    assert first.split()[-7] == "0.0003"
    assert second.split()[-5:] == ["2.00", "-5", "%", "0", "%"]
    assert total == "2 jobs: 2 done; 2.00 core-hours"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/bin/true"], "true"), (["./solve/", "x"], "solve"), (["mpirun", "./ring"], "ring"), (["/"], "/"),
        (["mpirun", "-n", "2", "./ring"], "mpirun"), (["a\nb"], "a b"), (["a" * 300], "a" * 255),
    ],
)  # fmt: skip
def test_the_program_of_a_command(command: list[str], name: str) -> None:
    assert program_of(command) == name


@pytest.mark.parametrize(("text", "mb"), [("512", 512), ("4G", 4096), ("1.5g", 1536), ("100K", 1), ("2GiB", 2048)])
def test_memory(text: str, mb: int) -> None:
    assert making.memory_mb(text) == mb


@pytest.mark.parametrize("text", ["", "much", "-1", "4X"])
def test_memory_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match="not an amount of memory"):
        making.memory_mb(text)


@pytest.mark.parametrize("text", ["5-1", "1", "a-b", "1-3%0", "1-3%"])
def test_arrays_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="not a range"):
        making.check_array(text)


def test_options_stand_before_the_first_command_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\n# mine\n#COHABIT --limit 2h -n 3  # why\n\n#COHABITED\necho\n#COHABIT --hold\n")
    assert making.script_options(path) == [(3, ["--limit", "2h", "-n", "3"])]
    path.write_text("#COHABIT --name 'open\n")
    with pytest.raises(InputError, match="line 1"):
        making.script_options(path)


def test_a_script_is_found_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("#!/usr/bin/env python3\nprint(1)\n")
    full = str(tmp_path / "job.sh")
    assert making.executable_command(["job.sh", "a"]) == ["/usr/bin/env", "python3", full, "a"]
    (tmp_path / "job.sh").chmod(0o755)
    assert making.executable_command(["./job.sh", "a"]) == [full, "a"]
    assert making.executable_command(["sleep", "1"]) == ["sleep", "1"]
    (tmp_path / "sleep").write_text("#!/bin/sh\n")  # a command everybody knows stays that command
    assert making.executable_command(["sleep", "1"]) == ["sleep", "1"]
    assert making.is_script("sleep") is None
    (tmp_path / "data").write_bytes(b"\0\1")
    assert making.is_script("data") is None


def test_only_harmless_variables_leave_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "s")
    monkeypatch.setenv("COHABIT_TOKEN", "t")
    assert "MY_SECRET" not in making.environment(None)
    assert making.environment("MY_SECRET,X=1") == making.environment(None) | {"MY_SECRET": "s", "X": "1"}
    everything = making.environment("ALL")
    assert everything["MY_SECRET"] == "s"
    assert "COHABIT_TOKEN" not in everything
    with pytest.raises(InputError, match="no variable NOT_THERE"):
        making.environment("NOT_THERE")


def test_both_sides_of_a_pair_mean_the_same_group() -> None:
    left = making.group_with("beta:right", "left", "alpha")
    assert left == making.group_with("alpha:left", "right", "beta")
    assert left["members"] == {"alpha": "left", "beta": "right"}
    assert making.group_of("tri@alpha,beta:b", "alpha") == {"name": "tri", "members": {"alpha": "tri", "beta": "b"}}


@pytest.mark.parametrize(
    ("mate", "name", "here", "words"),
    [
        ("beta", "left", "alpha", "DOMAIN:JOB"), ("beta:right", None, "alpha", "--name"),
        ("beta:right", "left", None, "no other domains"), ("alpha:right", "left", "alpha", "in others"),
    ],
)  # fmt: skip
def test_mates_that_cannot_be(mate: str, name: str | None, here: str | None, words: str) -> None:
    with pytest.raises(InputError) as caught:
        making.group_with(mate, name, here)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["tri", "@alpha,beta", "tri@alpha,alpha", "tri@beta,gamma", "tri@alpha"])
def test_groups_that_cannot_be(text: str) -> None:
    with pytest.raises(InputError):
        making.group_of(text, "alpha")


def test_where_the_scheduler_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COHABIT_SERVER", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert find_server(None) == Address(path=str(tmp_path / "cohabit" / "cohabit.sock"))
    monkeypatch.setenv("COHABIT_SERVER", "https://cluster:7000/")
    assert find_server(None) == Address(url="https://cluster:7000")
    assert find_server("/srv/x.sock") == Address(path="/srv/x.sock")
    assert find_server("unix:/srv/place") == Address(path="/srv/place/cohabit.sock")


def test_a_token_is_not_sent_in_the_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COHABIT_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert find_token() == ""
    (tmp_path / "cohabit").mkdir()
    (tmp_path / "cohabit" / "token").write_text("from-a-file\n")
    assert find_token() == "from-a-file"
    with pytest.raises(InputError, match="unencrypted"):
        Connection(Address(url="http://cluster:7000"), find_token())
    Connection(Address(url="http://127.0.0.1:7000"), find_token())


@pytest.mark.parametrize(
    "words",
    [
        ("queue",), ("show", "1"), ("why", "1"), ("logs", "1"), ("cancel", "1"), ("hold", "1"), ("release", "1"),
        ("requeue", "1"), ("wait", "1"), ("nodes",), ("top", "--once"), ("report",), ("audit",), ("token", "list"),
        ("change", "1", "--limit", "1h"), ("submit", "--", "true"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_without_a_scheduler_every_verb_says_what_to_do(words: tuple[str, ...], tmp_path: Path) -> None:
    sentence = cohabit(*words[:1], *words[1:2] * (words[0] == "token"), "--server", tmp_path, "--json",
                       *words[1 + (words[0] == "token"):]).sentence()  # fmt: skip
    assert "cohabit.sock" in sentence
    assert "`cohabit up`" in sentence


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("submit",), "Missing argument"), (("submit", "--limit", "soon", "--", "true"), "not a duration"),
        (("submit", "--mem", "much", "--", "true"), "--mem"), (("submit", "--array", "3", "--", "true"), "--array"),
        (("submit", "--framework", "mpl", "--", "true"), "'mpi'"),
        (("submit", "--wait", "--dry-run", "true"), "together"), (("wait", "1", "--timeout", "x"), "--timeout"),
        (("submit", "--mate", "a:b", "--group", "c@d,e", "true"), "together"),
        (("queue", "--state", "runing"), "running"), (("queue", "--all", "--state", "done"), "together"),
        (("report", "--format", "xml"), "sacct"), (("report", "--since", "yesterday"), "--since"),

        (("submit", "--cores", "4", "--", "true"), "use -n/--processes"), (("cancel",), "--all"),
        (("change", "1"), "--limit"), (("top", "--every", "1ms"), "--every"),
        (("logs", "1", "--lines", "0"), "--lines"), (("why", "1", "--run", "x", "--server", "y"), "together"),
    ],
    ids=str,
)  # fmt: skip
def test_calls_that_are_wrong_are_one_sentence(words: tuple[str, ...], part: str) -> None:
    assert part in cohabit(*words).sentence()


def test_a_script_line_that_is_wrong_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.sh"
    for line, part in (
        ("--limitt 3h", "--limit"),
        ("--limit 3h sleep 5", "'sleep' is not an option"),
        ("--cores 4", "use -n/--processes"),
    ):
        path.write_text(f"#!/bin/sh\n#COHABIT {line}\ntrue\n")
        sentence = cohabit("submit", "job.sh").sentence()
        assert "job.sh, line 2" in sentence
        assert part in sentence


def test_a_place_keeps_its_settings(tmp_path: Path) -> None:
    path = site_file(tmp_path / "new", "3", "ce-easy", "127.0.0.1:0")
    before = path.read_text()
    assert site_file(tmp_path / "new", None, None, None) == path
    assert site_file(tmp_path / "new", "3", None, "127.0.0.1:0") == path
    with pytest.raises(InputError, match="says nodes = 3, not 4"):
        site_file(tmp_path / "new", "4", None, None)
    assert path.read_text() == before
    for nodes, policy in (("none", None), ("0", None), (None, "nobody")):
        with pytest.raises(InputError):
            site_file(tmp_path / "other", nodes, policy, None)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("policy", [None, "cohabit", "cs"])
def test_a_new_place_is_one_server_and_an_old_one_keeps_its_policy(tmp_path: Path, policy: str | None) -> None:
    config = read_site(site_file(tmp_path, None, policy, None)).config
    ours = policy != "cs"
    server = PolicyConfig(name="cohabit", unknown="cores", partition="none")
    assert config.policy == (server if ours else PolicyConfig(name="cs"))
    assert read_site(site_file(tmp_path, None, None, None)).config == config


@pytest.mark.parametrize(("name", "value"), [("LC_ODD", "\udcff"), ("LC_NEW\nLINE", "x")])
def test_a_variable_that_cannot_be_sent_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="cannot be sent") as caught:
        making.environment(None)
    assert repr(name) in str(caught.value)
