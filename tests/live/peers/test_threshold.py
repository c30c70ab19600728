"""The threshold with real runs of the shipped program, real sockets, and real HTTP between the halves of two domains.

Only what a controller knows of its jobs is said by the tests. Programs note that they have begun in a file.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from cohabit.live.peers.keys import PairKeys, write_new_key
from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, SIGNATURE_HEADER, THRESHOLD_PATH, Peer
from cohabit.live.peers.server import Doorkeeper, PeerServer
from cohabit.live.peers.threshold import Ask, Decider, Round
from cohabit.live.peers.threshold_door import Sources, Threshold, Wanted
from cohabit.live.peers.threshold_questions import ThresholdEar, ThresholdLinks
from cohabit.model.errors import InputError
from tests.ports import free_port

PROGRAM = Path(__file__).parents[3] / "packaging" / "threshold"
PYTHON = shutil.which("python3", path="/usr/bin") or sys.executable
KEYS = PairKeys({"1": b"k" * 32})
PAIR = Round("pair", 1, ("alpha", "beta"))
SOON_S, NEVER_S = 60.0, 1.7


class Side:
    """One domain's half. What its controller would say of job 7 is `wanted`; its token is "secret"."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.kept: dict[str, int] = {}
        self.full = False
        self.wanted: Wanted | None = Wanted("pair", 1, bound=True, stands=True)
        self.address = f"unix:{folder}/{name}.sock"
        self.url = ""
        self.server: PeerServer | None = None
        self.runs: list[asyncio.subprocess.Process] = []

    async def open(self, other: Side | None = None, port: int | None = None) -> None:
        """Its controller; again after a death."""
        peers = {} if other is None else {other.name: Peer(other.name, other.url, KEYS)}
        self.links = ThresholdLinks(peers)
        await self.links.open()
        decider = Decider(self.name, self.kept, self._save)
        self.threshold = Threshold(
            self.address,
            decider,
            Sources(lambda job: self.wanted if job == "7" else None, self._token, self._round, self.links.ask),
        )
        door = Doorkeeper(
            self.name, {"alpha": Peer("alpha", "", KEYS), "beta": Peer("beta", "", KEYS)}, lambda said: True
        )
        door.threshold = ThresholdEar(
            {"alpha": Peer("alpha", "", KEYS), "beta": Peer("beta", "", KEYS)}, decider.wrong, self.threshold.decide
        ).answer
        self.server = PeerServer(door, "127.0.0.1", free_port() if port is None else port)
        self.url = f"http://127.0.0.1:{await self.server.open()}"
        await self.threshold.open()

    async def die(self) -> None:
        """Hangs up on everybody."""
        assert self.server is not None
        await self.threshold.close()
        await self.server.close()
        await self.links.close()

    def _save(self, opened: dict[str, int]) -> None:
        if self.full:
            raise InputError("cannot be written: no space left on device")
        self.kept = opened

    def _token(self, job: str) -> str | None:
        return "secret" if job == "7" else None

    async def _round(self, name: str, attempt: int) -> Round | None:
        return Round("pair", attempt, PAIR.members)

    async def run(self, token: str = "secret", job: str = "7", **more: str) -> asyncio.subprocess.Process:
        """As a manager starts it: a batch script whose first line is the threshold."""
        program, script = self.folder / "threshold", self.folder / f"{self.name}{len(self.runs)}.sh"  # each has its own
        if not program.exists():  # a run before may be reading it
            program.write_text(PROGRAM.read_text().replace("/usr/bin/python3", PYTHON))
            program.chmod(0o755)
        script.write_text(f"#!{program} {self.address} {token} /bin/sh -e\necho $0 $1 >> {self.log}\n")
        script.chmod(0o700)
        around = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": job, **more}
        self.runs.append(
            await asyncio.create_subprocess_exec(str(script), "word", env=around, stderr=asyncio.subprocess.PIPE)
        )
        return self.runs[-1]

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def begun(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():
            await asyncio.sleep(0.02)


def have_begun(number: int, *sides: Side) -> Callable[[], bool]:
    return lambda: all(side.begun() == number for side in sides)


def play(folder: Path, scene: Callable[[Side, Side], Awaitable[None]]) -> None:
    """alpha decides. What is left over is ended."""

    async def both() -> None:
        alpha, beta = Side("alpha", folder), Side("beta", folder)
        await alpha.open()
        await beta.open(alpha)
        try:
            await scene(alpha, beta)
        finally:
            for run in (*alpha.runs, *beta.runs):
                if run.returncode is None:
                    run.kill()
                await run.wait()
            await alpha.die()
            await beta.die()

    asyncio.run(asyncio.wait_for(both(), 5 * SOON_S))


async def nobody_begins(*sides: Side) -> None:
    """For a while: of what must not happen nothing else can be seen."""
    before = [side.begun() for side in sides]
    await asyncio.sleep(NEVER_S)
    assert [side.begun() for side in sides] == before


def test_nobody_begins_before_all_stand_there(tmp_path: Path) -> None:
    async def scene(alpha: Side, beta: Side) -> None:
        for first, second in ((alpha, beta), (beta, alpha)):
            number = first.begun()
            for side in (alpha, beta):
                side.wanted = Wanted("pair", number + 1, bound=True, stands=True)
            await first.run()
            await nobody_begins(alpha, beta)
            await second.run()
            await until(have_begun(number + 1, alpha, beta))
        assert [await run.wait() for run in (*alpha.runs, *beta.runs)] == [0, 0, 0, 0]
        assert alpha.log.read_text().splitlines()[0].split() == [str(tmp_path / "alpha0.sh"), "word"]  # as without it
        assert beta.kept == {}, "only one of them decides"

    play(tmp_path, scene)


@pytest.mark.parametrize("which", [0, 1], ids=["of the side that decides", "of the other"])
def test_a_run_that_was_stopped_does_not_count(tmp_path: Path, which: int) -> None:
    async def scene(*sides: Side) -> None:
        gone, other = sides[which], sides[1 - which]
        run = await gone.run()
        await nobody_begins(*sides)
        run.kill()
        await run.wait()
        await until(lambda: not (gone.threshold._talking or gone.threshold._leaving))
        await other.run()
        await nobody_begins(*sides)
        await gone.run()
        await until(lambda: gone.begun() == other.begun() == 1)

    play(tmp_path, scene)


@pytest.mark.parametrize("which", [0, 1], ids=["of the side that decides", "of the other"])
def test_a_run_that_was_given_up_does_not_count_and_waits_for_its_end(tmp_path: Path, which: int) -> None:
    async def scene(*sides: Side) -> None:
        gone, other = sides[which], sides[1 - which]
        run = await gone.run()
        await asyncio.sleep(0.5)
        gone.wanted = Wanted("pair", 1, bound=True, stands=False)
        await asyncio.sleep(0.5)
        await other.run()
        await nobody_begins(*sides)
        gone.wanted = Wanted("pair", 2, bound=True, stands=True)  # the next attempt is another run's
        other.wanted = Wanted("pair", 2, bound=True, stands=True)
        await nobody_begins(*sides)
        assert run.returncode is None

    play(tmp_path, scene)


@pytest.mark.parametrize("which", [0, 1], ids=["the one that decides", "the other"])
def test_runs_wait_for_a_controller_that_died(tmp_path: Path, which: int) -> None:
    async def scene(*sides: Side) -> None:
        alpha, beta = sides
        dead, other = sides[which], sides[1 - which]
        await dead.run()
        await asyncio.sleep(0.5)
        await dead.die()
        await other.run()
        await nobody_begins(*sides)
        port = int(dead.url.rpartition(":")[2])
        await dead.open(beta if dead is alpha else alpha, port)
        await until(lambda: alpha.begun() == beta.begun() == 1)

    play(tmp_path, scene)


def test_what_was_opened_stays_open(tmp_path: Path) -> None:
    """The one that decides dies after its own run was told; the other run hears it later, and no other one does."""

    async def scene(alpha: Side, beta: Side) -> None:
        alpha.kept = {"pair": 1}
        await alpha.die()
        await beta.run()
        await nobody_begins(beta)
        await alpha.open(beta, int(alpha.url.rpartition(":")[2]))
        await until(lambda: beta.begun() == 1)
        beta.wanted = Wanted("pair", 2, bound=True, stands=True)
        await beta.run()
        await nobody_begins(beta)

    play(tmp_path, scene)


def test_a_full_disk_opens_nothing(tmp_path: Path) -> None:
    async def scene(alpha: Side, beta: Side) -> None:
        alpha.full = True
        await alpha.run()
        await beta.run()
        await nobody_begins(alpha, beta)
        alpha.full = False
        await until(lambda: alpha.begun() == beta.begun() == 1)

    play(tmp_path, scene)


def test_who_needs_no_mates_begins_at_once(tmp_path: Path) -> None:
    async def scene(alpha: Side, beta: Side) -> None:
        alpha.wanted = Wanted("pair", 1, bound=False, stands=True)
        await alpha.run()
        await until(lambda: alpha.begun() == 1)

    play(tmp_path, scene)


def test_a_run_must_prove_which_job_it_is(tmp_path: Path) -> None:
    async def scene(alpha: Side, beta: Side) -> None:
        await alpha.run(token="guess")
        await beta.run()
        await nobody_begins(alpha, beta)
        await alpha.run()
        await until(lambda: alpha.begun() == beta.begun() == 1)

    play(tmp_path, scene)


def test_where_nobody_answers_a_run_ends_without_having_begun(tmp_path: Path) -> None:
    async def scene(alpha: Side, beta: Side) -> None:
        await alpha.die()
        run = await alpha.run(COHABIT_THRESHOLD_PATIENCE_S="1")
        assert await run.wait() == 75
        assert run.stderr is not None
        assert b"nobody answers" in await run.stderr.read()
        assert alpha.begun() == 0
        await alpha.open()

    play(tmp_path, scene)


@pytest.mark.parametrize(("mark", "begins"), [("cohabit:back@pair", 1), ("cohabit:run:1:1-0:1:4@pair", 0)])
def test_a_job_that_was_given_back_begins_when_its_owner_lets_it_go(tmp_path: Path, mark: str, begins: int) -> None:
    """A controller that does not know the job any more, and a manager that says whose it is."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "scontrol").write_text(f"#!/bin/sh\necho 'JobId=7 JobName=x AdminComment={mark} '\n")
    (commands / "scontrol").chmod(0o755)

    async def scene(alpha: Side, beta: Side) -> None:
        alpha.wanted = None
        run = await alpha.run(PATH=f"{commands}:{os.environ['PATH']}", COHABIT_THRESHOLD_PATIENCE_S="9")
        assert await run.wait() == (0 if begins else 75)
        assert alpha.begun() == begins

    play(tmp_path, scene)


def test_the_token_of_a_job_is_made_of_the_key(tmp_path: Path) -> None:
    """As Grid Engine's prolog makes it, and as the controller checks it."""
    from cohabit.app.steer.threshold import OF_A_RUN
    from cohabit.live.peers.keys import read_keys

    write_new_key(tmp_path / "key")

    async def token() -> str:
        words = (PYTHON, "-IS", str(PROGRAM), "--token", str(tmp_path / "key"), "4711")
        run = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        return (await run.communicate())[0].decode().strip()

    assert asyncio.run(token()) == read_keys(tmp_path / "key").seal(OF_A_RUN + b"4711")


def test_a_script_of_cohabit_submit_has_the_threshold_in_its_first_line() -> None:
    from cohabit.app.steer.mates import MatesTable
    from cohabit.app.steer.threshold import first_line
    from cohabit.backend.protocol import Launch
    from cohabit.backend.slurm.submitting import VARIABLES
    from cohabit.backend.steered.submitting import script_of
    from cohabit.model.job import Job

    mates = MatesTable(threshold="10.0.0.1:7002")
    job, launch = Job("7", 1, 1), Launch(("echo", "a b"))
    script = script_of(job, launch, VARIABLES, first_line(mates), {})
    first, rest = script.split("\n", 1)
    assert re.fullmatch(r"#!/etc/cohabit/threshold 10\.0\.0\.1:7002 [0-9a-f]{32} /bin/sh", first)
    assert rest == "export PATH=/usr/local/bin:/usr/bin:/bin\nexec echo 'a b'\n"
    assert script_of(job, launch, VARIABLES, first_line(mates), {}) != script, "every job has a token of its own"
    assert script_of(job, launch, VARIABLES, first_line(MatesTable()), {}).startswith("#!/bin/sh\n")


@pytest.mark.parametrize("address", ["7002", "0.0.0.0:7002", "host:0", "host:port", "unix:relative", "ho st:1"])
def test_an_address_that_nodes_cannot_use_is_refused(address: str) -> None:
    from cohabit.app.steer.mates import Groups, MatesTable

    with pytest.raises(InputError) as refused:
        Groups("alpha", ("beta",), {}, MatesTable(threshold=address), "site.toml")
    assert refused.value.where == "site.toml: mates.threshold"


def question(
    sender: str = "beta", receiver: str = "alpha", number: int = 1, members: tuple[str, ...] = PAIR.members
) -> bytes:
    ask = Ask(Round("pair", 1, members), sender, receiver, "run", stands=False)
    return msgspec.msgpack.encode({"ask": ask, "life": "x", "number": number})


@pytest.mark.parametrize(
    ("content", "keys", "status"),
    [
        (question(), KEYS, 200),
        (question(), PairKeys({"1": b"x" * 32}), 401),
        (question(), PairKeys({"2": b"k" * 32}), 401),
        (question(sender="mallory"), KEYS, 403),
        (question(receiver="beta"), KEYS, 421),
        (question(members=("beta", "gamma")), KEYS, 421),
        (b"\xc1", KEYS, 400),
    ],
)  # fmt: skip
def test_other_domains_must_prove_who_they_are(tmp_path: Path, content: bytes, keys: PairKeys, status: int) -> None:
    async def scene(alpha: Side, beta: Side) -> None:
        sealed = keys.seal(b"cohabit threshold asks\0" + content)
        given = {"content-type": CONTENT_TYPE, KEY_HEADER: keys.current, SIGNATURE_HEADER: sealed}
        async with httpx.AsyncClient(trust_env=False) as client:
            said = await client.post(alpha.url + THRESHOLD_PATH, content=content, headers=given)
            assert said.status_code == status, said.text
            if status == 200:
                again = await client.post(alpha.url + THRESHOLD_PATH, content=content, headers=given)
                assert again.status_code == 409, "a question heard before is not listened to again"

    play(tmp_path, scene)


def test_an_answer_that_is_not_proven_is_none(tmp_path: Path) -> None:
    async def scene(alpha: Side, beta: Side) -> None:
        stranger = ThresholdLinks({"alpha": Peer("alpha", alpha.url, PairKeys({"1": b"x" * 32}))})
        await stranger.open()
        assert await stranger.ask(Ask(PAIR, "beta", "alpha", "run", stands=True)) is None
        await stranger.close()
        silent = ThresholdLinks({"alpha": Peer("alpha", "http://127.0.0.1:9", KEYS)})
        await silent.open()
        assert await silent.ask(Ask(PAIR, "beta", "alpha", "run", stands=True)) is None
        await silent.close()

    play(tmp_path, scene)


def test_it_says_where_it_cannot_listen(tmp_path: Path) -> None:
    async def scene() -> None:
        side = Side("alpha", tmp_path)
        side.address = f"unix:{tmp_path}/no/such/folder"
        with pytest.raises(InputError, match="cannot listen"):
            await side.open()
        assert side.server is not None
        await side.server.close()

    began_s = time.monotonic()
    asyncio.run(scene())
    assert time.monotonic() - began_s < SOON_S
