"""Where a place has its socket. Apart from live/place.py because every client asks this, and nothing else of a place."""

from __future__ import annotations

import os

SOCKET = "cohabit.sock"


def socket_of(place: str) -> str:
    """The path callers connect to."""
    return os.path.join(place, SOCKET)
