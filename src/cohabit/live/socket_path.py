"""The path of a place's socket. Clients need this and nothing else of live/controller/place.py."""

from __future__ import annotations

import os

SOCKET = "cohabit.sock"


def socket_of(place: str) -> str:
    """Return the path callers connect to."""
    return os.path.join(place, SOCKET)
