"""HTTP as the client reads it: every way to say how long an answer is, and every way to say it wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cohabit.app.client import wire as client_wire
from cohabit.app.client.connection import quoted
from cohabit.app.client.wire import Garbled, Link


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    link = Link(ours, "localhost")
    yield link, theirs
    link.close()
    theirs.close()


def answered(ends: tuple[Link, socket.socket], answer: bytes, close: bool = True) -> tuple[int, bytes]:
    link, theirs = ends
    theirs.sendall(answer)
    if close:
        theirs.shutdown(socket.SHUT_WR)
    got = link.ask("GET", "/v1/ping", None, {})
    return got.status, got.body()


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH:5\r\ncontent-length: 5\r\n\r\nhello, and more", 200, b"hello"),
        (b"HTTP/1.1 404 \r\ncontent-length: 0\r\n\r\n", 404, b""),
        (b"HTTP/1.0 200 OK\n\nuntil it closes", 200, b"until it closes"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok", 201, b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nB;x=y\r\n, many more\r\n0\r\n\r\n", 200,
         b"hello, many more"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\nTrailer: y\r\n\r\n", 200, b"x"),
    ],
)  # fmt: skip
def test_answers(ends: tuple[Link, socket.socket], answer: bytes, status: int, body: bytes) -> None:
    assert answered(ends, answer) == (status, body)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"220 mail.example ESMTP\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 30 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        CHUNKED, CHUNKED + b"5\r\nhel", CHUNKED + b"5\r\nhello, more\r\n0\r\n\r\n",
        CHUNKED + b"-1\r\n", CHUNKED + b"0x5\r\n",
        CHUNKED + b"f_f\r\n", CHUNKED + b"\r\n", CHUNKED + b"fffffffffffffffff\r\n", CHUNKED + b"5\r\nhello\r\n",
    ],
)  # fmt: skip
def test_what_is_not_an_answer(ends: tuple[Link, socket.socket], answer: bytes) -> None:
    with pytest.raises(Garbled):
        answered(ends, answer)


def test_an_answer_without_end_is_not_kept(ends: tuple[Link, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_wire, "LARGEST_BODY", 1000)
    with pytest.raises(Garbled, match="too long"):
        answered(ends, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000)


def test_pieces_come_as_they_are_sent(ends: tuple[Link, socket.socket]) -> None:
    link, theirs = ends
    theirs.sendall(CHUNKED + b"5\r\nfirst\r\n")
    pieces = link.ask("GET", "/", None, {}).pieces()
    assert next(pieces) == b"first"
    theirs.sendall(b"6\r\nsecond\r\n0\r\n\r\n")
    assert list(pieces) == [b"second"]


def test_two_questions_on_one_connection(ends: tuple[Link, socket.socket]) -> None:
    link, theirs = ends
    theirs.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none")
    assert link.ask("POST", "/a", b"{}", {"Content-Type": "application/json"}, last=False).body() == b"one"
    theirs.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo")
    assert link.ask("GET", "/b", None, {}).body() == b"two"
    first, _, second = theirs.recv(65536).partition(b"{}")
    assert b"Content-Length: 2\r\n" in first
    assert b"Connection: close" not in first
    assert second.startswith(b"GET /b HTTP/1.1\r\nHost: localhost\r\n")
    assert b"Connection: close\r\n" in second


def test_a_server_that_says_nothing(ends: tuple[Link, socket.socket]) -> None:
    link, _ = ends
    link.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        link.ask("GET", "/", None, {})


@pytest.mark.parametrize(
    ("text", "written"),
    [("12_3", "12_3"), ("a b/c", "a%20b%2Fc"), ("%", "%25"), ("é", "%C3%A9"), ("\udcff", "%FF"),
     ("?&=#\r\n", "%3F%26%3D%23%0D%0A")],
)  # fmt: skip
def test_names_in_addresses(text: str, written: str) -> None:
    assert quoted(text) == written
