"""Jobs over the API: taken, run, shown, changed, waited for, read."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path

import pytest

from tests.live.api.serving import Server, UnixConnection


def test_ping_says_who_serves_and_who_calls(server: Server) -> None:
    answer = server.ask("GET", "/v1/ping")
    assert (answer.status, answer.body["role"], answer.body["domain"]) == (200, "admin", None)
    assert answer.body["user"]


def test_a_job_runs_and_everything_about_it_is_known(server: Server) -> None:
    job = server.submit("echo out; echo err >&2; exit 3", name="known", program="shell")
    view = server.over(job)
    assert (view["state"], view["exit_status"], view["exit_signal"], view["attempt"]) == ("failed", 3, None, 1)
    assert view["command"][-1].startswith("echo out")
    assert (view["program"], view["array"], view["after"], view["limit_s"]) == ("shell", None, [], 60.0)
    assert view["submitted_at"] <= view["started_at"] <= view["ended_at"]
    assert len(view["nodes"]) == 1
    assert server.ask("GET", f"/v1/jobs/{job}/output").body == "out\nerr\n"
    assert server.ask("GET", f"/v1/jobs/{job}/output?offset=4").body == "err\n"


def test_jobs_without_a_name_get_the_next_number(server: Server) -> None:
    first, second = int(server.submit("exit 0")), int(server.submit("exit 0"))
    assert second == first + 1


def test_a_name_is_used_once(server: Server) -> None:
    server.submit("exit 0", name="once")
    again = server.ask("POST", "/v1/jobs", {"command": ["true"], "name": "once"})
    assert (again.status, again.body["error"]) == (409, "a job of this name was here before")


def test_output_is_followed_to_the_end(server: Server) -> None:
    job = server.submit("for n in 1 2 3; do echo line $n; sleep 0.3; done")
    link = UnixConnection(server.path)
    link.request("GET", f"/v1/jobs/{job}/output?follow=true")
    answer = link.getresponse()
    first = answer.read1(100)
    assert first.startswith(b"line 1")
    rest = answer.read()
    assert first + rest == b"line 1\nline 2\nline 3\n"
    link.close()


def test_output_of_a_job_that_waits_is_empty_and_of_one_that_hides_it_is_said(server: Server) -> None:
    job = server.submit("exit 0", hold=True)
    assert server.ask("GET", f"/v1/jobs/{job}/output").body == ""
    gone = server.submit("rm $HOME_OF_IT", stdout="/tmp/cohabit-no-such-folder/out")
    assert server.over(gone)["state"] != "done"
    assert server.ask("GET", f"/v1/jobs/{gone}/output").status == 404


def test_waiting_ends_with_the_job_or_with_the_time(server: Server, tmp_path: Path) -> None:
    job = server.submit(f"while ! test -e {tmp_path}/go; do sleep 0.05; done")
    early = server.ask("GET", f"/v1/jobs/{job}/wait?timeout_s=0.05")
    assert (early.status, early.body["state"] in ("queued", "starting", "running")) == (202, True)
    (tmp_path / "go").touch()
    assert server.over(job)["state"] == "done"


def test_hold_release_change_cancel(server: Server) -> None:
    job = server.submit("exit 0", hold=True, limit_s=30)
    assert server.show(job)["state"] == "held"
    assert server.ask("POST", f"/v1/jobs/{job}/hold").status == 409
    changed = server.ask("PATCH", f"/v1/jobs/{job}", {"limit_s": 20, "qos": 5})
    assert (changed.status, changed.body["limit_s"]) == (200, 20.0)
    assert server.ask("POST", f"/v1/jobs/{job}/release").status == 200
    assert server.over(job)["state"] == "done"
    assert server.ask("POST", f"/v1/jobs/{job}/release").status == 409
    long = server.submit("sleep 60")
    assert server.ask("POST", f"/v1/jobs/{long}/cancel").status == 200
    assert server.over(long)["state"] == "cancelled"
    assert server.ask("PATCH", f"/v1/jobs/{long}", {}).status == 422


def test_requeue_runs_it_again(server: Server) -> None:
    job = server.submit("test $COHABIT_ATTEMPT = 2 || sleep 60")
    server.until(lambda: server.show(job)["state"] == "running")
    assert server.ask("POST", f"/v1/jobs/{job}/requeue").status == 200
    view = server.over(job)
    assert (view["state"], view["attempt"]) == ("done", 2)


def test_dependencies_and_why(server: Server) -> None:
    first = server.submit("exit 0", hold=True)
    second = server.submit("exit 0", after=[first])
    why = server.ask("GET", f"/v1/jobs/{second}/why").body
    assert (why["state"], "waits for the end of job" in why["why"]) == ("queued", True)
    server.ask("POST", f"/v1/jobs/{first}/release")
    assert server.over(second)["state"] == "done"


def test_an_array_is_one_name_and_many_jobs(server: Server) -> None:
    answer = server.ask("POST", "/v1/jobs", {"command": ["true"], "name": "many", "array": "3-5%2", "hold": True})
    assert answer.body == {"job": "many", "members": 3}
    assert server.show("many")["array"] == "3-5"
    assert server.show("many_4")["array"] == "many"
    assert server.ask("POST", "/v1/jobs/many/release").status == 200
    assert server.over("many")["state"] == "done"
    assert {server.show(f"many_{number}")["state"] for number in (3, 4, 5)} == {"done"}
    assert server.ask("GET", "/v1/jobs/many/output").status == 409


def test_lists_go_on_where_they_stopped(server: Server) -> None:
    names = [server.submit("exit 0", hold=True) for _ in range(5)]
    seen: list[str] = []
    before = ""
    while before is not None:
        page = server.ask("GET", f"/v1/jobs?state=queued&limit=2&before={before}").body
        seen += [one["job"] for one in page["jobs"]]
        before = page["next"]
    assert [name for name in seen if name in names] == names[::-1]
    assert len(seen) == len(set(seen))
    for name in names:
        server.ask("POST", f"/v1/jobs/{name}/cancel")
    assert not set(names) & {one["job"] for one in server.ask("GET", "/v1/jobs").body["jobs"]}
    assert set(names) <= {one["job"] for one in server.ask("GET", "/v1/jobs?state=all&limit=1000").body["jobs"]}


def test_a_dry_run_says_when_and_where_and_changes_nothing(server: Server) -> None:
    def dry(**others: object) -> dict[str, object]:
        answer = server.ask("POST", "/v1/jobs?dry_run=true", {"command": ["true"], "nodes": 2, **others})
        assert answer.status == 200, answer
        return dict(answer.body)

    server.idle()
    before = len(server.ask("GET", "/v1/jobs?state=all&limit=1000").body["jobs"])
    at_once = dry()
    assert (at_once["job"], at_once["start_in_s"], at_once["nodes"]) == (None, 0.0, [0, 1])
    running = server.submit("sleep 600", limit_s=600)
    later = dry()
    assert 400 < float(str(later["start_in_s"])) <= 600
    assert "node" in str(later["why"])
    assert dry(hold=True)["start_at"] is None
    never = server.ask("POST", "/v1/jobs?dry_run=true", {"command": ["true"], "nodes": 3})
    assert (never.status, "needs 3 nodes" in never.body["error"]) == (400, True)
    server.ask("POST", f"/v1/jobs/{running}/cancel")
    assert len(server.ask("GET", "/v1/jobs?state=all&limit=1000").body["jobs"]) == before + 1


def test_a_window_is_listed_and_a_dry_run_looks_beyond_it(server: Server) -> None:
    begin = round(time.time()) + 300
    window = {"name": "cooling", "nodes": "0-1", "begin": float(begin), "end": begin + 3600.0}
    assert server.ask("POST", "/v1/windows", window).body == window
    try:
        assert server.ask("GET", "/v1/nodes").body["windows"] == [window]
        found = server.ask("POST", "/v1/jobs?dry_run=true", {"command": ["true"], "limit_s": 600}).body
        assert "window cooling closes nodes 0-1" in found["why"]
        assert abs(found["start_at"] - window["end"]) < 1
    finally:
        assert server.ask("DELETE", "/v1/windows/cooling").body == window
    again = server.ask("DELETE", "/v1/windows/cooling")
    assert (again.status, again.body["error"]) == (404, "there is no such window")


def test_events_are_told_as_they_happen(server: Server, tmp_path: Path) -> None:
    link = UnixConnection(server.path)
    link.request("GET", "/v1/events")
    answer = link.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.readline() == b": listening\n"
    job = server.submit(f"while ! test -e {tmp_path}/go; do sleep 0.05; done")  # or its start and end were one event
    server.ask("POST", "/v1/nodes/1/drain")
    server.ask("POST", "/v1/nodes/1/resume")
    seen = []
    while len(seen) < 2 or ("job", "done") not in seen or ("node", "up") not in seen:
        line = answer.readline()
        if line.startswith(b"event: "):
            about = json.loads(answer.readline().removeprefix(b"data: "))
            if about.get("job") == job or "node" in about:
                seen.append((line[7:].decode().strip(), about["state"]))
        if ("job", "running") in seen:
            (tmp_path / "go").touch()
    assert ("job", "running") in seen
    assert ("node", "drained") in seen
    link.close()


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"command": ["true"], "nodes": 9}, 400, "needs 9 nodes"),
        ({"command": []}, 422, "at least 1 item"),
        ({}, 422, "required"),
        ({"command": ["true"], "colour": "red"}, 422, "not permitted"),
        ({"command": ["true"], "framework": "cobol"}, 422, "no framework called"),
        ({"command": ["true"], "limit_s": 0}, 422, "greater than 0"),
        ({"command": ["a\0b"]}, 422, "NUL"),
        ({"command": ["true"], "environment": {"A=B": "c"}}, 422, "'='"),
        ({"command": ["true"], "after": ["never-was"]}, 404, "no such job"),
        ({"command": ["true"], "array": "5-1"}, 422, "no members"),
        ({"command": ["true"], "array": "1-5000"}, 422, "5,000 jobs"),
        ({"command": ["true"], "folder": "here"}, 422, "absolute"),
        ({"command": ["true"], "stdout": "here"}, 422, "no folder"),
        ({"command": ["true"], "group": {"name": "g", "members": {"a": "x", "b": "y"}}}, 400, "not coupled"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(server: Server, body: object, status: int, said: str) -> None:
    answer = server.ask("POST", "/v1/jobs", body)
    assert answer.status == status, answer
    assert said in answer.body["error"], answer
    assert set(answer.body) == {"error", "where", "fix"}


def test_unknown_addresses_and_broken_bodies(server: Server) -> None:
    for method, path, body, status in (
        ("GET", "/v1/nothing", None, 404), ("DELETE", "/v1/jobs", None, 405), ("GET", "/v1/jobs/nobody", None, 404),
        ("POST", "/v1/jobs", b"{", 422), ("POST", "/v1/jobs", b"[" * 100_000, 400),
        ("POST", "/v1/nodes/7/drain", None, 404),
    ):  # fmt: skip
        answer = server.ask(method, path, body)
        assert (answer.status, set(answer.body)) == (status, {"error", "where", "fix"}), (method, path, answer)


def test_a_slow_reader_stops_nobody(server: Server) -> None:
    """Somebody asks for a large output and does not read; others are served meanwhile."""
    job = server.submit("head -c 30000000 /dev/zero")
    server.over(job)
    slow = UnixConnection(server.path)
    slow.request("GET", f"/v1/jobs/{job}/output")
    for _ in range(20):
        assert server.over(server.submit("exit 0"))["state"] == "done"
    answer = slow.getresponse()
    assert len(answer.read()) == 30_000_000
    slow.close()


def test_a_follower_that_goes_away_leaves_nothing_open(server: Server) -> None:
    job = server.submit("echo begun; sleep 60")
    link = UnixConnection(server.path)
    link.request("GET", f"/v1/jobs/{job}/output?follow=true")
    assert link.getresponse().read1(100) == b"begun\n"
    path = server.show(job)["stdout"]
    server.until(lambda: path in open_files())
    link.sock.shutdown(socket.SHUT_RDWR)
    link.close()
    server.until(lambda: path not in open_files())
    server.ask("POST", f"/v1/jobs/{job}/cancel")


def open_files() -> list[str]:
    """Of this process, which is the server's too."""
    found = []
    for one in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{one}"))
    return found


def test_half_a_request_stops_nobody(server: Server) -> None:
    link = UnixConnection(server.path)
    link.connect()
    link.sock.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert server.ask("GET", "/v1/ping").status == 200
    link.close()
    assert server.over(server.submit("exit 0"))["state"] == "done"


def test_a_job_without_a_program_is_learned_by_its_command(server: Server) -> None:
    for command, name in ((["/bin/sleep", "0"], "sleep"), (["mpirun", "./ring"], "ring")):
        job = server.ask("POST", "/v1/jobs", {"command": command, "hold": True}).body["job"]
        assert server.show(job)["program"] == name
        server.ask("POST", f"/v1/jobs/{job}/cancel")
    named = server.submit("exit 0", hold=True, program="own", nodes=1)
    assert (server.show(named)["program"], server.show(named)["whole_nodes"]) == ("own", 1)
    server.ask("POST", f"/v1/jobs/{named}/cancel")


def test_a_job_whose_forerunner_failed_is_not_told_about_nodes(server: Server) -> None:
    failed = server.submit("exit 3")
    server.over(failed)
    for path in ("/v1/jobs", "/v1/jobs?dry_run=true"):
        answer = server.ask("POST", path, {"command": ["true"], "after": [failed]})
        assert (answer.status, answer.body["error"]) == (400, f"job {failed} it depends on did not finish well")
        assert "after_any" in answer.body["fix"]
        assert "nodes" not in answer.body["fix"]


def test_an_array_is_held_as_long_as_all_that_is_left_of_it_is(server: Server) -> None:
    server.submit("sleep 60", name="few", array="1-2", hold=True)
    assert server.show("few")["state"] == "held"
    server.ask("POST", "/v1/jobs/few_1/cancel")
    assert server.show("few")["state"] == "held"
    server.ask("POST", "/v1/jobs/few/release")
    assert server.show("few")["state"] in ("queued", "running")
    server.ask("POST", "/v1/jobs/few/cancel")
