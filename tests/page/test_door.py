"""The page's files, its door and its second lock, without a browser: what is sent, to whom, and what is refused."""

from __future__ import annotations

import http.client
import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cohabit.live.api import page_door
from cohabit.live.api.page_files import POLICY, assets
from cohabit.live.api.page_packing import packed
from cohabit.live.api.settings import ApiSettings
from tests.api.serving import Server, ask, served
from tests.page.conftest import link_of

FOLDER = Path(__file__).resolve().parents[2] / "src" / "cohabit" / "page"


@pytest.fixture(scope="module")
def both() -> Iterator[Server]:
    """A server with a socket and TCP."""
    with served(ApiSettings(host="127.0.0.1")) as one:
        yield one


def test_files_are_sent_with_a_strict_policy_and_nothing_else_is(both: Server) -> None:
    for path in ("/", "/page/main.js", "/page/style.css"):
        answer = both.ask_tcp("GET", path)
        assert answer.status == 200, path
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
    for path in ("/page/../app.py", "/page/%2e%2e%2fsite.toml", "/page/nothing.js", "/page/"):
        assert both.ask_tcp("GET", path).status in (404, 405), path
    again = {"If-None-Match": both.ask_tcp("GET", "/").headers["etag"]}
    assert both.ask("GET", "/", headers=again).status == 304


def test_the_page_takes_nothing_from_elsewhere_and_makes_no_markup() -> None:
    names = set(assets())
    assert names == {path.name for path in FOLDER.iterdir()}
    for name, one in assets().items():
        text = one.content.decode()
        found = re.findall(r"https?://[^\s\"'`]+", text)
        assert not [address for address in found if not address.startswith("http://www.w3.org/")], name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )
        if name.endswith(".js"):
            for module in re.findall(r"(?:from|import\()\s*\"\./([^\"]+)\"", text):
                assert module in names, (name, module)
    assert "unsafe" not in POLICY


def test_every_answer_about_jobs_needs_somebody(both: Server) -> None:
    for path in ("about", "overview", "series", "jobs", "jobs/1", "nodes/0", "programs", "predictions", "domains",
                 "gantt"):  # fmt: skip
        assert both.ask_tcp("GET", f"/v1/page/{path}").status == 401, path
    assert both.ask_tcp("POST", "/v1/page/link", body={}).status == 401


def test_a_key_is_good_once(both: Server) -> None:
    key = link_of(both).partition("#key=")[2]
    first = both.ask_tcp("POST", "/v1/page/enter", body={"key": key})
    assert first.status == 200
    assert both.ask_tcp("GET", "/v1/ping", first.body["token"]).body["role"] == "admin"
    assert both.ask_tcp("POST", "/v1/page/enter", body={"key": key}).status == 401
    assert both.ask_tcp("POST", "/v1/page/enter", body={"key": "guess"}).status == 401
    assert both.ask_tcp("POST", "/v1/page/link", first.body["token"], {}).status == 403  # a token begets no others
    entries = both.ask("GET", "/v1/audit?limit=20").body["entries"]
    assert any(entry["action"] == "enter page" for entry in entries)


def test_the_verb_prints_a_link_that_lets_in(both: Server) -> None:
    call = [sys.executable, "-m", "cohabit.cli", "page", "--server", both.path]
    told = json.loads(subprocess.run([*call, "--json"], check=True, capture_output=True, timeout=120).stdout)
    assert told["good_for_s"] == page_door.KEY_S
    address, _, key = told["url"].partition("/#key=")
    assert address == f"http://127.0.0.1:{both.port}"
    assert both.ask_tcp("POST", "/v1/page/enter", body={"key": key}).status == 200


def test_without_tcp_a_door_on_loopback_is_opened_when_it_is_asked_for() -> None:
    with served(ApiSettings()) as one:
        assert one.port == 0
        first, second = link_of(one), link_of(one)
        assert first.split("#")[0] == second.split("#")[0]
        host = first.split("/")[2]
        link = http.client.HTTPConnection(host, timeout=60)
        assert ask(link, "POST", "/v1/page/enter", {"key": first.partition("#key=")[2]}).status == 200


def test_a_key_grows_old(both: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_door, "KEY_S", -1.0)
    key = link_of(both).partition("#key=")[2]
    assert both.ask_tcp("POST", "/v1/page/enter", body={"key": key}).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://["},
    ],
)  # fmt: skip
def test_changes_from_other_sites_are_refused_whatever_they_carry(both: Server, headers: dict[str, str]) -> None:
    answer = both.ask("POST", "/v1/jobs", {"command": ["true"], "name": "from-another-site"}, headers)
    assert answer.status == 403
    assert "another site" in answer.body["error"]
    assert both.ask("GET", "/v1/jobs/from-another-site").status == 404


def test_changes_from_the_page_itself_and_from_programs_pass(both: Server) -> None:
    token = both.ask("POST", "/v1/tokens", {}).body["token"]
    own = {"Origin": f"http://127.0.0.1:{both.port}", "Sec-Fetch-Site": "same-origin",
           "Authorization": f"Bearer {token}"}  # fmt: skip
    link = http.client.HTTPConnection("127.0.0.1", both.port, timeout=60)
    assert ask(link, "POST", "/v1/jobs", {"command": ["true"], "hold": True}, own).status == 201
    assert both.ask("POST", "/v1/jobs", {"command": ["true"], "hold": True}).status == 201


def test_lists_are_cut_searched_and_sorted_by_the_server(both: Server) -> None:
    for number in range(7):
        both.submit("exit 0", name=f"row-{number}", program="odd" if number % 2 else "even", hold=True)
    first = both.ask("GET", "/v1/page/jobs?view=waiting&find=row-&sort=job&most=3").body
    assert [one["job"] for one in first["jobs"]] == ["row-0", "row-1", "row-2"]
    assert first["total"] == 7
    last = both.ask("GET", "/v1/page/jobs?view=waiting&find=row-&sort=job&down=true&first=5&most=3").body
    assert [one["job"] for one in last["jobs"]] == ["row-1", "row-0"]
    assert both.ask("GET", "/v1/page/jobs?find=odd").body["total"] == 3
    assert "held" in first["jobs"][0]["why"]
    assert both.ask("GET", "/v1/page/jobs?sort=secret").status == 422
    assert both.ask("GET", "/v1/page/nodes/99").status == 404


def test_columns_are_packed_at_multiples_of_eight() -> None:
    content = packed({"ids": ["a"]}, {"job": np.array([1, 2, 3], np.int64), "start": np.array([0.5])})
    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    assert header == {"ids": ["a"], "arrays": [["job", "i32", 3], ["start", "f64", 1]]}
    at = 4 + length + (-(4 + length) % 8)
    assert at % 8 == 0
    assert struct.unpack_from("<3i", content, at) == (1, 2, 3)
    assert struct.unpack_from("<d", content, at + 16) == (0.5,)
    assert len(content) == at + 24
