"""Where a place has its socket. A module of its own: clients need this and nothing else of a place (live/place.py)."""

from __future__ import annotations

import os

SOCKET = "cohabit.sock"


def socket_of(place: str) -> str:
    """The path callers connect to."""
    return os.path.join(place, SOCKET)
