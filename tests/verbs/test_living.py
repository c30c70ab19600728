"""The verbs against a scheduler that runs, with real programs as jobs."""

from __future__ import annotations

import json
import os
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.cli_calls import cohabit, program
from tests.verbs.living import Scheduler

pytestmark = pytest.mark.slow  # together; each takes a second

VIEW = {
    "job", "name", "user", "program", "command", "state", "why", "processes", "nodes", "cores", "scale", "limit_s",
    "submitted_at", "started_at", "ended_at", "attempt", "exit_status", "exit_signal", "stdout", "stderr", "array",
    "after", "predicted_slowdown", "actual_slowdown", "slowdown_why", "whole_nodes",
}  # fmt: skip


def test_a_job_from_beginning_to_end(living: Scheduler, tmp_path: Path) -> None:
    answer = living.call("submit", "--limit", "5m", "--", "sh", "-c", "echo out; echo err >&2; pwd")
    assert answer.code == 0, answer
    assert answer.out.startswith("submitted job ")
    job = answer.out.split()[-1]
    waited = living.call("wait", job)
    assert waited.code == 0, waited
    assert waited.out.startswith(f"job {job}: done after ")
    view = living.show(job)
    assert view.keys() >= VIEW
    assert (view["state"], view["program"], view["exit_status"], view["limit_s"]) == ("done", "sh", 0, 300.0)
    assert view["started_at"] <= view["ended_at"] <= time.time()
    assert living.call("logs", job).out == f"out\nerr\n{os.getcwd()}\n"
    assert living.call("logs", job, "--lines", "1").out == f"{os.getcwd()}\n"
    assert living.ok("logs", job, "--lines", "3") == {
        "job": job,
        "stream": "stdout",
        "text": f"out\nerr\n{os.getcwd()}\n",
    }
    told = living.call("show", job).out
    assert "sh -c" in told
    assert "5 min" in told


def test_output_files_folders_and_environment(
    living: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    words = ("--output", "o.txt", "--error", "e.txt", "--chdir", "there", "--export", "MINE=7")
    job = living.submit(*words, "--", "sh", "-c", 'pwd; echo $MINE; echo oops >&2')  # fmt: skip
    assert living.over(job)["state"] == "done"
    assert (tmp_path / "o.txt").read_text() == f"{tmp_path / 'there'}\n7\n"
    assert (tmp_path / "e.txt").read_text() == "oops\n"
    assert living.call("logs", job, "--stderr").out == "oops\n"


def test_a_script_with_lines_for_us(living: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#COHABIT --limit 7m --program solver\necho got $1 -n $2\n")
    job = living.submit("--limit", "8m", "job.sh", "one", "two")
    view = living.over(job)
    assert (view["state"], view["limit_s"], view["program"]) == ("done", 480.0, "solver")
    assert living.call("logs", job).out == "got one -n two\n"


def test_ends_that_are_not_good(living: Scheduler) -> None:
    bad = living.submit("--", "sh", "-c", "exit 3")
    none = living.submit("--", "sh", "-c", "exec /no/such/program")
    late = living.submit("--limit", "1s", "--", "sleep", "600")
    answer = living.call("wait", bad, none, late)
    assert answer.code == 1, answer
    assert f"job {bad}: failed: exit status 3" in answer.out
    assert f"job {late}: killed" in answer.out
    assert f"job {none}: failed: exit status 127 (a command in it was not found)" in answer.out
    document = living.call("wait", bad, "--json")
    assert (document.code, document.document["jobs"][0]["exit_status"]) == (1, 3)
    assert living.call("submit", "--wait", "--", "false").code == 1
    assert living.call("submit", "--wait", "--", "true").code == 0
    states = {one["job"]: one["state"] for one in living.ok("queue", "--state", "failed")["jobs"]}
    assert states[bad] == "failed"
    assert late not in states


def test_waiting_has_an_end(living: Scheduler) -> None:
    job = living.submit("--hold", "--", "true")
    begun = time.monotonic()
    answer = living.call("wait", job, "--timeout", "1s", "--json")
    assert (answer.code, answer.document["timed_out"]) == (1, [job])
    assert time.monotonic() - begun >= 1
    living.ok("cancel", job)


def test_hold_release_why_and_cancel(living: Scheduler) -> None:
    job = living.submit("--hold", "--name", "kept", "--", "sleep", "600")
    assert job == "kept"
    assert living.show(job)["state"] == "held"
    told = living.call("why", job)
    assert (told.code, "held" in told.out) == (0, True), told
    assert living.ok("why", job).keys() >= {"job", "state", "why", "history"}
    queued = {one["job"]: one for one in living.ok("queue")["jobs"]}
    assert queued[job]["state"] == "held"
    assert "kept" in living.call("queue").out
    assert living.ok("release", job)["jobs"][0]["job"] == job
    running = living.until(job, "running")
    assert running["nodes"]
    nodes = living.ok("nodes")["nodes"]
    assert job in nodes[running["nodes"][0]]["jobs"]
    assert job in living.call("nodes").out
    frame = living.call("top", "--once")
    assert (frame.code, "kept" in frame.out, "2 nodes" not in frame.out) == (0, True, True), frame
    assert job in [one["job"] for one in living.ok("top")["jobs"]]
    assert living.call("cancel", job).out == f"job {job}: cancelled\n"
    assert living.over(job)["state"] == "cancelled"
    for verb in ("hold", "release", "requeue", "cancel"):
        assert job in living.call(verb, job).sentence(), verb


def test_a_job_queued_again_begins_again(living: Scheduler, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    job = living.submit("--", "sh", "-c", f"echo $COHABIT_ATTEMPT >> {mark}; test -s {mark}.go || sleep 600")
    living.until(job, "running")
    deadline = time.monotonic() + 60
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (tmp_path / "mark.go").write_text("go")
    assert living.call("requeue", job).out == f"job {job}: queued again\n"
    view = living.over(job)
    assert view["state"] == "done"
    assert view["attempt"] > 1
    assert len(mark.read_text().splitlines()) == 2


def test_jobs_after_jobs(living: Scheduler) -> None:
    first = living.submit("--hold", "--", "true")
    then = living.submit("--after", first, "--", "true")
    assert living.show(then)["after"] == [first]
    assert living.show(then)["state"] == "queued"
    living.ok("release", first)
    assert living.call("wait", first, then).code == 0
    one, other = living.show(first), living.show(then)
    assert other["started_at"] >= one["ended_at"]
    bad = living.submit("--hold", "--", "false")
    never, anyway = (living.submit("--after", bad, *more, "--", "true") for more in ([], ["--after-any"]))
    living.ok("release", bad)
    assert living.over(anyway)["state"] == "done"
    assert living.over(never)["state"] == "cancelled"


def test_an_array(living: Scheduler) -> None:
    answer = living.ok("submit", "--array", "3-5%1", "--", "sh", "-c", "echo $COHABIT_JOB")
    job = answer["job"]
    assert answer["members"] == 3
    assert living.call("wait", job).code == 0
    members = [f"{job}_{index}" for index in (3, 4, 5)]
    views = [living.show(name) for name in members]
    assert [view["state"] for view in views] == ["done"] * 3
    spans = sorted((view["started_at"], view["ended_at"]) for view in views)
    assert all(before[1] <= after[0] for before, after in pairwise(spans)), "one at a time"
    assert living.call("logs", members[1]).out == f"{members[1]}\n"


def test_the_queue_says_when_a_job_is_expected_to_start(living: Scheduler) -> None:
    runs = living.submit("--nodes", "2", "--exclusive", "--limit", "10m", "--", "sleep", "600")
    living.until(runs, "running")
    waits = living.submit("--nodes", "2", "--exclusive", "--limit", "10m", "--", "true")
    line = next(one for one in living.call("queue").out.splitlines() if one.split()[:1] == [waits])
    assert re.search(r"expected to start in (9 min \d+|10 min)", line)
    assert "expected_start_at" not in {one["job"]: one for one in living.ok("queue")["jobs"]}[waits]
    told = {one["job"]: one for one in living.ok("queue", "--expected")["jobs"]}[waits]
    assert 500 < told["expected_start_at"] - time.time() <= 600
    living.ok("cancel", waits, runs)


def test_members_that_wait_are_one_line(living: Scheduler) -> None:
    job = living.submit("--array", "1-30", "--hold", "--", "true")
    assert f"{job}_[1-30]" in living.call("queue").out
    assert len([one for one in living.ok("queue")["jobs"] if one["array"] == job]) == 30
    assert f"{job}_[1-30]" in living.call("top", "--once").out
    living.ok("cancel", job)


def test_a_dry_run_changes_nothing(living: Scheduler) -> None:
    living.until_empty()
    before = {one["job"] for one in living.ok("queue", "--all")["jobs"]}
    seen = living.ok("submit", "--dry-run", "--", "true")
    assert seen["job"] is None
    assert seen["start_in_s"] == pytest.approx(0, abs=1)
    assert "at once" in living.call("submit", "--dry-run", "--", "true").out
    full = [living.submit("--limit", "10m", "--", "sleep", "600") for _ in range(2)]
    for job in full:
        living.until(job, "running")
    later = living.ok("submit", "--dry-run", "--nodes", "2", "--", "true")
    assert 0 < later["start_in_s"] <= 601
    assert "would start in" in living.call("submit", "--dry-run", "--nodes", "2", "--", "true").out
    living.ok("cancel", *full)
    assert {one["job"] for one in living.ok("queue", "--all")["jobs"]} == before | set(full)


def test_more_than_the_machine_is_refused(living: Scheduler) -> None:
    sentence = living.call("submit", "--nodes", "64", "--", "true").sentence()
    assert "64" in sentence or "machine" in sentence


def test_what_is_not_there(living: Scheduler) -> None:
    for verb in ("show", "why", "logs", "cancel", "hold", "release", "requeue", "wait"):
        assert "no-such-job" in living.call(verb, "no-such-job").sentence(), verb
    assert "no-such-job" in living.call("change", "no-such-job", "--limit", "2m").sentence()
    good = living.submit("--hold", "--", "true")
    answer = living.call("cancel", "no-such-job", good)
    assert (answer.code, answer.out) == (2, f"job {good}: cancelled\n")
    assert "no-such-job" in answer.err


def test_a_framework_is_recognised(living: Scheduler) -> None:
    job = living.submit("--hold", "--", "mpirun", "sleep", "1")
    assert (living.show(job)["program"], living.show(job)["command"]) == ("sleep", ["sleep", "1"])
    living.ok("cancel", job)


def test_mistyped_names_are_caught(living: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, part in (
        (["--after", "no-such-job", "--", "true"], "no job no-such-job"), (["--", "./nothing.sh"], "nothing.sh"),
        (["--chdir", "nowhere", "--", "true"], "nowhere"), (["--alpha", "3", "--", "true"], "--alpha"),
        (["--workload-type", "x", "--", "true"], "--workload-type"), (["-n", "0", "--", "true"], "-n"),
        (["--limit", "0s", "--", "true"], "--limit"),
    ):  # fmt: skip
        before = len(living.ok("queue", "--all")["jobs"])
        assert part in living.call("submit", *words).sentence()
        assert len(living.ok("queue", "--all")["jobs"]) == before
    first = living.submit("--", "sh", "-c", "echo '#!/bin/sh' > made.sh; chmod +x made.sh")
    assert living.over(living.submit("--after", first, "--", "./made.sh"))["state"] == "done"


def test_a_name_is_used_once(living: Scheduler) -> None:
    living.submit("--name", "only", "--", "true")
    assert "only" in living.call("submit", "--name", "only", "--", "true").sentence()
    for name in ("../up", "a b", "12"):
        living.call("submit", "--name", name, "--", "true").sentence()


def test_changing_a_job(living: Scheduler) -> None:
    job = living.submit("--hold", "--limit", "10m", "--", "true")
    assert living.call("change", job, "--limit", "5m").out == f"job {job}: changed; its limit is 5 min\n"
    assert living.show(job)["limit_s"] == 300.0
    living.ok("cancel", job)


def test_words_of_others_do_not_reach_the_terminal(living: Scheduler) -> None:
    refused = living.call("submit", "--hold", "--program", "clear\x1b[2J", "--", "true").sentence()
    assert "control character U+001B" in refused
    job = living.submit("--hold", "--", "true", "clear\x1b[2J")  # a word of a command may have it
    for words in (("queue",), ("show", job), ("top", "--once")):
        assert "\x1b[2J" not in living.call(*words).out
    assert "clear?" in living.call("show", job).out
    living.ok("cancel", job)
    assert "\x1b[2J" not in living.call("report").out


def test_what_was_done_is_kept(living: Scheduler) -> None:
    job = living.submit("--hold", "--", "true")
    living.ok("cancel", job)
    living.call("cancel", "no-such-job").sentence()
    entries = living.ok("audit", "--limit", "10")["entries"]
    assert ("cancel", job, 200) in [(one["action"], one["about"], one["status"]) for one in entries]
    told = living.call("audit")
    assert (told.code, "cancel" in told.out, "done" in told.out) == (0, True, True), told
    living.call("audit", "--limit", "0").sentence()


def test_the_shell_completes_names_of_jobs(living: Scheduler, tmp_path: Path) -> None:
    job = living.submit("--hold", "--name", "long-name", "--", "true")
    asked = {"_COHABIT_COMPLETE": "complete_bash", "COMP_WORDS": "cohabit show long", "COMP_CWORD": "2"}
    assert program(COHABIT_SERVER=str(living.socket), **asked).out.split() == [job]
    nobody = program(COHABIT_SERVER=str(tmp_path), **asked)
    assert (nobody.out.strip(), nobody.err) == ("", "")
    living.ok("cancel", job)


def test_draining_a_node(living: Scheduler) -> None:
    try:
        assert living.ok("nodes", "--drain", "1")["nodes"][1]["state"] == "drained"
    finally:
        assert living.ok("nodes", "--resume", "1")["nodes"][1]["state"] in ("idle", "busy", "shared")
    living.call("nodes", "--drain", "99").sentence()


def test_a_reservation_closes_nodes_to_jobs_that_would_run_into_it(living: Scheduler) -> None:
    try:
        found = living.ok("nodes", "--reserve", "cooling", "--nodes", "0-1", "--from", "+5m", "--for", "1h")
        (window,) = found["windows"]
        assert (window["name"], window["nodes"], window["end"] - window["begin"]) == ("cooling", "0-1", 3600)
        long, short = (living.submit("--limit", limit, "--", "true") for limit in ("10m", "1m"))
        living.ok("wait", short)
        assert "window cooling closes nodes 0-1 in" in living.ok("why", long)["why"]
        assert "cooling" in living.call("nodes").out
        moved = living.ok("nodes", "--reserve", "cooling", "--nodes", "1", "--for", "1h")["windows"]
        assert [one["nodes"] for one in moved] == ["1"]
        living.ok("wait", long)
    finally:
        assert living.ok("nodes", "--unreserve", "cooling")["windows"] == []
    entries = living.ok("audit")["entries"]
    assert ("unreserve", "window cooling") in [(one["action"], one["about"]) for one in entries]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--unreserve", "nothing"), "there is no such window"),
        (("--unreserve", "slurm:x"), "resource manager"),
        (("--reserve", "w"), "--nodes is missing"),
        (("--reserve", "w", "--nodes", "0"), "--for is missing"),
        (("--nodes", "0"), "no name"),
        (("--reserve", "w", "--nodes", "99", "--for", "1h"), "the cluster has 0 to 1"),
        (("--reserve", "w", "--nodes", "1-0", "--for", "1h"), "not a list of nodes"),
        (("--reserve", "w", "--nodes", "a", "--for", "1h"), "not a list of nodes"),
        (("--reserve", "w", "--nodes", "0", "--for", "long"), "not a duration"),
        (("--reserve", "w", "--nodes", "0", "--for", "0"), "before it begins"),
        (("--reserve", "w", "--nodes", "0", "--for", "1h", "--from", "soon"), "is not a time"),
        (("--reserve", "w", "--nodes", "0", "--for", "1h", "--from", "2020-01-01"), "ended already"),
        (("--reserve", "two words", "--nodes", "0", "--for", "1h"), "letters, digits"),
    ],
)
def test_what_is_wrong_with_a_reservation_is_said_in_one_sentence(
    living: Scheduler, words: tuple[str, ...], said: str
) -> None:
    assert said in living.call("nodes", *words).sentence()


def test_all_of_one_users_jobs_can_be_cancelled(living: Scheduler) -> None:
    jobs = [living.submit("--hold", "--", "true") for _ in range(3)]
    cancelled = {one["job"] for one in living.ok("cancel", "--all")["jobs"]}
    assert cancelled >= set(jobs)
    living.until_empty()
    assert "no jobs" in living.call("queue").out


def test_accounting_in_every_form(living: Scheduler, tmp_path: Path) -> None:
    job = living.submit("--program", "counted", "--", "sleep", "0.2")
    living.over(job)
    rows = {one["job"]: one for one in living.ok("report", "--since", "1h")["jobs"]}
    assert rows[job]["state"] == "done"
    assert "counted" in living.call("report").out
    assert living.call("report", "--format", "csv").out.startswith("job,user,program")
    file = tmp_path / "jobs.txt"
    assert living.call("report", "--format", "sacct", "-o", file).out == f"wrote {file}\n"
    again = cohabit("import", "sacct", file, "-o", tmp_path / "jobs.swf")
    assert again.code == 0, again
    assert (tmp_path / "jobs.swf").read_text().count("\n") > len(rows)
    old = living.call("report", "--since", "2000-01-01", "--until", "2000-01-02")
    assert (old.code, old.out) == (0, "no jobs in that time\n")


def test_a_page_about_what_ran(living: Scheduler, tmp_path: Path) -> None:
    living.over(living.submit("--program", "shown", "--", "sleep", "0.1"))
    summary = living.ok("report", "--out", tmp_path / "page")
    assert summary["jobs"] >= 1
    assert summary["metrics"]["jobs_done"] >= 1
    lines = (tmp_path / "page" / "jobs.csv").read_text().splitlines()
    assert any(",shown," in line and line.split(",")[9] == "done" for line in lines)
    assert json.loads((tmp_path / "page" / "summary.json").read_text())["jobs"] == summary["jobs"]
    assert (tmp_path / "page" / "report.html").read_text().rstrip().endswith("</html>")
