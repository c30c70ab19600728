"""One request must not end the controller of everybody: texts that no encoding can write, and a core that raises."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attack.accounts import Account, act_as
from tests.attack.controllers import RootController, controller
from tests.live.api.serving import Answer, UnixConnection, ask

TRUE = ["/bin/true"]
POISON_S, DEADLY_S = 13.0, 14.0  # limits of jobs on which the order below raises, or dies


@pytest.fixture(scope="module")
def place_of_module() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="cohabit-attack-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def up(place_of_module: Path) -> Iterator[RootController]:
    with controller(place_of_module) as one:
        yield one


def send(one: RootController, account: Account, method: str, path: str, raw: bytes) -> Answer:
    """A body as it stands."""
    return Answer(*act_as(account, lambda: list(ask(UnixConnection(str(one.socket)), method, path, raw))))


HALF, WRITTEN = b'"\\ud800"', b'"\xed\xa0\x80"'  # half a surrogate pair: escaped, and as UTF-8 would have it
BODIES = {
    "a variable": b'{"command": ["true"], "environment": {%s: "x"}}',
    "a value": b'{"command": ["true"], "environment": {"A": %s}}',
    "a word": b'{"command": ["true", %s]}',
    "a name": b'{"command": ["true"], "name": %s}',
    "a folder": b'{"command": ["true"], "folder": %s}',
    "a file": b'{"command": ["true"], "stdout": %s}',
    "a program": b'{"command": ["true"], "program": %s}',
    "a partition": b'{"command": ["true"], "partition": %s}',
    "a dependency": b'{"command": ["true"], "after": [%s]}',
    "a framework": b'{"command": ["true"], "framework": %s}',
    "an unknown key": b'{"command": ["true"], %s: 1}',
    "a group": b'{"command": ["true"], "group": {"name": %s, "members": {"a": "b", "c": "d"}}}',
    "a member": b'{"command": ["true"], "group": {"name": "g", "members": {%s: "b", "c": "d"}}}',
}


@pytest.mark.parametrize("where", list(BODIES))
def test_half_a_surrogate_pair_is_refused_and_harms_nobody(
    up: RootController, ann: Account, bob: Account, where: str
) -> None:
    """The very attack: `"environment": {"\\ud800": ...}` gave 500, and then there was no server."""
    for text in (HALF, WRITTEN):
        answer = send(up, ann, "POST", "/v1/jobs", BODIES[where] % text)
        assert answer.status == 422, answer
        assert set(answer.body) == {"error", "where", "fix"}
    assert up.answers()
    if where == "a variable":
        assert up.over(up.submit(bob, "exit 0"))["state"] == "done"


@pytest.mark.parametrize("name", ["", "A=B", "A\0B", "A\nB", "\x1b"])
def test_variables_without_a_sound_name_are_refused(up: RootController, ann: Account, name: str) -> None:
    answer = up.ask(ann, "POST", "/v1/jobs", {"command": TRUE, "environment": {name: "x"}})
    assert answer.status == 422
    assert "environment" in answer.body["where"]


def test_words_and_values_with_line_breaks_arrive(up: RootController, ann: Account) -> None:
    body = {"command": ["/bin/sh", "-c", 'printf "%s" "$1$A"', "sh", "a\nb\tc"], "environment": {"A": "\nd"}}
    job = up.ask(ann, "POST", "/v1/jobs", body).body["job"]
    assert up.over(job)["state"] == "done"
    assert up.ask(ann, "GET", f"/v1/jobs/{job}/output").body == "a\nb\tc\nd"


@pytest.mark.parametrize("key", ["name", "folder", "stdout", "stderr", "program", "partition", "framework"])
@pytest.mark.parametrize("text", ["a\nb", "a\0b", "\x1b[2Ja", "\u202ea", "x" * 5000])
def test_names_with_control_characters_are_refused(up: RootController, ann: Account, key: str, text: str) -> None:
    answer = up.ask(ann, "POST", "/v1/jobs", {"command": TRUE, key: text})
    assert (answer.status, answer.body["where"]) == (422, key)


def test_tokens_have_sound_labels(up: RootController, ann: Account) -> None:
    for label in ("a\nb", "\x1b[2J", "\u2028"):
        assert up.ask(ann, "POST", "/v1/tokens", {"label": label}).status == 422
    assert send(up, ann, "POST", "/v1/tokens", b'{"label": %s}' % HALF).status == 422


# ---- a core that raises ----------------------------------------------------------------------------------------------


ORDER = f'''
"""First come, first served; but a fault on jobs of one limit, and death by another while a file is there."""
import os
import signal

CHANGING = True
DEADLY = "%s"


def scores(jobs, rows, now_us):
    limits = {{int(one) for one in jobs.limit_us[rows]}}
    if {int(DEADLY_S * 1e6)} in limits and os.path.exists(DEADLY):
        os.unlink(DEADLY)
        os.kill(os.getpid(), signal.SIGKILL)
    if limits & {{{int(POISON_S * 1e6)}, {int(DEADLY_S * 1e6)}}}:
        raise ValueError("this order knows no such limit")
    return jobs.submit_us[rows] * 1.0
'''


@pytest.fixture(scope="module")
def faulty() -> Iterator[RootController]:
    """A controller of root's whose order raises on jobs of 13 and of 14 s."""
    made = Path(tempfile.mkdtemp(prefix="cohabit-attack-"))
    made.chmod(0o711)
    order = made / "order.py"
    (made / "open").mkdir()
    (made / "open").chmod(0o777)  # the controller's account removes the file in it
    order.write_text(ORDER % (made / "open" / "deadly"))
    (made / "place").mkdir(mode=0o755)
    site = f'nodes = 2\nplace = "."\n[policy]\norder = "{order}"\nbackfill = "easy"\nplacement = "exclusive"\n'
    (made / "place" / "site.toml").write_text(site)
    with controller(made) as one:
        yield one
    shutil.rmtree(made)


def poison(one: RootController, account: Account, limit_s: float = POISON_S, **others: Any) -> Answer:
    return one.ask(account, "POST", "/v1/jobs", {"command": TRUE, "limit_s": limit_s, **others})


def figure(one: RootController, name: str) -> int:
    """One of the metrics."""
    text = one.ask(None, "GET", "/metrics").body
    return int(float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1]))


def left_out(one: RootController) -> int:
    """As the metrics have it."""
    return figure(one, "cohabit_events_left_out")


def test_only_the_request_on_which_the_core_raises_is_left_out(
    faulty: RootController, ann: Account, bob: Account
) -> None:
    mark, count = faulty.place.parent / "mark", faulty.place.parent / "count"
    count.touch()
    count.chmod(0o666)
    running = faulty.submit(bob, f"echo begun >> {count}; while ! test -e {mark}; do sleep 0.05; done", name="running")
    faulty.until(lambda: count.read_text() == "begun\n")
    refused = poison(faulty, ann, name="poison")
    assert refused.status == 500
    assert refused.body["error"].startswith("the scheduler failed on this request and left it out: ")
    assert "the order failed: this order knows no such limit" in refused.body["error"]
    assert "poison" in refused.body["where"]
    assert faulty.ask(ann, "GET", "/v1/jobs/poison").status == 404
    assert "JobSubmitted of job poison is left out" in faulty.said()
    entries = faulty.ask(None, "GET", "/v1/audit").body["entries"]
    assert any(one["status"] == 500 and one["user"] == ann.name and "left it out" in one["said"] for one in entries)
    assert left_out(faulty) == 1
    passes = figure(faulty, "cohabit_pass_seconds_count")
    faulty.ask(bob, "POST", f"/v1/jobs/{faulty.submit(bob, 'exit 0', hold=True)}/cancel")
    assert figure(faulty, "cohabit_pass_seconds_count") == passes + 2  # the new core is observed as the old one was
    faulty.kill()  # and again from the journal, in which the poison is marked
    faulty.start()
    assert (left_out(faulty), faulty.said().count("is left out")) == (1, 1)
    assert faulty.ask(None, "GET", f"/v1/jobs/{running}").body["state"] == "running"
    mark.touch()
    assert faulty.over(running)["state"] == "done"
    assert count.read_text() == "begun\n"  # nothing was started twice
    other = poison(faulty, ann, limit_s=20, name="poison")  # its name is free again
    assert (other.status, faulty.over("poison")["state"]) == (201, "done")


def test_others_in_the_same_batch_are_taken(faulty: RootController, ann: Account, bob: Account) -> None:
    """Many at once: most of them come into a batch with a poisonous one."""
    before = left_out(faulty)

    def many() -> list[int]:
        import threading

        statuses: list[int] = []

        def one(number: int) -> None:
            limit_s = POISON_S if number % 5 == 0 else 30.0
            link = UnixConnection(str(faulty.socket))
            body = {"command": TRUE, "limit_s": limit_s, "name": f"{'bad' if number % 5 == 0 else 'good'}{number}"}
            statuses.append(ask(link, "POST", "/v1/jobs", body).status)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return statuses

    statuses = act_as(bob, many)
    assert sorted(statuses) == [201] * 24 + [500] * 6
    assert left_out(faulty) == before + 6
    for number in range(30):
        if number % 5:
            assert faulty.over(f"good{number}")["state"] == "done"


def test_death_between_the_journal_and_the_mark(faulty: RootController, ann: Account, bob: Account) -> None:
    """The batch is in the journal, and nobody has said yet that it is poisonous: the next start finds out."""
    before, deadly = left_out(faulty), faulty.place.parent / "open" / "deadly"
    held = faulty.submit(bob, "exit 0", hold=True)
    deadly.touch()
    with pytest.raises(AssertionError):  # the server dies before it answers
        act_as(ann, lambda: list(ask(UnixConnection(str(faulty.socket)), "POST", "/v1/jobs",
                                     {"command": TRUE, "limit_s": DEADLY_S})))  # fmt: skip
    assert faulty.process is not None
    assert faulty.process.wait(60) == -signal.SIGKILL
    assert not deadly.exists()
    began = time.monotonic()
    faulty.start()
    assert time.monotonic() - began < 60
    assert left_out(faulty) == before + 1
    assert faulty.ask(bob, "POST", f"/v1/jobs/{held}/release").status == 200
    assert faulty.over(held)["state"] == "done"


def test_a_dry_run_of_a_poisonous_job_is_refused_in_words(faulty: RootController, ann: Account) -> None:
    answer = faulty.ask(ann, "POST", "/v1/jobs?dry_run=true", {"command": TRUE, "limit_s": POISON_S})
    assert (answer.status, answer.body["error"]) == (400, "the order failed: this order knows no such limit")
    assert faulty.answers()


def test_a_replay_skips_what_is_left_out(faulty: RootController, ann: Account) -> None:
    assert poison(faulty, ann).status == 500
    skipped = left_out(faulty)
    faulty.stop()
    said = subprocess.run(
        [sys.executable, "-m", "cohabit.cli", "replay", str(faulty.place), "--verify", "--json"],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    found = json.loads(said.stdout)
    assert (found["identical"], found["left_out"]) == (True, skipped)
    faulty.start()
