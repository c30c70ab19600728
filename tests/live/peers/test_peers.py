"""Messages between controllers over real HTTP: who may speak, what is refused and why; a dead peer blocks nobody."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from cohabit.live.peers.keys import PairKeys, client_context, read_keys, server_context, write_new_key
from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, QUEUE_MOST, SIGNATURE_HEADER, Peer, PeerLinks
from cohabit.live.peers.server import MOST_BYTES, Doorkeeper, PeerServer
from cohabit.model.errors import InputError
from cohabit.model.peer import Announce, Message, encode

KEYS = PairKeys({"1": b"k" * 32})


def message(seq: int = 1, sender: str = "alpha", receiver: str = "beta", epoch: int = 1) -> Announce:
    return Announce(group="pair", sender=sender, receiver=receiver, epoch=epoch, seq=seq, job="job")


def headers(said: Message, keys: PairKeys = KEYS, key_id: str = "1") -> dict[str, str]:
    return {"content-type": CONTENT_TYPE, KEY_HEADER: key_id, SIGNATURE_HEADER: keys.sign(said)}


class Beta:
    """A domain that listens; `taken` are the messages that came through."""

    def __init__(self, peer: Peer | None = None) -> None:
        self.taken: list[Message] = []
        self.busy = False
        peers = {"alpha": peer or Peer("alpha", "", KEYS)}
        self.server = PeerServer(Doorkeeper("beta", peers, self.hear), "127.0.0.1", 0)
        self.url = ""

    def hear(self, said: Message) -> bool:
        if not self.busy:
            self.taken.append(said)
        return not self.busy

    async def __aenter__(self) -> Beta:
        self.url = f"http://127.0.0.1:{await self.server.open()}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()

    async def post(self, content: bytes, given: dict[str, str], path: str = "/peer") -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.post(self.url + path, content=content, headers=given)


def test_messages_arrive_in_order_over_one_connection() -> None:
    async def scene() -> list[Message]:
        async with Beta() as beta:
            links = PeerLinks({"beta": Peer("beta", beta.url, KEYS)})
            await links.open()
            for seq in range(1, 51):
                links.post("beta", message(seq))
            while links.standing() != {"beta": (50, 0, "")}:
                await asyncio.sleep(0.01)
            await links.close()
            return beta.taken

    assert asyncio.run(asyncio.wait_for(scene(), 120)) == [message(seq) for seq in range(1, 51)]


@pytest.mark.parametrize(
    ("said", "given", "path", "status", "reason"),
    [
        (message(sender="mallory"), headers(message(sender="mallory")), "/peer", 403, "not a peer"),
        (message(), headers(message(2)), "/peer", 401, "could not be authenticated"),
        (message(), headers(message(), PairKeys({"1": b"x" * 32})), "/peer", 401, "could not be authenticated"),
        (message(), headers(message(), key_id="2"), "/peer", 401, "could not be authenticated"),
        (message(), {"content-type": CONTENT_TYPE}, "/peer", 401, "could not be authenticated"),
        (message(), headers(message()) | {SIGNATURE_HEADER: "\xff"}, "/peer", 401, "could not be authenticated"),
        (message(receiver="gamma"), headers(message(receiver="gamma")), "/peer", 421, "another domain"),
        (message(), headers(message()) | {"content-type": "application/json"}, "/peer", 415, "content must be"),
        (message(), headers(message()), "/other", 404, "only /peer"),
    ],
)  # fmt: skip
def test_what_is_not_right_is_refused_with_a_reason(
    said: Message, given: dict[str, str], path: str, status: int, reason: str
) -> None:
    async def scene() -> None:
        async with Beta() as beta:
            answer = await beta.post(encode(said), {k: v.encode("latin-1") for k, v in given.items()}, path)  # type: ignore[misc]
            assert (answer.status_code, reason in answer.text) == (status, True), answer.text
            assert beta.taken == []
            assert (await beta.post(encode(message()), headers(message()))).status_code == 202  # the door still opens

    asyncio.run(scene())


def test_garbage_and_other_verbs_are_refused() -> None:
    async def scene() -> None:
        async with Beta() as beta:
            assert (await beta.post(b"\xc1garbage", headers(message()))).status_code == 400
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(beta.url + "/peer")).status_code == 405
                given = headers(message())
                answer = await client.post(beta.url + "/peer", content=pieces(), headers=given)
                assert answer.status_code == 411
            assert beta.taken == []

    async def pieces():  # type: ignore[no-untyped-def]
        yield b"no length"

    asyncio.run(scene())


def test_an_oversized_message_is_refused_before_it_is_read() -> None:
    async def scene() -> bytes:
        async with Beta() as beta:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(beta.url.rpartition(":")[2]))
            head = f"POST /peer HTTP/1.1\r\nhost: b\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {10**12}\r\n\r\n"
            writer.write(head.encode())  # and not a byte of the content
            said = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return said

    said = asyncio.run(scene())
    assert b" 413 " in said.splitlines()[0]
    assert str(MOST_BYTES).encode() in said


def test_a_message_counts_once_and_none_from_before_a_restart() -> None:
    async def scene() -> None:
        async with Beta() as beta:
            for said, status in [
                (message(5), 202), (message(5), 409), (message(3), 202), (message(1, epoch=2), 202),
                (message(9, epoch=1), 409), (message(5, epoch=2), 202),
            ]:  # fmt: skip
                assert (await beta.post(encode(said), headers(said))).status_code == status
            assert len(beta.taken) == 4

    asyncio.run(scene())


def test_a_busy_controller_is_tried_again() -> None:
    async def scene() -> None:
        async with Beta() as beta:
            beta.busy = True
            links = PeerLinks({"beta": Peer("beta", beta.url, KEYS)})
            await links.open()
            links.post("beta", message())
            await asyncio.sleep(0.05)
            beta.busy = False
            while not beta.taken:
                await asyncio.sleep(0.01)
            await links.close()

    asyncio.run(asyncio.wait_for(scene(), 60))


@pytest.mark.timing
def test_a_dead_peer_blocks_nobody() -> None:
    """Posting returns at once, what waits is bounded, and another peer hears everything meanwhile."""

    async def scene() -> None:
        async with Beta() as beta:
            silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
            port = silent.sockets[0].getsockname()[1]
            links = PeerLinks({
                "beta": Peer("beta", beta.url, KEYS),
                "gone": Peer("gone", "http://127.0.0.1:1", KEYS),
                "silent": Peer("silent", f"http://127.0.0.1:{port}", KEYS),
            })  # fmt: skip
            await links.open()
            began = time.monotonic()
            for seq in range(1, 1001):
                links.post("gone", message(seq, receiver="gone"))
                links.post("silent", message(seq, receiver="silent"))
            links.post("nowhere", message(receiver="nowhere"))
            assert time.monotonic() - began < 0.5
            links.post("beta", message())
            while not beta.taken:
                await asyncio.sleep(0.01)
            assert time.monotonic() - began < 2
            while not links.standing()["gone"][2]:
                await asyncio.sleep(0.05)
            for name in ("gone", "silent"):
                assert links.standing()[name][1] >= 1000 - QUEUE_MOST - 1
            await links.close()
            silent.close()

    asyncio.run(asyncio.wait_for(scene(), 30))


def make_certificates(place: Path, *names: str) -> None:
    """An authority and a certificate for each name, all for the host 127.0.0.1."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2")
    for name in names:
        run("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (place / "ext").write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
            f"{name}.pem", "-days", "2", "-extfile", "ext")  # fmt: skip


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed")
def test_certificates_prove_who_speaks(tmp_path: Path) -> None:
    """With TLS on both sides the certificate's name is the domain; another's certificate does not help."""
    make_certificates(tmp_path, "alpha", "beta", "gamma")

    def files(name: str) -> tuple[Path, Path, Path]:
        return tmp_path / f"{name}.pem", tmp_path / f"{name}.key", tmp_path / "ca.pem"

    async def scene() -> None:
        taken: list[Message] = []
        peers = {"alpha": Peer("alpha", "", None)}
        door = Doorkeeper("beta", peers, lambda said: taken.append(said) is None)
        server = PeerServer(door, "127.0.0.1", 0, server_context(*files("beta")))
        beta = Peer("beta", f"https://127.0.0.1:{await server.open()}", None)
        for name, trouble in (("alpha", ""), ("gamma", "401")):
            links = PeerLinks({"beta": beta}, client_context(*files(name)))
            await links.open()
            links.post("beta", message())
            while links.standing()["beta"][:2] == (0, 0):
                await asyncio.sleep(0.01)
            assert trouble in links.standing()["beta"][2]
            assert bool(trouble) == bool(links.standing()["beta"][2])
            await links.close()
        without = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        async with httpx.AsyncClient(trust_env=False, verify=without) as client:
            with pytest.raises(httpx.HTTPError):
                await client.post(beta.url + "/peer", content=encode(message()), headers=headers(message()))
        await server.close()
        assert taken == [message()]

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_keys_are_changed_without_a_gap() -> None:
    old, new = PairKeys({"1": b"a" * 32}), PairKeys({"2": b"b" * 32})
    both, swapped = PairKeys({"1": b"a" * 32, "2": b"b" * 32}), PairKeys({"2": b"b" * 32, "1": b"a" * 32})
    said = message()
    for signer, checker in [(old, both), (both, old), (both, swapped), (swapped, both), (swapped, new), (new, swapped)]:
        assert checker.signed(said, signer.current, signer.sign(said))
    assert not new.signed(said, old.current, old.sign(said))


def test_a_key_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    said = message()
    assert read_keys(path).signed(said, "1", read_keys(path).sign(said))
    with pytest.raises(InputError, match="cannot be written"):
        write_new_key(path)
    os.chmod(path, 0o640)
    with pytest.raises(InputError, match="others may read"):
        read_keys(path)


@pytest.mark.parametrize("content", ["", "1", "1 zz", "1 " + "ab" * 31, "1 2 3"])
def test_a_bad_key_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(content)
    with pytest.raises(InputError):
        read_keys(path)
