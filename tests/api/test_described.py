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
from tests.api.serving import Server
from tests.breadth import examples

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_the_page_names_every_route_and_every_key(server: Server) -> None:
    described, text = server.ask("GET", "/v1/openapi.json").body, PAGE.read_text()
    for path, methods in described["paths"].items():
        for method in methods:
            plain = path.replace("{job}", "ID").replace("{node}", "N").replace("{token}", "ID")
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
