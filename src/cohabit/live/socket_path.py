"""Where a place has its socket. Clients need this and nothing else of live/controller/place.py."""

from __future__ import annotations

import os

SOCKET = "cohabit.sock"


def socket_of(place: str) -> str:
    """The path callers connect to."""
    return os.path.join(place, SOCKET)
