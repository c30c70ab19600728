"""Encode and decode events and commands: the same bytes for the same value on every machine."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cohabit.model.command import Command
from cohabit.model.event import Event

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_events = msgspec.msgpack.Decoder(list[Event])
_commands = msgspec.msgpack.Decoder(list[Command])


def encode(items: Sequence[Event] | Sequence[Command]) -> bytes:
    """Encode one journal entry."""
    return _encoder.encode(items)


def decode_events(data: bytes) -> list[Event]:
    """Decode the events of a journal entry."""
    return _events.decode(data)


def decode_commands(data: bytes) -> list[Command]:
    """Decode the commands of a journal entry."""
    return _commands.decode(data)
