"""The page's files, its door and its second lock, without a browser: what is sent, to whom, and what is refused."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cohabit.live.api.page import door as page_door
from cohabit.live.api.page.charts import packed
from cohabit.live.api.page.files import POLICY, assets
from cohabit.live.api.page.sessions import signature
from cohabit.live.api.settings import ApiSettings
from tests.live.api.page_visitor import Visitor, visitor
from tests.live.api.serving import Server, ask, served
from tests.live.page.conftest import link_of

FOLDER = Path(__file__).resolve().parents[3] / "src" / "cohabit" / "page"


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
    link = link_of(both)
    first = visitor(link)
    assert first.ask("GET", "/v1/ping").body["role"] == "admin"
    assert Visitor(first.host).enter(link).status == 401
    assert Visitor(first.host).enter("#key=0123.guess").status == 401
    assert first.ask("POST", "/v1/page/link", {}).status == 403  # a session begets no others
    entries = both.ask("GET", "/v1/audit?limit=20").body["entries"]
    assert any(entry["action"] == "enter page" for entry in entries)


def test_the_verb_prints_a_link_that_lets_in(both: Server) -> None:
    call = [sys.executable, "-m", "cohabit.cli", "page", "--server", both.path]
    told = json.loads(subprocess.run([*call, "--json"], check=True, capture_output=True, timeout=120).stdout)
    assert told["good_for_s"] == page_door.KEY_S
    assert told["url"].partition("/#key=")[0] == f"http://127.0.0.1:{both.port}"
    assert visitor(told["url"]).ask("GET", "/v1/ping").status == 200


def test_without_tcp_a_door_on_loopback_is_opened_when_it_is_asked_for() -> None:
    with served(ApiSettings()) as one:
        assert one.port == 0
        first, second = link_of(one), link_of(one)
        assert first.split("#")[0] == second.split("#")[0]
        assert visitor(first).ask("GET", "/v1/ping").status == 200


def test_a_key_grows_old(both: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_door, "KEY_S", -1.0)
    assert Visitor(f"127.0.0.1:{both.port}").enter(link_of(both)).status == 401


def test_a_wrong_proof_does_not_use_up_a_link(both: Server) -> None:
    link = link_of(both)
    name = link.partition("#key=")[2].partition(".")[0]
    assert Visitor(f"127.0.0.1:{both.port}").enter(f"#key={name}.guess").status == 401
    assert visitor(link).ask("GET", "/v1/ping").status == 200


def test_a_signature_is_for_one_request_and_for_a_minute(both: Server) -> None:
    one = visitor(link_of(both))
    good = one.headers("GET", "/v1/jobs")
    assert ask(one.link(), "GET", "/v1/jobs", headers=good).status == 200
    assert ask(one.link(), "GET", "/v1/jobs", headers=good).status == 401, "it was used before"
    for target in ("/v1/nodes", "/v1/jobs?state=all"):
        assert ask(one.link(), "GET", target, headers=one.headers("GET", "/v1/jobs")).status == 401
    assert ask(one.link(), "POST", "/v1/jobs", b"{}", one.headers("POST", "/v1/jobs", b"[]")).status == 401
    assert ask(one.link(), "GET", "/v1/jobs", headers=one.headers("GET", "/v1/jobs", at=time.time() - 90)).status == 401
    for text in ("", "a", f"{one.id} 1 2 3", f"{one.id} {'9' * 16} {'n' * 20} {'0' * 64}", "\u00b2" * 4):
        headers = {"Authorization": f"Page {text}".encode("latin-1", "replace").decode("latin-1")}
        assert ask(one.link(), "GET", "/v1/jobs", headers=headers).status == 401


def test_a_typed_token_becomes_a_session_that_ends_with_it(both: Server) -> None:
    made = both.ask("POST", "/v1/tokens", {"user": "ann"}).body
    one = Visitor(f"127.0.0.1:{both.port}")
    assert one.sign_in("0123.wrong").status == 401
    assert one.sign_in(made["token"]).status == 200
    assert one.ask("GET", "/v1/ping").body["user"] == "ann"
    assert both.ask("DELETE", f"/v1/tokens/{made['id']}").status == 200
    assert one.ask("GET", "/v1/ping").status == 401


def test_the_server_proves_that_it_knows_a_token(both: Server) -> None:
    made = both.ask("POST", "/v1/tokens", {"user": "ann"}).body
    asked = {"id": made["id"], "nonce": "n" * 20}
    known = hashlib.sha256(made["token"].encode()).hexdigest().encode()
    told = both.ask_tcp("POST", "/v1/page/prove", body=asked)
    assert told.body == {"proof": signature(known, "prove", "n" * 20)}
    other = both.ask_tcp("POST", "/v1/page/prove", body={**asked, "id": "0123"})
    assert (other.status, len(other.body["proof"])) == (200, len(told.body["proof"]))
    both.ask("DELETE", f"/v1/tokens/{made['id']}")
    assert both.ask_tcp("POST", "/v1/page/prove", body=asked).body != told.body


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
    newest = both.ask("GET", "/v1/page/jobs?view=waiting&find=row-&sort=waited&most=1").body
    assert [one["job"] for one in newest["jobs"]] == ["row-6"]
    runs = both.submit("sleep 60", name="row-runs")
    both.until(lambda: both.show(runs)["state"] == "running")
    ran = both.ask("GET", "/v1/page/jobs?find=row-&sort=ran&down=true&most=1").body
    assert [one["job"] for one in ran["jobs"]] == ["row-runs"]
    assert both.ask("POST", f"/v1/jobs/{runs}/cancel").status == 200
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
