"""Every route of the API with texts nobody would write: the server answers each, and none of its answers is a 5xx.

The routes and their keys are taken from the server's own description, so a new route is attacked as soon as it is
there: first every text at every place with all else in order, then many at once at random. The latter is seeded:
COHABIT_CAMPAIGN_SEED repeats a run, and a failure names the seed and the call.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from cohabit.live.api.guard import wrong_in_body
from cohabit.live.api.settings import ApiSettings
from tests.live.api.serving import Answer, Server, UnixConnection, ask, served

RANDOM_S, LEAST_CALLS = 6.0, 300
ENDLESS = ("/v1/events",)
TEXTS = (
    "", "\0", "a\0b", "\ud800", "\udfff", "a\udc80b", "\ud83d\ude00", "\n", "a\nb", "\r\n\r\nGET / HTTP/1.1", "\x1b[2J",
    "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\uffff", "\U0010ffff", "=", "A=B", "..", "../../etc/passwd", "/",
    "%", "%00", "%j%A%a", "%s%n", "{}", "${HOME}", "$(id)", "`id`", "'; DROP TABLE cohabit_jobs; --", "-rf", "--help",
    "1_1", "0", "-1", "9" * 40, "1e999", "nan", "null", "true", "[]", "٣", "x" * 64, "x" * 65, "x" * 5000,
    "é" * 63, "\u0301" * 300, "a-b%0", "1-2%3", "5-1", "ﬀ", "ß" * 255,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**300, 0.1, -0.0, 1e308, float("inf"), float("-inf"),
    float("nan"), [], {}, [[]], {"": ""}, {"\ud800": "\ud800"}, ["\ud800"], [None],
)  # fmt: skip
RAW = (
    b"", b"{", b"[" * 20_000, b"\xff\xfe\x00", b'"\xed\xa0\x80"', b'{"command": ["true"], "environment": {"\xff": ""}}',
    '{"command": ["true"]}'.encode("utf-16"), '{"command": ["\\ud800"]}'.encode("utf-16-le"),
    '{"command": ["true"]}'.encode("utf-32"), b"\xef\xbb\xbf{}", b"0" * 5000,
    b'{"command": ["true"], "command": 1}', b"NaN", b"1e400", b'"\\u0000"', b"\0",
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(ApiSettings(host="127.0.0.1")) as one:
        yield one


Call = tuple[str, str, bytes | None, dict[str, str]]  # method, address, body, headers


class Attack:
    """Calls made from a description."""

    def __init__(self, seed: int, described: dict[str, Any], job: str) -> None:
        self.random, self.described, self.job = random.Random(seed), described, job
        self.calls = [
            (method.upper(), path, about)
            for path, methods in described["paths"].items()
            for method, about in methods.items()
            if path not in ENDLESS
        ]

    def every_place(self) -> Iterator[Call]:
        """One hostile text at a time, wherever a route takes one; all else as it should be."""
        for method, path, about in self.calls:
            names = {one["name"]: one["in"] for one in about.get("parameters", ())}
            sound = {name: self.job if name == "job" else "0" for name, where in names.items() if where == "path"}
            schema = self.schema(about)
            body = None if schema is None else self.sound_body(schema)
            end = "?timeout_s=0.01" if path.endswith("/wait") else "?"
            for text in TEXTS:
                written = quote(text.encode("utf-8", "surrogatepass"), safe="")
                for name, where in names.items():
                    if where == "path":
                        yield method, path.format(**{**sound, name: written or "%20"}) + end, body, {}
                    elif name not in ("follow", "timeout_s"):
                        yield method, f"{path.format(**sound)}{end}&{name}={written}", body, {}
                for content in () if schema is None else self.with_one(schema, text):
                    for form in {json.dumps(content), json.dumps(content, ensure_ascii=False)}:
                        yield method, path.format(**sound) + end, form.encode("utf-8", "surrogatepass"), {}

    def schema(self, about: dict[str, Any]) -> dict[str, Any] | None:
        """Of the body that a route takes."""
        wanted = about.get("requestBody")
        return None if wanted is None else self.resolved(next(iter(wanted["content"].values()))["schema"])

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What a reference means; of alternatives the first."""
        while "$ref" in schema or "anyOf" in schema:
            name = schema.get("$ref", "").rpartition("/")[2]
            schema = self.described["components"]["schemas"][name] if name else schema["anyOf"][0]
        return schema

    def sound(self, schema: dict[str, Any]) -> Any:
        """What a server would take, as far as its shape goes."""
        schema = self.resolved(schema)
        match schema.get("type"):
            case "object":
                return {key: self.sound(schema["properties"][key]) for key in schema.get("required", ())}
            case "array":
                return [self.sound(schema.get("items", {}))]
            case "integer" | "number":
                return 1
            case "boolean":
                return True
        return "true"

    def sound_body(self, schema: dict[str, Any]) -> bytes:
        """Nothing strange is executed: jobs are held."""
        content = self.sound(schema)
        return json.dumps(content | ({"hold": True} if "command" in content else {})).encode()

    def with_one(self, schema: dict[str, Any], text: str) -> Iterator[Any]:
        """Sound documents of this shape, each with the text at another place; as a key too."""
        schema = self.resolved(schema)
        match schema.get("type"):
            case "object" if "properties" in schema:
                whole = self.sound(schema)
                if "command" in schema["properties"]:
                    whole["hold"] = True
                for key, about in schema["properties"].items():
                    yield from (whole | {key: one} for one in self.with_one(about, text))
                yield whole | {text: 1}
            case "object":
                inner = schema.get("additionalProperties", {})
                yield from ({"a": one, "b": self.sound(inner)} for one in self.with_one(inner, text))
                yield {text: self.sound(inner), "b": self.sound(inner)}
            case "array":
                yield from (["true", one] for one in self.with_one(schema.get("items", {}), text))
            case "string":
                yield text

    def text(self) -> str:
        """Something hostile, mostly from the list."""
        if self.random.random() < 0.2:
            return "".join(chr(self.random.randrange(0x110000)) for _ in range(self.random.randrange(1, 30)))
        return self.random.choice(TEXTS)

    def value(self, schema: dict[str, Any]) -> Any:
        """Of the right shape most of the time, with hostile texts in it."""
        if self.random.random() < 0.2:
            return self.random.choice((*VALUES, self.text()))
        if "$ref" in schema:
            schema = self.described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            return self.value(self.random.choice(schema["anyOf"]))
        match schema.get("type"):
            case "object" if "properties" in schema:
                return self.filled(schema)
            case "object":
                inner = schema.get("additionalProperties", {})
                return {self.text(): self.value(inner if isinstance(inner, dict) else {}) for _ in range(2)}
            case "array":
                return [self.value(schema.get("items", {})) for _ in range(self.random.randrange(4))]
            case "integer" | "number":
                return self.random.choice((0, 1, 2, 60, 0.5, 1e9, *VALUES[2:16]))
            case "boolean":
                return self.random.random() < 0.5
        return self.text()

    def filled(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Some of the keys, most often those that are needed."""
        needed = schema.get("required", [])
        found = {
            key: self.value(about)
            for key, about in schema["properties"].items()
            if self.random.random() < (0.95 if key in needed else 0.15)
        }
        if self.random.random() < 0.1:
            found[self.text()] = self.text()
        return found

    def call(self) -> Call:
        """Method, address, body, headers."""
        method, path, about = self.random.choice(self.calls)
        query = []
        for one in about.get("parameters", ()):
            text = str(self.value(one.get("schema", {})))
            if one["in"] == "path":
                known = one["name"] == "job" and self.random.random() < 0.5
                path = path.replace(f"{{{one['name']}}}", self.job if known else self.escaped(text) or "x")
            elif one["name"] == "follow":
                continue  # would wait for the end of a held job
            elif self.random.random() < 0.4:
                query.append(f"{quote(one['name'])}={self.escaped(text)}")
        if path.endswith("/wait"):
            query = ["timeout_s=0.01", *query]
        address = path + ("?" + "&".join(query) if query else "")
        headers = {}
        if self.random.random() < 0.2:
            hostile = "".join(one for one in self.text() if one.isprintable())
            name = self.random.choice(("Authorization", "X-Forwarded-For", "Accept", "Origin", "Content-Type"))
            headers[name] = hostile.encode("latin-1", "replace").decode("latin-1")
        return method, address, self.body(about), headers

    def escaped(self, text: str) -> str:
        """For an address; sometimes as bytes that are no text."""
        return quote(text.encode("utf-8", "surrogatepass"), safe="") + ("%ff" if self.random.random() < 0.1 else "")

    def body(self, about: dict[str, Any]) -> bytes | None:
        """JSON with lone surrogates escaped, or as raw bytes; or nothing of the kind."""
        wanted = about.get("requestBody")
        if wanted is None:
            return None
        if self.random.random() < 0.1:
            return self.random.choice(RAW)
        content = self.value(next(iter(wanted["content"].values()))["schema"])
        if isinstance(content, dict) and "command" in content:
            content["hold"] = True  # nothing strange is executed
            content["command"] = ["/bin/true", self.text()] if self.random.random() < 0.7 else content["command"]
        if self.random.random() < 0.5:
            return json.dumps(content).encode()
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Caller:
    """One connection for many calls, made anew where the server closes it."""

    def __init__(self, server: Server) -> None:
        self.link = UnixConnection(server.path)
        self.statuses: Counter[int] = Counter()

    def send(self, call: Call) -> None:
        """An answer is no 5xx, and a refusal is a sentence."""
        method, address, body, headers = call
        self.link.request(method, address, body, {"Content-Type": "application/json", **headers})
        answer = self.link.getresponse()
        content = answer.read()
        self.statuses[answer.status] += 1
        about = (method, address[:300], (body or b"")[:500], headers, answer.status, content[:500])
        assert answer.status < 500, about
        if answer.status >= 400:
            assert set(json.loads(content)) == {"error", "where", "fix"}, about


def lives(server: Server) -> None:
    assert server.ask("GET", "/v1/ping").status == 200
    for node in range(2):  # some call may have drained them
        assert server.ask("POST", f"/v1/nodes/{node}/resume").status == 200
    for window in server.ask("GET", "/v1/nodes").body["windows"]:  # or closed them
        assert server.ask("DELETE", f"/v1/windows/{window['name']}").status == 200
    assert server.over(server.submit("exit 0"))["state"] == "done"


def test_every_hostile_text_at_every_place_breaks_nothing(server: Server) -> None:
    held = server.submit("exit 0", hold=True, name="to-be-poked")
    attack, caller = Attack(1, server.ask("GET", "/v1/openapi.json").body, held), Caller(server)
    routes = set()
    for call in attack.every_place():
        caller.send(call)
        routes.add((call[0], call[1].split("?")[0].count("/")))
    lives(server)
    assert len(attack.calls) > 20
    assert len(routes) > 5
    assert sum(caller.statuses.values()) > 20 * len(TEXTS)
    assert {200, 201, 404, 422} <= set(caller.statuses), caller.statuses


def test_many_hostile_texts_at_once_break_nothing(server: Server) -> None:
    seed = int(os.environ.get("COHABIT_CAMPAIGN_SEED", "27"))
    held = server.submit("exit 0", hold=True, name="poked-at-random")
    attack, caller = Attack(seed, server.ask("GET", "/v1/openapi.json").body, held), Caller(server)
    until = time.monotonic() + RANDOM_S
    while time.monotonic() < until or sum(caller.statuses.values()) < LEAST_CALLS:
        try:
            caller.send(attack.call())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    lives(server)


def raw(server: Server, body: bytes) -> Answer:
    return ask(UnixConnection(server.path), "POST", "/v1/jobs", body)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le"])
def test_bodies_are_utf_8(server: Server, encoding: str) -> None:
    assert raw(server, '{"command": ["true"], "hold": true}'.encode(encoding)).status == 422


def test_whole_surrogate_pairs_and_escaped_backslashes_are_taken(server: Server) -> None:
    body = rb'{"command": ["/bin/true", "\ud83d\ude00", "\\ud800"], "hold": true}'
    assert wrong_in_body(body) == ""
    taken = raw(server, body)
    assert taken.status == 201, taken
    assert server.show(taken.body["job"])["command"] == ["/bin/true", "\U0001f600", "\\ud800"]
