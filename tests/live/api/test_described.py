"""The description of the API (OpenAPI) is true: calls made from it in every way it allows never break the server."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cohabit.live.api.groups import GroupTable, WindowTable
from cohabit.live.api.shapes import GroupShape, WindowShape
from tests.breadth import examples
from tests.live.api.serving import Server

PAGE = Path(__file__).resolve().parents[3] / "docs" / "api.md"


def test_the_page_names_every_route_and_every_key(server: Server) -> None:
    described, text = server.ask("GET", "/v1/openapi.json").body, PAGE.read_text()
    for path, methods in described["paths"].items():
        for method in methods:
            plain = path.replace("{node}", "N").replace("{name}", "NAME")
            plain = plain.replace("{job}", "ID").replace("{token}", "ID")
            assert re.search(rf"`{method.upper()} {re.escape(plain)}`", text), (method, path)
    for name in ("Submission", "JobView", "NodeView", "TokenView", "TokenWish", "Change", "GroupShape"):
        for key in described["components"]["schemas"][name]["properties"]:
            assert f"`{key}`" in text, (name, key)


def test_every_refusal_is_described(server: Server) -> None:
    described = server.ask("GET", "/v1/openapi.json").body
    for path, methods in described["paths"].items():
        for method, about in methods.items():
            assert {"401", "403", "404", "413", "422", "429", "503"} <= set(about["responses"]), (method, path)


@pytest.mark.parametrize(("shape", "table"), [(GroupShape, GroupTable), (WindowShape, WindowTable)])
def test_groups_have_the_keys_and_defaults_of_a_site_file(shape: Any, table: Any) -> None:
    ours = {name: one.default for name, one in shape.model_fields.items() if name != "name"}
    for one in msgspec.structs.fields(table):
        assert one.name in ours
        if not one.required and one.name != "window":
            assert ours[one.name] == one.default
    assert len(ours) == len(msgspec.structs.fields(table))


@pytest.mark.slow
def test_calls_made_from_the_description_break_nothing(server: Server) -> None:
    """Schemathesis, bounded: jobs are held so that nothing strange is executed."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings

    token = server.ask("POST", "/v1/tokens", {}).body["token"]
    described = server.ask("GET", "/v1/openapi.json").body
    schema = schemathesis.openapi.from_dict(described)
    held = server.submit("exit 0", hold=True, name="to-be-poked")
    made = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in ("/v1/events",):  # never ends
            continue

        @settings(
            max_examples=examples(12), deadline=None, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def poke(case: Any) -> None:
            nonlocal made
            made += 1
            status, body = send(server.port, token, case, held)
            assert status < 500, (case.method, case.path, status, body)
            if status >= 400:
                assert set(json.loads(body)) == {"error", "where", "fix"}, (case.method, case.path, body)

        poke()
    assert made > 150
    assert server.ask("GET", "/v1/ping").status == 200
    server.over(server.submit("exit 0"))


def send(port: int, token: str, case: Any, job: str) -> tuple[int, bytes]:
    """A generated call; half of those about a job are about one that is there."""
    given = dict(case.path_parameters or {})
    if "job" in given and len(str(given["job"])) % 2:
        given["job"] = job
    case.path_parameters = given
    sent = case.as_transport_kwargs(base_url=f"http://127.0.0.1:{port}")
    body = sent.get("json")
    if isinstance(body, dict) and case.path == "/v1/jobs" and case.method == "POST":
        body = {**body, "hold": True}
    query = {key: ("5" if key == "timeout_s" else value) for key, value in (sent.get("params") or {}).items()}
    from urllib.parse import urlencode, urlsplit

    address = urlsplit(sent["url"]).path + ("?" + urlencode(query, doseq=True) if query else "")
    if "timeout_s" in address or "/wait" in address:
        address = address.split("?")[0] + "?timeout_s=0.01"
    address = address.replace("follow=True", "follow=false").replace("follow=true", "follow=false")
    content = sent.get("data") if body is None else json.dumps(body).encode()
    if isinstance(content, str):
        content = content.encode("utf-8", "replace")
    headers = {"Authorization": f"Bearer {token}"} | ({"Content-Type": "application/json"} if content else {})
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    link.request(sent["method"], address, content, headers)
    answer = link.getresponse()
    found = answer.status, answer.read()
    link.close()
    return found


# ---- the description is as strict as the server ---------------------------------------------------------------------

TEXTS = (
    "", "a", "12", "a_1", "a.b-c_d", ".a", "-a", "a b", "ä", "a" * 64, "a" * 65, "a" * 80, "a" * 81,
    "a" * 255, "a" * 256,
    "a\n", "a\x00b", "a\x1bb", "a\x85b", "a\u2028b", "a\u202eb", "a=b", "/", "/tmp", "tmp/x", "%j", "/%j", "/%a", "/%A",
    "/%%", "/%", "/%z", "plain", "torch", "mpi", "compute", "io", "wait", "fail", "1-3", "1-3%2", "1-3%0", "1-3%00",
    "1-3%07", "1-", "-3", "1-3%", "1" * 10 + "-3", "0-0",
)  # fmt: skip
NUMBERS = (-1e9, -1001, -1000, -1, -0.5, 0, 1e-7, 1e-6, 0.5, 1, 1.0, 1.5, 2, 64, 1000, 1001, 10**6, 10**6 + 1,
           366 * 86400, 366 * 86400 + 1, 2**40, 2**40 + 1)  # fmt: skip
OTHERS = (None, True, False, [], ["a"], [""], ["a\x00"], [1], ["a", ""], {}, {"a": "b"}, {"": "b"}, {"a=": "b"},
          {"a": "b\x00"}, {"a\n": "b"}, {"a": 1})  # fmt: skip
GROUP = {"name": "pair", "members": {"alpha": "a", "beta": "b"}}
PAIRS = (
    {"folder": "/tmp", "stdout": "x"}, {"folder": "", "stdout": "x"}, {"folder": "/tmp", "stderr": "%a"},
    {"folder": "/tmp", "stderr": "%a", "array": "1-3"}, {"stdout": "x", "array": "1-3"},
    {"array": "1-3", "group": GROUP},
    {"array": None, "group": GROUP}, {"group": GROUP | {"window": [{"first": "alpha", "second": "beta"}]}},
    {"group": GROUP | {"window": [{"first": "alpha"}]}}, {"group": GROUP | {"members": {"alpha": "a"}}},
    {"group": GROUP | {"members": {"alpha": "a", "b\n": "b"}}}, {"unknown": 1},
)  # fmt: skip


def door(server: Server, method: str, path: str, body: Any) -> bool:
    """Whether the server understands it; what it then says about jobs and nodes is another matter."""
    answer = server.ask(method, path, body)
    assert answer.status < 500, (path, body, answer)
    return answer.status != 422


def cases(described: dict[str, Any], least: dict[str, Any]) -> list[dict[str, Any]]:
    """A smallest document with one key at a time set to anything of ours that could be near a bound."""
    found = []
    for key, about in described["properties"].items():
        kinds = {one.get("type") for one in about.get("anyOf", [about])}
        texts, numbers = "string" in kinds, bool(kinds & {"integer", "number"})
        values = (*TEXTS[: None if texts else 3], *NUMBERS[: None if numbers else 3], *OTHERS)
        found += [least | {key: value} for value in values]
    return found


@pytest.mark.parametrize(
    ("shape", "method", "path", "least"),
    [
        ("Submission", "POST", "/v1/jobs?dry_run=true", {"command": ["true"]}),
        ("GroupShape", "POST", "/v1/jobs?dry_run=true", GROUP),
        ("Change", "PATCH", "/v1/jobs/nobody", {"limit_s": 1}),
        ("TokenWish", "POST", "/v1/tokens", {"expires_in_s": 1}),
        ("ProfileShare", "POST", "/v1/profiles/share", {"program": "a", "user": "nobody"}),
    ],
)
def test_the_server_takes_what_the_description_allows_and_nothing_else(
    server: Server, shape: str, method: str, path: str, least: dict[str, Any]
) -> None:
    import jsonschema_rs

    described = server.ask("GET", "/v1/openapi.json").body
    schema = {"$ref": f"#/components/schemas/{shape}", "components": described["components"]}
    judge, wrong, said = jsonschema_rs.Draft202012Validator(schema), [], {True: 0, False: 0}
    documents = cases(described["components"]["schemas"][shape], least)
    documents += [least | pair for pair in PAIRS] if shape == "Submission" else [{}, least | {"unknown": 1}]
    for document in documents:
        allowed = judge.is_valid(document)
        said[allowed] += 1
        sent = {"command": ["true"], "group": document} if shape == "GroupShape" else document
        if door(server, method, path, sent) != allowed:
            wrong.append((document, "is allowed and refused" if allowed else "is forbidden and taken"))
    assert not wrong, wrong[:10]
    assert min(said.values()) > 5
