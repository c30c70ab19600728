"""A controller of the real parts that kills itself (kill -9) at one chosen boundary: a program, started by tests.

    python -m tests.system.deadly_controller    reads a line of JSON (Orders) for every controller it is to start

Each controller is a process of its own, forked off this one, which has loaded everything: a test restarts hundreds of
them. A boundary is the moment before or after a message is sent or heard, a batch is written or an order is carried
out, and before a fact of the back end is taken. All are noted, so that a test can visit each.

Beside the place there are notes, files of lines that outlive every controller: `boundaries`, `submissions` (which jobs
it was told are durable, which were refused and why, which of those it had taken are not known any more), `ends` (how
runs ended, as the journal is told) and `starts` (why a controller could not begin).
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import logging
import os
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cohabit.agent.resctrl.files import Mount
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve import serving
from cohabit.app.serve.serving import ServeConfig, Service, open_parts
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Backend, Launch, Run
from cohabit.core.protocols import Coupling
from cohabit.live.controller import controller as living
from cohabit.live.controller.journal import Checkpoint, Journal
from cohabit.live.controller.refusals import Busy, NotWritable
from cohabit.live.peers.keys import read_keys
from cohabit.live.peers.messages import Peer
from cohabit.model.command import Command, RenewJob, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobFinished, ProfileLearned
from cohabit.model.job import Job
from cohabit.model.peer import Message
from cohabit.model.scheme import Scheme
from cohabit.model.units import FOREVER

PR_SET_PDEATHSIG = 1
TAKEN, REFUSED, FORGOTTEN = "taken", "refused", "forgotten"  # words in the notes about submissions
AGAIN_S = 0.1  # until a job that was refused is handed in again
PROCESSOR = "x86_64"  # of the machine a fake resctrl plays
KNOCKING = {"BIG": "x" * 50_000}  # an environment that soon needs more room than a full disk has


class Orders(msgspec.Struct):
    """What the test wants."""

    place: str
    nodes: int = 2
    jobs: list[tuple[Job, Launch]] = []
    die: tuple[str, int] | None = None  # at the n-th boundary of this kind ("": of any kind)
    domain: str = ""
    port: int = 0
    peers: dict[str, tuple[str, str]] = {}  # domain -> (url, key file)
    scheme: str = "hold"
    checkpoint_every: int = 2000  # batches
    mutant: str = ""  # what is broken on purpose: "no fuse", "forgotten runs" or "blind"
    policy: str = "ce-easy"
    pauses_s: list[float] = []  # before each job is handed in
    facts: list[ProfileLearned] = []  # told before the first job
    resctrl: str = ""  # where a fake one is mounted, for as long as it is
    notes: str = ""  # a folder; "": the place


class Notes:
    """Lines that outlive us."""

    def __init__(self, orders: Orders) -> None:
        self.folder = Path(orders.notes or orders.place)
        self._open: dict[str, int] = {}

    def write(self, name: str, *words: object) -> None:
        """One line, whole whenever we die."""
        if name not in self._open:
            self._open[name] = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(self._open[name], (" ".join(map(str, words)).replace("\n", " ") + "\n").encode())

    def read(self, name: str) -> list[str]:
        """All lines so far."""
        return (self.folder / name).read_text().splitlines() if (self.folder / name).exists() else []


class Fate:
    """Counts boundaries and strikes at the chosen one."""

    def __init__(self, notes: Notes, die: tuple[str, int] | None) -> None:
        self._die, self._counts, self.notes = die, {"": 0}, notes
        self._one_by_one = threading.Lock()  # two threads at once would both be past the chosen one

    def pass_by(self, kind: str) -> None:
        """We are at a boundary of this kind."""
        with self._one_by_one:
            for one in ("", kind):
                self._counts[one] = self._counts.get(one, 0) + 1
            self.notes.write("boundaries", kind)
            if self._die in ((kind, self._counts[kind]), ("", self._counts[""])):
                os.kill(os.getpid(), signal.SIGKILL)


class DeadlyJournal:
    """The journal, with a boundary before and after every batch."""

    def __init__(self, journal: Journal, fate: Fate) -> None:
        self._journal, self._fate = journal, fate

    def append(self, now_us: int, events: Sequence[Event], launches: Mapping[str, Launch]) -> int:
        self._fate.pass_by("before batch")
        for one in events:
            if isinstance(one, JobFinished):
                name, exits = one.job_id.replace(" ", "_"), (one.exit_status, one.exit_signal)
                self._fate.notes.write("ends", name, one.attempt, one.status, *exits)
        seq = self._journal.append(now_us, events, launches)
        self._fate.pass_by("after batch")
        return seq

    def checkpoint(self, kept: Checkpoint) -> None:
        self._fate.pass_by("before checkpoint")
        self._journal.checkpoint(kept)
        self._fate.pass_by("after checkpoint")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


class DeadlyBackend:
    """The back end, with a boundary before and after every order, and at every fact."""

    def __init__(self, backend: Backend, fate: Fate, mutant: str) -> None:
        self._backend, self._fate, self._mutant = backend, fate, mutant
        self.capabilities = backend.capabilities

    async def open(self) -> None:
        await self._backend.open()

    async def close(self) -> None:
        await self._backend.close()

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        self._fate.pass_by("before order")
        if self._mutant == "no fuse" and isinstance(command, StartJob):
            command = msgspec.structs.replace(command, fuse_us=FOREVER)
        if not (self._mutant == "no fuse" and isinstance(command, RenewJob)):
            await self._backend.execute(command, launch)
        self._fate.pass_by("after order")

    async def events(self) -> AsyncIterator[Event]:
        async for event in self._backend.events():
            self._fate.pass_by("before fact")
            yield event

    async def observe(self) -> list[Run]:
        if self._mutant == "blind":
            return []
        found = await self._backend.observe()
        return [] if self._mutant == "forgotten runs" else found

    async def settled(self, job_id: str, attempt: int) -> None:
        self._fate.pass_by("before settling")
        await self._backend.settled(job_id, attempt)


class DeadlyService(Service):
    """The whole controller, with boundaries around every message."""

    def __init__(self, config: ServeConfig, fate: Fate, mutant: str) -> None:
        super().__init__(config)
        self._fate = fate
        self.parts.journal = DeadlyJournal(self.parts.journal, fate)  # type: ignore[assignment]
        self.parts.backend = DeadlyBackend(self.parts.backend, fate, mutant)
        post, deliver = self.links.post, self.links._deliver

        def deadly_post(domain: str, message: Message) -> None:
            fate.pass_by("before posting")
            post(domain, message)

        async def deadly_deliver(peer: Peer, message: Message) -> str:
            fate.pass_by("before sending")
            trouble = await deliver(peer, message)
            fate.pass_by("after sending")
            return trouble

        self.links.post, self.links._deliver = deadly_post, deadly_deliver  # type: ignore[method-assign]

    def hear(self, message: Message) -> bool:
        self._fate.pass_by("before hearing")
        taken = super().hear(message)
        self._fate.pass_by("after hearing")
        return taken


def config_of(orders: Orders) -> ServeConfig:
    """As a person would have written it."""
    coupling = None
    if orders.domain:
        rank = sorted([orders.domain, *orders.peers]).index(orders.domain)
        coupling = Coupling(orders.domain, rank, Scheme(scheme=orders.scheme))
    peers = {name: Peer(name, url, read_keys(Path(key))) for name, (url, key) in orders.peers.items() if key}
    place = Path(orders.place)
    policy = PolicyConfig(name=orders.policy, learn=not orders.facts)
    return ServeConfig(place, orders.nodes, policy, coupling=coupling, port=orders.port, peers=peers)


async def live(orders: Orders) -> None:
    """Run until killed, by the test or by fate."""
    living.CHECKPOINT_EVERY = orders.checkpoint_every
    if orders.resctrl:
        root = Path(orders.resctrl)
        serving.VirtualNodes = partial(VirtualNodes, mount=partial(mount_of, root))  # type: ignore[misc,assignment]
        serving.LocalBackend = partial(  # type: ignore[misc,assignment]
            LocalBackend, mount=partial(mount_of, root), processor=PROCESSOR
        )
    notes = Notes(orders)
    service = DeadlyService(config_of(orders), Fate(notes, orders.die), orders.mutant)
    await service.open()
    for fact in orders.facts if service.parts.restored.fresh else ():
        await service.tell(fact)
    others = [asyncio.create_task(hand_in(service, orders, notes)), asyncio.create_task(knock(service, notes))]
    try:
        await service.controller.failed()
    finally:
        for one in others:
            one.cancel()


def mount_of(root: Path) -> Mount | None:
    """As the table of mounts would say."""
    return Mount(root) if os.path.ismount(root) else None


async def hand_in(service: Service, orders: Orders, notes: Notes) -> None:
    """Each job until it is durable, with some time between; those that were must be known."""
    taken = {line.removeprefix(f"{TAKEN} ") for line in notes.read("submissions") if line.startswith(TAKEN)}
    for name in sorted(taken - await service.controller.ask(lambda _: service.parts.journal.known_jobs(sorted(taken)))):
        notes.write("submissions", FORGOTTEN, name)
    for at, (job, launch) in enumerate(orders.jobs):
        if job.job_id in taken:
            continue
        await asyncio.sleep(orders.pauses_s[at] if at < len(orders.pauses_s) else 0.0)
        while (why := await offer(service, job, launch)) is not None:
            notes.write("submissions", REFUSED, job.job_id, why)
            await asyncio.sleep(AGAIN_S)
        notes.write("submissions", TAKEN, job.job_id)


async def knock(service: Service, notes: Notes) -> None:
    """While there is a note `knock`: large jobs that stay on hold, one after another, until one is refused."""
    number = len(notes.read("submissions"))
    while True:
        await asyncio.sleep(AGAIN_S)
        if not (notes.folder / "knock").exists():
            continue
        number += 1
        job = Job(f"knock-{number}", limit_us=FOREVER // 4, held=True)
        why = await offer(service, job, Launch(("/bin/true",), KNOCKING))
        notes.write(
            "submissions", TAKEN if why is None else f"{REFUSED} {job.job_id}", job.job_id if why is None else why
        )


async def offer(service: Service, job: Job, launch: Launch) -> str | None:
    """None: it is durable; else why it was refused."""
    try:
        await service.controller.submit(job, launch)
    except (Busy, NotWritable) as error:
        return str(error) or "busy"
    except InputError as error:
        if "was here before" not in error.what:
            raise
    return None


def be_born(orders: Orders) -> int:
    """A controller in a process of its own; its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # nobody outlives a test that was cut short
        os.setsid()
        os.makedirs(orders.notes or orders.place, exist_ok=True)
        said = os.open(
            Path(orders.notes or orders.place) / "controller.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        for descriptor in (1, 2):
            os.dup2(said, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        faulthandler.register(signal.SIGUSR2)  # a test that gave up asks where we are
        asyncio.run(live(orders))
    except BaseException as error:
        logging.exception("the controller ended")
        Notes(orders).write("starts", "clear" if isinstance(error, InputError) else "unclear", repr(error))
    finally:
        os._exit(1)


def main() -> None:
    """Load everything once, then start what is asked for; the process number of each is the answer."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s.%(msecs)03d %(name)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the test watches over them
    with tempfile.TemporaryDirectory() as place:
        open_parts(config_of(Orders(place, domain="alpha"))).journal.close()
    unread = b""
    while data := os.read(0, 65536):
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            os.write(1, f"{be_born(msgspec.json.decode(line, type=Orders))}\n".encode())


if __name__ == "__main__":
    main()
