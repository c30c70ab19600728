"""When something is broken: the journal cannot be written, the audit log cannot, a route fails. Never a bare 500."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cohabit.live.api.audit import Audit
from cohabit.live.api.logs import JsonLines
from cohabit.live.controller.place import Place
from tests.live.api.serving import Server, served


def pragma(server: Server, text: str) -> None:
    """Something said to the controller's own connection to SQLite, in its own thread."""
    journal = server.service.parts.journal

    def say(_: object) -> None:
        journal._connection.exec_driver_sql(text)
        journal._connection.commit()

    server.run(server.service.controller.ask(say))


@pytest.mark.parametrize("fault", ["PRAGMA query_only = ON", "PRAGMA max_page_count = 1"])
def test_a_journal_that_cannot_be_written_is_said_and_gets_over(fault: str, tmp_path: Path) -> None:
    """Read-only and full, as SQLite itself makes them."""
    with served() as server:
        running = server.submit(f"while ! test -e {tmp_path}/go; do sleep 0.05; done")
        kept = server.submit("exit 0", hold=True)
        pragma(server, fault)
        big = {"command": ["true"], "environment": dict.fromkeys("ABCD", "x" * 60_000)}
        for _ in range(80):  # there is some room inside the file
            answer = server.ask("POST", "/v1/jobs", big)
            if answer.status != 201:
                break
        assert answer.status == 503, answer
        assert "cannot be written" in answer.body["error"]
        assert answer.body["fix"]
        assert answer.headers["retry-after"]
        assert server.ask("POST", f"/v1/jobs/{kept}/cancel").status in (200, 503)
        assert server.ask("GET", "/v1/jobs").status == 200
        assert server.ask("GET", f"/v1/jobs/{running}").status == 200
        (tmp_path / "go").touch()  # its end waits until it can be written
        pragma(server, "PRAGMA query_only = OFF")
        pragma(server, "PRAGMA max_page_count = 1000000")
        assert server.ask("POST", "/v1/jobs", big).status == 201
        assert server.over(running)["state"] == "done"


def test_an_audit_log_that_cannot_be_written_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with served() as server:
        Place(server.config.place).audit.mkdir()
        assert server.over(server.submit("exit 0"))["state"] == "done"
        assert "cohabit_audit_failures 1.0" in server.ask("GET", "/metrics").body
        assert '"action":"submit"' in caplog.text
        Place(server.config.place).audit.rmdir()
        server.submit("exit 0")
        assert len(server.ask("GET", "/v1/audit").body["entries"]) == 1


def test_a_fault_of_ours_is_one_sentence_and_a_logged_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with served() as server:

        async def broken(*_: Any) -> None:
            raise ZeroDivisionError("a fault")

        assert server.service.api is not None
        server.service.api.parts.looking.full_view = broken  # type: ignore[assignment,method-assign]
        answer = server.ask("GET", "/v1/jobs/1")
        assert (answer.status, set(answer.body)) == (503, {"error", "where", "fix"})
        assert "ZeroDivisionError" not in str(answer.body)
        assert "ZeroDivisionError" in caplog.text
        assert server.ask("GET", "/v1/ping").status == 200


def test_a_database_that_is_damaged_while_it_is_read(tmp_path: Path) -> None:
    with served() as server:
        server.submit("exit 0", hold=True)
        journal = server.service.parts.journal
        other = sqlite3.connect(Place(server.config.place).journal, timeout=60)
        other.execute("ALTER TABLE cohabit_records RENAME TO elsewhere")
        other.close()
        answer = server.ask("GET", "/v1/jobs")
        assert (answer.status, "cannot be read" in answer.body["error"]) == (503, True)
        other = sqlite3.connect(Place(server.config.place).journal, timeout=60)
        other.execute("ALTER TABLE elsewhere RENAME TO cohabit_records")
        other.close()
        assert server.ask("GET", "/v1/jobs").status == 200
        assert journal.next_seq > 1


def test_the_newest_audit_entries_are_found_from_the_end(tmp_path: Path) -> None:
    async def scene() -> None:
        audit = Audit(tmp_path / "audit.jsonl")
        await asyncio.gather(*(audit.note("ann", "user", "here", "submit", str(n), 201, "x" * 300) for n in range(900)))
        with open(tmp_path / "audit.jsonl", "ab") as stream:
            stream.write(b'{"about": "cut off')
        found = await audit.newest(500)
        assert [one["about"] for one in found] == [str(n) for n in range(899, 400, -1)]
        assert len(await audit.newest(10_000)) == 900

    asyncio.run(scene())


def test_log_lines_are_json() -> None:
    record = logging.makeLogRecord(
        {"msg": "job %s ended", "args": ("7",), "levelname": "INFO", "name": "x", "job": "7"}
    )
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["level"], line["job"]) == ("job 7 ended", "info", "7")
    assert "\n" not in JsonLines().format(logging.makeLogRecord({"msg": "a\nb", "name": "x", "levelname": "INFO"}))


def test_a_service_manager_is_told_when_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with served():
            assert manager.recv(100) == b"READY=1"
        assert manager.recv(100) == b"STOPPING=1"


def test_requests_are_logged_for_those_who_want_it(caplog: pytest.LogCaptureFixture) -> None:
    with served() as server, caplog.at_level(logging.INFO, "cohabit.live.api.guard"):
        server.ask("GET", "/v1/jobs/nobody%0Ahere")
        (record,) = [one for one in caplog.records if one.name == "cohabit.live.api.guard"]
    line = json.loads(JsonLines().format(record))
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/jobs/nobody\nhere", 422)
    assert "\n" not in record.getMessage()
