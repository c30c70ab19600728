"""Events and commands to bytes and back, the same bytes for the same value on every machine."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cohabit.model.command import Command
from cohabit.model.event import Event

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_events = msgspec.msgpack.Decoder(list[Event])
_commands = msgspec.msgpack.Decoder(list[Command])


def encode(items: Sequence[Event] | Sequence[Command]) -> bytes:
    """One journal entry."""
    return _encoder.encode(items)


def decode_events(data: bytes) -> list[Event]:
    """The events of a journal entry."""
    return _events.decode(data)


def decode_commands(data: bytes) -> list[Command]:
    """The commands of a journal entry."""
    return _commands.decode(data)
