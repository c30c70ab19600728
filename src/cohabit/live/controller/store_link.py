"""The link of a running controller to the profile store: what it learns goes there, what others write comes back.

Lessons of measurements (ProfileLearned, ProgramDrifted, ProfileShared) are written once they are in the journal. What
others changed reaches the core as ProfileStored, ProfileForgotten and CoRunsStored, so replaying a journal needs no
store. Co-runs are exchanged beside profiles (store_co_runs.py).
`seen` says what of the store the core knows, so nothing that was written here comes back. A store that is away stops
nothing: that is said once, lessons are kept in the place and written later. A file is made when there is something to
write into it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from cohabit.core import co_runs
from cohabit.core.co_runs import Noted
from cohabit.core.core import SchedulerCore
from cohabit.core.known_programs import all_known
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.store_co_runs import CoRunExchange
from cohabit.model import codec
from cohabit.model.errors import InputError
from cohabit.model.event import (
    Event,
    JobSubmitted,
    ProfileForgotten,
    ProfileLearned,
    ProfileShared,
    ProfileStored,
    ProgramDrifted,
)
from cohabit.model.profile import Profile
from cohabit.store.json_form import CoRunSample, Key
from cohabit.store.learning import keep
from cohabit.store.profiles import ProfileStore, Sample, measured_at_us, open_store
from cohabit.whole_files import replacing

POLL_S = 3.0  # how often the store's generation is read
LESSONS = (ProfileLearned, ProgramDrifted, ProfileShared)
REMOVED, MEASURED = "the profile store was removed", "measured"
Slot = tuple[str, int, str]  # program, processes, owner: what the core tells profiles apart by
T = TypeVar("T")
log = logging.getLogger(__name__)


class _Seen(msgspec.Struct, array_like=True):
    """A profile of the store that the core knows, by a digest."""

    program: str
    processes: int
    hardware: str
    owner: str
    digest: str


class _Kept(msgspec.Struct):
    """What a place keeps of its store between two controllers."""

    where: str
    generation: int = -1
    seen: list[_Seen] = []
    pending: bytes = b""  # lessons that are not in the store yet
    co_runs_written: int = 0
    co_runs_seen: str = ""


class StoreLink:
    """One controller and its store. `kept`: the file of the place; `hardware`: the names of this cluster's nodes."""

    def __init__(
        self, where: str | Path, kept: Path, controller: Controller, hardware: Collection[str], every_s: float = POLL_S
    ) -> None:
        self.where, self.away = str(where), ""
        self._file, self._controller, self._hardware, self._every_s = kept, controller, {"", *hardware}, every_s
        self._path = None if "://" in self.where else Path(where)
        self._store: ProfileStore | None = None
        self._inode: tuple[int, int] | None = None  # of the file that was opened last
        self._generation, self._seen, self._first = -1, dict[Key, str](), True
        self._pending, self._written = list[Event](), b""
        self._co_runs = CoRunExchange(self._hardware)
        self._recall()
        self._soon, self._alone = asyncio.Event(), asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._elsewhere: set[str] = set()
        controller.hears_lessons = self.hear

    # ---- life -------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Compare the core with the store, then go on in the background."""
        await self.look()
        self._task = asyncio.create_task(self._live())

    async def close(self) -> None:
        """Write what is left; what cannot be written stays in the place."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self.look()
        if self._store is not None:
            self._store.close()

    def hear(self, events: Iterable[Event]) -> None:
        """Take the lessons among events that the core was told."""
        for one in events:
            if isinstance(one, JobSubmitted) and one.job.reprofile and one.job.program:
                self._pending.append(ProgramDrifted(one.job.program, "reprofile", one.job.profile_owner))
            elif isinstance(one, LESSONS):
                self._pending.append(one)
            else:
                continue
            self._soon.set()

    async def _live(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._soon.wait()
            if self.away:
                await asyncio.sleep(self._every_s)  # a store that is away is not asked more often than that
            self._soon.clear()
            try:
                await self.look()
            except Exception:
                log.exception("what was learned was not exchanged with the profile store")

    async def look(self) -> None:
        """Write what was learned, and tell the core what others changed."""
        async with self._alone:
            lessons = list(self._pending)
            known, noted = await self._controller.ask(lambda core: (_known(core), co_runs.noted(core.state)))
            facts: list[Event] = []  # the core was told all of these lessons
            try:
                facts = await asyncio.to_thread(self._exchange, lessons, known)
                facts += await asyncio.to_thread(self._exchange_co_runs, noted)
                del self._pending[: len(lessons)]
                self._is_away("")
            except InputError as error:
                self._is_away(str(error))
            await asyncio.to_thread(self._keep)
            for fact in facts:
                await self._controller.tell(fact)

    def _is_away(self, why: str) -> None:
        if bool(why) != bool(self.away):
            log.warning("%s", f"{why}; what is learned is kept, and written later" if why else "the store is back")
        self.away = why

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def forget(self, program: str, owner: str, since_us: int | None) -> int:
        """Forget an owner's profile of a program, or what was measured from an instant on; the core hears it at once.

        Return how many profiles, or measurements, there were."""

        def work(store: ProfileStore) -> int:
            return (
                store.delete(program, owner=owner) if since_us is None else store.forget_since(program, since_us, owner)
            )

        await self.look()  # so that what was just measured is forgotten, too
        count = await self._of_store(work, 0)
        await self.look()
        return count

    async def profiles(self) -> list[Profile]:
        """Return all profiles of the store; while it is away, those that the core plans by."""
        if self.away:
            return list((await self._controller.ask(_known)).values())
        return await self._of_store(lambda store: store.profiles(), [])

    async def history(self, program: str) -> list[Sample]:
        """Return every measurement of a program, in order of arrival."""
        return await self._of_store(lambda store: store.history(program), [])

    async def co_runs(self) -> list[CoRunSample]:
        """Return all runs beside others, in order of arrival."""
        return await self._of_store(lambda store: store.co_runs(), [])

    async def _of_store(self, work: Callable[[ProfileStore], T], nothing: T) -> T:
        def run() -> T:
            store = self._opened(create=False)
            return nothing if store is None else work(store)

        async with self._alone:
            return await asyncio.to_thread(run)

    # ---- in a thread ------------------------------------------------------------------------------------------------

    def _exchange(self, lessons: Sequence[Event], known: Mapping[Slot, Profile]) -> list[Event]:
        """Write the lessons; return what the core has to hear. Nothing written here is among it."""
        store = self._opened(create=bool(lessons))
        if store is None:
            if not self._first or not known:
                return []
            store = self._opened(create=True)
            assert store is not None
        before = store.cached()
        foreign = self._changed(before) if store.generation != self._generation else set()
        generation, writes = store.generation, 0
        if self._first:
            writes += self._write_unknown(store, before, known, lessons)
        whole: set[Slot] = set()
        for fact in lessons:
            with _unless_refused(getattr(fact, "program", "")):
                writes += self._write(store, fact, known, whole)
        after = store.cached()
        if store.generation != generation + writes:  # others wrote in between: the core hears all of it
            foreign |= self._changed(after)
        facts = self._facts({_slot(key) for key in foreign}, after, known) if foreign else []
        if self._first or writes or foreign or store.generation != self._generation:
            self._seen = {key: _digest(profile) for key, profile in after.items()}
        self._generation, self._first = store.generation, False
        return facts

    def _exchange_co_runs(self, noted: Noted) -> list[Event]:
        mine = self._co_runs
        store = self._opened(create=mine.has_news(noted))
        if store is None or (store.generation == mine.generation and not mine.has_news(noted)):
            return []
        return list(mine.exchange(store, noted))

    def _changed(self, stored: Mapping[Key, Profile]) -> set[Key]:
        new = {key for key, profile in stored.items() if self._seen.get(key) != _digest(profile)}
        return new | (self._seen.keys() - stored.keys())

    def _facts(self, slots: set[Slot], stored: Mapping[Key, Profile], known: Mapping[Slot, Profile]) -> list[Event]:
        """Return what makes the core know of these what the store says."""
        facts: list[Event] = []
        for slot in sorted(slots):
            keys = [key for key in stored if _slot(key) == slot]
            fitting = [stored[key] for key in keys if key.hardware in self._hardware]
            self._say_elsewhere({key.hardware for key in keys} - self._hardware if not fitting else set())
            best = max(fitting, key=lambda one: (bool(one.hardware), measured_at_us(one)), default=None)
            gone = any(_slot(key) == slot and key.hardware in self._hardware for key in self._seen)
            if best is None and gone and slot in known:
                facts.append(ProfileForgotten(*slot))
            elif best is not None and not _same(best, known.get(slot)):
                facts.append(ProfileStored(best))
        return facts

    def _write(self, store: ProfileStore, fact: Event, known: Mapping[Slot, Profile], whole: set[Slot]) -> int:
        """Write one lesson; return the number of writes. `whole`: what was written as the core has it by now."""
        match fact:
            case ProfileLearned(program, processes, measured, hardware, owner):
                slot = (program, processes, owner)
                stored = {_slot(key) for key in store.cached() if key.hardware == hardware}
                if slot not in stored and slot in known:  # perhaps begun as a copy of the shared profile
                    own = {one for one in known if (one[0], one[2]) == (program, owner)} - stored
                    store.replace(msgspec.structs.replace(known[one], hardware=hardware) for one in sorted(own))
                    whole.update(own)
                    return 1
                if slot in whole:
                    return 0
                _, why = keep(store, Profile(program, processes, (measured,), hardware=hardware, owner=owner))
                if why:
                    log.info("%s has changed (%s): its stored profile starts again", program, why)
                return 1
            case ProgramDrifted(program, _, owner):
                found = store.profiles(program, owner=owner)
                empty = [msgspec.structs.replace(one, scales=(), provenance=MEASURED) for one in found]
                return min(store.replace(empty), 1) if empty else 0
            case ProfileShared(program, owner):
                store.share(program, owner)
                return 1
        return 0

    def _write_unknown(
        self,
        store: ProfileStore,
        stored: Mapping[Key, Profile],
        known: Mapping[Slot, Profile],
        lessons: Sequence[Event],
    ) -> int:
        """Write profiles of the core that the store never had: of a journal without a store, or a store made again."""
        learned = {(one.program, one.processes, one.owner) for one in lessons if isinstance(one, ProfileLearned)}
        had = {_slot(key) for key in (*stored, *self._seen)} | learned
        writes = 0
        for one in (one for slot, one in known.items() if slot not in had):
            with _unless_refused(one.program):
                writes += min(store.replace([one]), 1)
        return writes

    def _opened(self, create: bool) -> ProfileStore | None:
        """Return the store; None: there is no file yet, and none is to be made."""
        if self._path is None:
            self._store = self._store or open_store(self.where)
            return self._checked(self._store)
        try:
            found = self._path.stat()
            inode = found.st_dev, found.st_ino
        except FileNotFoundError:
            if self._inode is not None:
                raise InputError(REMOVED, self.where, "bring it back, or start the controller again") from None
            if self._generation >= 0:
                self._begin_anew()
            if not create:
                return None
            inode = None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", self.where, "let the controller read it") from error
        if self._store is not None and inode != self._inode:
            self._store.close()
            self._store = None
        if self._store is None:
            self._store = open_store(self._path, create=create or inode is not None)
            found = self._path.stat()
            self._inode = found.st_dev, found.st_ino
        return self._checked(self._store)

    def _checked(self, store: ProfileStore) -> ProfileStore:
        store.cached()
        if store.generation < self._generation:  # it counts every write: this is another store
            self._begin_anew()
        return store

    def _begin_anew(self) -> None:
        self._generation, self._seen, self._first = -1, {}, True
        self._co_runs.begin_anew()

    def _say_elsewhere(self, hardware: set[str]) -> None:
        for one in sorted(hardware - self._elsewhere):
            self._elsewhere.add(one)
            log.warning("%s has profiles of other nodes (%s): they are not used here", self.where, one)

    # ---- what the place keeps ---------------------------------------------------------------------------------------

    def _recall(self) -> None:
        try:
            kept = msgspec.json.decode(self._file.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("what %s says of the profile store is no longer known: %s", self._file, error)
            return
        self._written = msgspec.json.encode(kept)
        self._pending = codec.decode_events(kept.pending) if kept.pending else []
        if kept.where == self.where:
            self._generation = kept.generation
            self._seen = {Key(one.program, one.processes, one.hardware, one.owner): one.digest for one in kept.seen}
            self._co_runs = CoRunExchange(self._hardware, kept.co_runs_written, kept.co_runs_seen, first=False)

    def _keep(self) -> None:
        seen = [_Seen(*key, digest) for key, digest in sorted(self._seen.items())]
        pending = codec.encode(self._pending) if self._pending else b""
        mine = self._co_runs
        text = msgspec.json.encode(_Kept(self.where, self._generation, seen, pending, mine.written, mine.seen))
        if text == self._written or (self._generation < 0 and not self._pending):
            return
        try:
            with replacing(self._file) as stream:
                stream.write(text)
            self._written = text
        except InputError as error:
            log.warning("%s", error)


@contextlib.contextmanager
def _unless_refused(program: str) -> Iterator[None]:
    """Say and drop what the store refuses, so that the rest is written; a store that cannot be used is no refusal."""
    try:
        yield
    except (InputError, ValueError) as error:
        cause = error.__cause__
        if isinstance(cause, DBAPIError) and not isinstance(cause, DataError | IntegrityError):
            raise
        log.warning("the profile store refuses what was learned of %s, which is dropped: %s", program, error)


def begin_anew(kept: Path) -> None:
    """Let the next controller of a place hear all of its store again; lessons that are not written yet stay."""
    with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
        found = msgspec.json.decode(kept.read_bytes(), type=_Kept)
        with replacing(kept) as stream:
            stream.write(msgspec.json.encode(_Kept(found.where, pending=found.pending)))


def _known(core: SchedulerCore) -> dict[Slot, Profile]:
    return {
        (program, processes, owner): one
        for (program, owner), known in all_known(core.state).items()
        for processes, one in known.items()
    }


def _slot(key: Key) -> Slot:
    return key.program, key.processes, key.owner


def _same(stored: Profile, known: Profile | None) -> bool:
    return known is not None and msgspec.structs.replace(known, hardware=stored.hardware) == stored


def _digest(profile: Profile) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(profile, order="deterministic")).hexdigest()[:16]
