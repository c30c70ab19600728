"""The API of one live controller, from open to close: it joins observers, parts, app and server."""

from __future__ import annotations

import ssl

from cohabit.live.api.app import make_app
from cohabit.live.api.audit import Refused
from cohabit.live.api.feed import Feed
from cohabit.live.api.metrics import Metrics
from cohabit.live.api.observing import observe
from cohabit.live.api.parts import Living, Parts
from cohabit.live.api.server import ApiServer, Listeners, Room
from cohabit.live.api.settings import ApiSettings
from cohabit.live.controller.recovery import Restored
from cohabit.live.peers.origins import Origin


class Api:
    """Made before the controller runs, so that it misses no change; opened once it runs."""

    def __init__(
        self, living: Living, settings: ApiSettings, restored: Restored, listeners: Listeners | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
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
