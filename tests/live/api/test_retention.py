"""Retention of a running scheduler: operators prune, and what was removed is told in one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cohabit.live.controller.place import Place
from cohabit.live.controller.retention import KeepConfig
from tests.cli.cli_calls import cohabit
from tests.live.api.serving import Server, ask_as, served

NOBODY, STRANGER = 65534, 54321
SEE = "[keep] of the site file says how long"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(keep=KeepConfig(outputs_days=0)) as one:
        yield one


def keep(server: Server, **others: float) -> None:
    server.service.retention.keep = replace(server.service.retention.keep, **others)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_what_was_removed_is_said_and_only_operators_remove(server: Server) -> None:
    def of_nobody(method: str, path: str, body: object = None, uid: int = NOBODY) -> tuple[int, str]:
        answer = ask_as(uid, uid, server, method, path, body)
        return answer.status, answer.body["error"] if answer.status >= 400 else answer.body

    true = {"command": ["/bin/sh", "-c", "echo hello"], "limit_s": 60}
    number = ask_as(NOBODY, NOBODY, server, "POST", "/v1/jobs", true).body["job"]
    ask_as(NOBODY, NOBODY, server, "POST", "/v1/jobs", true | {"name": "named"})
    holds = server.submit("true", hold=True)
    for job in (number, "named"):
        assert server.over(job)["state"] == "done"
    server.idle()
    assert of_nobody("POST", "/v1/prune") == (403, "only operators may do this")
    would = server.ask("POST", "/v1/prune?dry_run=true").body
    assert (would["dry_run"], would["outputs"]["count"], would["records"]["count"]) == (True, 2, 0)
    assert server.ask("GET", f"/v1/jobs/{number}/output").body == "hello\n"
    done = server.ask("POST", "/v1/prune").body
    assert done == would | {"dry_run": False}
    assert server.show(number)["state"] == "done"
    gone = ask_as(NOBODY, NOBODY, server, "GET", f"/v1/jobs/{number}/output")
    assert (gone.status, gone.body["error"]) == (404, "its output was removed by retention")
    assert SEE in gone.body["fix"]

    keep(server, records_days=0)
    said = cohabit("prune", "--dry-run", "--server", str(server.config.place)).out
    assert said.startswith("would be removed: 2 records of finished jobs (")
    assert cohabit("prune", "--server", str(server.config.place)).out.startswith("removed: 2 records")
    for job in (number, "named"):
        for path in ("", "/output", "/why", "/wait"):
            assert server.ask("GET", f"/v1/jobs/{job}{path}").body["error"] == "its record was removed by retention"
    assert of_nobody("GET", "/v1/jobs/named") == (404, "its record was removed by retention")
    assert of_nobody("GET", "/v1/jobs/named", uid=STRANGER) == (404, "there is no such job")
    vague = (404, "its record was removed by retention, or it is not yours")
    assert of_nobody("GET", f"/v1/jobs/{number}", uid=STRANGER) == vague
    assert int(number) < int(holds)
    assert of_nobody("GET", f"/v1/jobs/{holds}") == (404, "there is no such job")
    taken = server.ask("POST", "/v1/jobs", true | {"name": "named"})
    assert (taken.status, taken.body["error"]) == (409, "a job of this name was here before")
    assert int(server.submit("true")) > int(holds)

    report = cohabit("report", "--server", str(server.config.place))
    assert "were removed by retention ([keep] of the site file)" in report.err
    assert server.ask("GET", "/v1/accounting").body["removed_before"] > 0
    noted = [one for one in server.ask("GET", "/v1/audit").body["entries"] if one["action"] == "prune"]
    assert [one["status"] for one in noted] == [200, 200]
    assert server.show(holds)["state"] == "held"


def test_the_controller_removes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from cohabit.live.controller import retention

    monkeypatch.setattr(retention, "FIRST_S", 0.1)
    monkeypatch.setattr(retention, "ALL_S", 0.2)
    with served(keep=KeepConfig(records_days=0)) as server:
        job = server.submit("echo hello")
        server.until(lambda: "removed by retention" in str(server.ask("GET", f"/v1/jobs/{job}").body.get("error")))
        assert not list((Place(server.config.place).output).rglob("*.out"))
