"""The API of one live controller, from open to close: it joins observers, parts, app and server.

The observers run in the controller's worker thread and only record; the feed is called on the event loop, before the
answers of the same batch are sent.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any

from cohabit.core.core import SchedulerCore
from cohabit.live.api.app import make_app
from cohabit.live.api.audit import Refused
from cohabit.live.api.feed import Changed, Feed
from cohabit.live.api.metrics import Metrics
from cohabit.live.api.parts import Living, Parts
from cohabit.live.api.server import ApiServer, Listeners, Room
from cohabit.live.api.settings import ApiSettings
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import Journal
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.records import OVER, RUNS, Record
from cohabit.live.controller.recovery import Restored
from cohabit.live.peers.origins import Origin
from cohabit.model.event import Event, NodeDown, NodeDrained, NodeUp, NodeUsed

_NODE_WORDS = {NodeUp: "up", NodeUsed: "up", NodeDown: "down", NodeDrained: "drained"}
_PHASE_WORDS = {RUNS: "running"}


class Api:
    """Made before the controller runs, so that it misses no change; opened once it runs."""

    def __init__(
        self,
        living: Living,
        settings: ApiSettings,
        restored: Restored,
        listeners: Listeners | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._feed, self._metrics = Feed(), Metrics()
        observe(living.controller, living.journal, restored.recorder, self._feed, self._metrics)
        self.parts = Parts(living, settings, self._feed, self._metrics)
        self.parts.limits.restore(restored.core)
        app = make_app(self.parts)
        room = Room(self.parts.door.favours, self._turned_away)
        self.server = ApiServer(app, settings, living.place, room, listeners, context)
        app.state.page_door.address = self.server.loopback

    def refused(self, origin: str, action: str, about: str, status: int, said: str) -> None:
        """Write a refusal made elsewhere (peers, the threshold) to the audit log."""
        self.parts.audit.refuse(Refused(origin, action, about, status, said))

    def _turned_away(self, origin: Origin, status: int, said: str) -> None:
        self.parts.audit.refuse(Refused(origin.counted, "connect", "", status, said, came_from=str(origin)))

    async def open(self) -> None:
        """Accept callers."""
        await self.parts.open()
        await self.server.open()

    async def close(self) -> None:
        """Accept no more callers, and end all waits."""
        self._feed.close()
        await self.parts.waits.stop()
        await self.parts.limits.close()
        await self.server.close()
        self.parts.audit.close()


def observe(controller: Controller, journal: Journal, recorder: Recorder, feed: Feed, metrics: Metrics) -> None:
    """Install the observers; on the event loop of the feed."""
    loop, recorded = asyncio.get_running_loop(), recorder.observe

    def observed(
        seq: int, now_us: int, events: Sequence[Event], commands: Sequence[Any], core: SchedulerCore
    ) -> list[Record]:
        changed = recorded(seq, now_us, events, commands, core)
        changes = [_of_job(now_us, one) for one in changed]
        changes += [
            Changed(now_us, "node", str(event.node), -1, _NODE_WORDS[type(event)])
            for event in events
            if isinstance(event, NodeUp | NodeUsed | NodeDown | NodeDrained)
        ]
        for one in changed:
            if one.phase == OVER and not one.members:
                metrics.ended.labels(one.status or "unknown").inc()
                metrics.compared(one.predicted_slowdown, one.actual_slowdown)
        loop.call_soon_threadsafe(feed.turn, changes)
        metrics.batches.inc()
        return changed

    _replace(recorder, "observe", observed)
    _replace(journal, "append", _timed(journal.append, metrics.commit.observe))
    controller.watch_core(lambda core: _replace(core, "step", _timed(core.step, metrics.passes.observe)))


def _of_job(now_us: int, record: Record) -> Changed:
    over = record.phase == OVER
    state = (record.status or "cancelled") if over else _PHASE_WORDS.get(record.phase, "queued")
    return Changed(now_us, "job", record.job_id, record.user, state, over, record.array, record.members)


def _timed(work: Callable[..., Any], note: Callable[[float], None]) -> Callable[..., Any]:
    def timed(*given: Any) -> Any:
        begun = time.perf_counter()
        result = work(*given)
        note(time.perf_counter() - begun)
        return result

    return timed


def _replace(target: object, name: str, work: Callable[..., Any]) -> None:
    """Replace a method of this object only: others of its class are not observed."""
    setattr(target, name, work)
