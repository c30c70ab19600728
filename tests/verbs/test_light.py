"""Verbs as the installed program starts them: they load little, and say and do what the whole command does."""

from __future__ import annotations

import compileall
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit import __file__ as cohabit_package
from tests.cli.cli_calls import COMMAND, Answer, cohabit, program
from tests.verbs.living import Scheduler

HEAVY = {
    "typer", "click", "rich", "numpy", "http", "msgspec", "sqlalchemy", "email", "ssl", "urllib", "inspect", "pathlib",
    "dataclasses", "asyncio", "shutil", "logging", "subprocess", "argparse",
}  # fmt: skip


@pytest.fixture(scope="module")
def done(living: Scheduler) -> Iterator[str]:
    """A job that is over: what is said of it does not change."""
    job = living.submit("--name", "light-done", "--", "sh", "-c", "echo one; echo two; exit 3")
    assert living.over(job)["state"] == "failed"
    yield job
    living.call("cancel", "--all")


def loaded(*words: str | Path) -> tuple[int, set[str]]:
    """The exit status of a call of the installed command, and every package it imported."""
    call = [sys.executable, "-X", "importtime", COMMAND, *map(str, words)]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    names = (line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:"))
    return ended.returncode, {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    "words",
    [
        ("queue",), ("queue", "--all", "--json"), ("show", "light-done"), ("logs", "light-done"),
        ("wait", "light-done"), ("submit", "--hold", "--", "true"), ("cancel", "light-done"), ("cancel", "--all"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_nothing_heavy_is_loaded(living: Scheduler, done: str, words: tuple[str, ...]) -> None:
    code, names = loaded(words[0], "--server", living.socket, *words[1:])
    assert code in (0, 1, 2)
    assert "cohabit" in names
    assert not names & HEAVY


def cpu_s(*call: str) -> float:
    """The least processor time of ten runs: what a busy neighbour adds is not ours."""
    took = []
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


@pytest.mark.timing
@pytest.mark.parametrize(
    "words", [("queue",), ("show", "light-done"), ("submit", "--hold", "--", "true")], ids=" ".join
)
def test_a_verb_takes_at_most_four_times_a_bare_python(living: Scheduler, done: str, words: tuple[str, ...]) -> None:
    compileall.compile_dir(Path(cohabit_package).parent, quiet=2)  # as an installed package is
    bare = cpu_s(sys.executable, "-I", "-c", "pass")
    assert cpu_s(COMMAND, words[0], "--server", str(living.socket), *words[1:]) < 4 * bare


CALLS = [
    ("queue", "--state", "failed"), ("queue", "--state", "failed", "--json"), ("queue", "--state", "runing"),
    ("queue", "--user", "no-such-user"), ("queue", "--limit", "0"), ("show", "light-done", "--json"),
    ("show", "no-such-job"), ("show", "\udcff"), ("show", "a/b c"), ("wait", "light-done", "--json"), ("wait",),
    ("wait", "light-done", "no-such-job"), ("logs", "light-done"), ("logs", "light-done", "-n", "1"),
    ("logs", "light-done", "--follow"), ("logs", "light-done", "--json"), ("logs", "light-done", "--lines", "0"),
    ("cancel", "light-done"), ("cancel", "no-such-job", "light-done", "--json"), ("cancel",), ("submit",),
    ("submit", "--hold", "--limit", "never", "true"), ("submit", "--nodes", "99", "true"),
    ("submit", "no-such-program"),
    ("submit", "--after", "no-such-job", "true"), ("submit", "--dry-run", "--wait", "true"), ("submit", "--nod", "1"),
    ("hold", "light-done"), ("change", "light-done"), ("queue", "--help"),
]  # fmt: skip


@pytest.mark.parametrize("words", CALLS, ids=lambda words: ascii(" ".join(words)))
def test_both_forms_answer_alike(
    living: Scheduler, done: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COHABIT_SERVER", str(living.place))
    lightly, fully = program(*words), cohabit(*words)
    if words[:2] == ("submit", "--nodes"):  # the next job has the next number
        lightly, fully = (Answer(one.code, one.out, one.err.partition(": can")[2]) for one in (lightly, fully))
    assert lightly == fully
    assert "Traceback" not in lightly.err


def test_submitting_is_alike_but_for_the_number(living: Scheduler, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#COHABIT --limit 7m --hold\necho ran\n")
    views = []
    for form in (program, cohabit):
        answer = form("submit", "--server", living.socket, "--json", "--mem", "64", str(script), "--its-own")
        assert answer.code == 0, answer
        views.append(living.show(answer.document["job"]))
        living.ok("cancel", answer.document["job"])
    assert {key for key in views[0] if views[0][key] != views[1][key]} <= {
        "job",
        "name",
        "submitted_at",
        "stdout",
        "stderr",
    }
    assert (views[0]["state"], views[0]["limit_s"]) == ("held", 420.0)


def test_a_reader_that_has_seen_enough(living: Scheduler, done: str) -> None:
    pipe = f"'{COMMAND}' queue --all --json --server '{living.socket}' | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_an_address_that_is_none() -> None:
    for server in ("http://", "https://[::1", "http://here:99999", "http://here:port"):
        assert "names no machine" in program("queue", "--server", server).sentence()
    sentence = program("queue", "--server", "https://127.0.0.1:1", COHABIT_TOKEN="two\nlines").sentence()
    assert "COHABIT_TOKEN" in sentence
