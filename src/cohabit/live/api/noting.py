"""Write every refused request to the audit log: caller, request, origin and reason.

Requests are refused in many places; each stores its reason with the request (`refused` of its state), and the
outermost layer calls this before the answer is sent. Refused changes are logged where they are refused, in more detail;
their reason is empty here.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from cohabit.live.api.audit import Refused
from cohabit.live.api.credentials import Caller
from cohabit.live.api.parts import Parts
from cohabit.live.peers.origins import Origin, Peer

PATH_MOST = 200


class Refusals:
    """The refused requests of one service."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def note(self, scope: MutableMapping[str, Any], status: int) -> None:
        """Record a request that was refused with this status."""
        state: MutableMapping[str, Any] = scope.get("state", {})
        said = state.get("refused", "the request was refused")
        if not said:
            return
        caller, peer, origin = state.get("caller"), state.get("peer"), state.get("origin")
        user, role, came_from = "", "", str(origin or "?")
        if isinstance(caller, Caller):
            user, role, came_from = caller.user, caller.role, caller.origin
        elif isinstance(peer, Peer):
            user, came_from = await self._parts.accounts.name_of(peer.uid), f"socket, process {peer.pid}"
        self._parts.audit.refuse(
            Refused(_counted(caller, origin), scope["method"], scope["path"][:PATH_MOST], status, said, user, role,
                    came_from)
        )  # fmt: skip
        await self._parts.audit.written()


def _counted(caller: object, origin: object) -> str:
    """Return the key by which refusals are counted: a user if one is known, else the address."""
    if isinstance(caller, Caller):
        return f"uid {caller.number}"
    return origin.counted if isinstance(origin, Origin) else "?"
