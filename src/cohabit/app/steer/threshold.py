"""The threshold of a steered cluster: its settings in the site file, and its queries to controller and back end.

Jobs of a site with `[mates] threshold` get it at submission (job_submit.lua, cohabit-jsv.sh, `cohabit submit`), by the
file beside the lease that is written here. It asks the manager only for the script of a job with mates, ahead of time:
the script contains the job's token.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from cohabit.app.steer.mates import Groups, MatesTable
from cohabit.app.steer.service import Neighbours
from cohabit.backend.steered.backend import SteeredBackend
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.known import ORDERED, RUNS
from cohabit.backend.steered.lease import threshold_file, write_beside
from cohabit.core.core import SchedulerCore
from cohabit.live.controller.controller import Controller
from cohabit.live.peers.keys import PairKeys
from cohabit.live.peers.origins import NoteRefusal
from cohabit.live.peers.threshold import Decider, Round
from cohabit.live.peers.threshold_door import Sources, Threshold, Wanted
from cohabit.live.peers.threshold_questions import ThresholdEar, ThresholdLinks
from cohabit.model.errors import InputError
from cohabit.model.peer import COMMITTED, RUNNING
from cohabit.whole_files import replacing

OF_A_RUN = b"cohabit threshold run\0"  # prefix of a job's number, sealed with the key; as in packaging/threshold
READ_EVERY_S = 0.5
ReadScript = Callable[[str], Awaitable[str]]
log = logging.getLogger(__name__)


def first_line(mates: MatesTable) -> str:
    """Return the first line of a batch script, without its interpreter; each job has its own token."""
    return f"#!{mates.threshold_program} {mates.threshold} {secrets.token_hex(16)} " if mates.threshold else "#!"


class Tokens:
    """The tokens that runs must show. `read`: returns a job's script, which only its owner and administrators see."""

    def __init__(self, backend: SteeredBackend, read: ReadScript | None, keys: PairKeys | None) -> None:
        self._backend, self._read, self._known = backend, read, dict[str, str]()
        self._key = keys
        self._reading: asyncio.Task[None] | None = None

    def of(self, job: str) -> str | None:
        """Return the token by the manager's name of the job; None: not known yet."""
        if self._key is not None:
            return self._key.seal(OF_A_RUN + job.encode())
        return self._known.get(job)

    def open(self) -> None:
        """Read tokens ahead, so that a manager that stops answering later blocks no run."""
        if self._read is not None and self._key is None:
            self._reading = asyncio.create_task(self._keep_reading(self._read))

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _keep_reading(self, read: ReadScript) -> None:
        while True:
            known = self._backend.watcher.known.values()
            jobs = {self._backend.names.theirs(one.name) for one in known if one.mates}
            self._known = {name: token for name, token in self._known.items() if name in jobs}
            for name in sorted(jobs - self._known.keys()):
                try:
                    first = (await read(name)).partition("\n")[0].split()
                except (ManagerAway, ManagerRefused):
                    continue  # asked again later
                self._known[name] = first[2] if len(first) > 3 else ""
                if len(first) <= 3:
                    log.warning(
                        "job %s has mates and no threshold in its script: it begins as soon as it is started", name
                    )
            await asyncio.sleep(READ_EVERY_S)


class Guard:
    """The threshold of one site, from open to close."""

    def __init__(
        self,
        opened: Path,
        lease: Path,
        groups: Groups,
        backend: SteeredBackend,
        controller: Controller,
        neighbours: Neighbours,
        read: ReadScript | None,
        listener: socket.socket | None,
    ) -> None:
        self._file, self._mates = threshold_file(lease), groups.mates
        self._links = ThresholdLinks(neighbours.peers, neighbours.context)
        self._tokens = Tokens(backend, read, groups.threshold_keys)
        decider = Decider(neighbours.domain, read_opened(opened), lambda now: _write(opened, now))
        self._threshold = Threshold(
            groups.mates.threshold,
            decider,
            Sources(
                lambda job: wanted_of(backend, groups, job),
                self._tokens.of,
                lambda name, attempt: controller.ask(lambda core: round_of(core, name, attempt)),
                self._links.ask,
            ),
            listener,
        )
        neighbours.door.threshold = ThresholdEar(neighbours.peers, decider.wrong, self._threshold.decide).answer
        backend.watcher.guarded = True

    def keep_refusals(self, refused: NoteRefusal) -> None:
        """Report runs with a wrong token to the audit log."""
        self._threshold.refused = refused

    async def open(self) -> None:
        """Accept runs, and write the address for the submission plugins."""
        await self._links.open()
        await self._threshold.open()
        self._tokens.open()
        write_beside(self._file, f"{self._mates.threshold} {self._mates.threshold_program}\n".encode())

    async def close(self) -> None:
        """Stop; runs wait until the next controller is there."""
        await self._tokens.close()
        await self._threshold.close()
        await self._links.close()


def has_threshold(lease: Path, groups: Groups, domain: str, read: ReadScript | None) -> bool:
    """Return whether the site has a threshold; if not, no job gets one. `read` None: scripts are unreadable."""
    if not groups.mates.threshold or not domain:
        threshold_file(lease).unlink(missing_ok=True)
        return False
    if read is None and groups.threshold_key is None:
        fix = "write one with `cohabit peer-key`, copy it to the nodes, and name it: threshold_key = FILE"
        raise InputError("a threshold needs a key here", "mates.threshold_key", fix)
    return True


def wanted_of(backend: SteeredBackend, groups: Groups, job: str) -> Wanted | None:
    """Return the job with mates by the manager's name.

    A job with mates that start later or earlier on purpose, or that needs no mate any more, is not bound.
    """
    having = (one for one in backend.watcher.known.values() if one.mates)
    known = next((one for one in having if backend.names.theirs(one.name) == job), None)
    if known is None:
        return None
    group = groups.find(known.mates)
    together = group is not None and not any(group.offsets_us)
    stands = known.phase in (ORDERED, RUNS) and not known.stopping and not backend.fuses.burnt(job, known.attempt)
    return Wanted(known.name, known.attempt, together and backend.fuses.lit(job, known.attempt), stands)


def round_of(core: SchedulerCore, name: str, attempt: int) -> Round | None:
    """Return the protocol's attempt in which the core runs a job."""
    about = core.state.coupled
    job = None if about is None else about.jobs.get(name)
    if about is None or job is None or core.state.attempts.get(name) != attempt:
        return None
    known = about.protocol.groups.get(job.group)
    if known is None or known.record.phase not in (COMMITTED, RUNNING):
        return None
    return Round(job.group, known.record.attempt, tuple(sorted(known.record.members)))


def read_opened(path: Path) -> dict[str, int]:
    """Read what was opened; report an unreadable file, because what it opened would stay closed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise InputError("cannot be read", str(path), "remove it if no job with mates is being started") from error


def _write(path: Path, opened: dict[str, int]) -> None:
    with replacing(path) as stream:
        stream.write(msgspec.json.encode(opened))
        stream.flush()
        os.fsync(stream.fileno())
