"""What a controller exchanges with the profile store of co-runs: its own go there, what others changed comes back.

The core numbers its co-runs (core/co_runs.py); those from `written` on are not in the store yet. `seen` is a digest of
the store's co-runs as the core knows them: where it differs, others have written, or a program was forgotten.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from cohabit.core.co_runs import Noted
from cohabit.model.event import CoRunsStored
from cohabit.model.profile import KnownCoRun
from cohabit.store.co_runs import summaries
from cohabit.store.json_form import CoRunSample
from cohabit.store.profiles import ProfileStore

NOTHING = ""  # the digest of no co-runs


@dataclass
class CoRunExchange:
    """One controller's place in the exchange, kept in the place between two controllers."""

    hardware: Collection[str]
    written: int = 0
    seen: str = NOTHING
    first: bool = True  # of this store: it may lack what the core knows
    generation: int = -1  # of the store when it was looked at last

    def has_news(self, noted: Noted) -> bool:
        """Return whether the core knows of co-runs that the store lacks."""
        return noted.upto > self.written or (self.first and bool(noted.runs))

    def begin_anew(self) -> None:
        """Take the store for one that was never seen."""
        self.written, self.seen, self.first, self.generation = 0, NOTHING, True, -1

    def exchange(self, store: ProfileStore, noted: Noted) -> list[CoRunsStored]:
        """Write what is new; return what the core has to hear."""
        generation = store.generation
        stored, written = store.co_runs(), self.written if noted.upto >= self.written else 0
        foreign, now_us = _digest(summaries(stored, self.hardware)) != self.seen, time.time_ns() // 1000
        if self.first and not stored:
            mine = [CoRunSample(one.program, one.beside, one.percent, "", 0) for one in noted.runs for _ in _runs(one)]
        else:
            news = (one for one in noted.news if one.number >= written)
            mine = [CoRunSample(one.program, one.beside, one.percent, one.hardware, now_us) for one in news]
        if mine:
            store.add_co_runs(mine)
            stored = store.co_runs()
            store.cached()
            foreign = foreign or store.generation != generation + 1  # others wrote in between
        self.generation = store.generation
        known = summaries(stored, self.hardware)
        self.written, self.seen, self.first = noted.upto, _digest(known), False
        return [CoRunsStored(known, noted.upto)] if foreign else []


def _runs(one: KnownCoRun) -> range:
    return range(one.count)


def _digest(known: tuple[KnownCoRun, ...]) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(known)).hexdigest()[:16] if known else NOTHING
