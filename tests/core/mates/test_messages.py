"""Messages to bytes and back: canonical, bounded, and nothing else passes for one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model import codec
from cohabit.model.command import TellPeer
from cohabit.model.errors import InputError
from cohabit.model.event import PeerReported
from cohabit.model.peer import PHASES, Announce, Message, Prepare, Status, Vote, decode, encode, signed_bytes
from cohabit.model.texts import wrong_in_name

names = st.text(min_size=1, max_size=20).filter(lambda name: not wrong_in_name(name))
numbers = st.integers(1, 2**40)
heads = {"group": names, "sender": names.map(lambda name: "s" + name), "receiver": names.map(lambda name: "r" + name)}
statuses = st.builds(Status, **heads, epoch=numbers, seq=numbers, phase=st.sampled_from(PHASES), asked_us=numbers)
votes = st.builds(
    Vote, **heads, epoch=numbers, seq=numbers, attempt=numbers, coordinator=names, yes=st.booleans(), reason=st.text()
)


@given(st.one_of(statuses, votes))
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode(encode(message)) == message
    assert encode(decode(encode(message))) == encode(message)


@given(statuses, numbers)
def test_every_field_is_under_the_signature(message: Status, other: int) -> None:
    changed = msgspec.structs.replace(message, seq=other)
    assert (signed_bytes(changed) == signed_bytes(message)) == (other == message.seq)


@given(st.binary(max_size=60))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(InputError, match="not a peer message"):
        decode(noise)


def test_an_endless_name_is_refused() -> None:
    with pytest.raises(InputError, match="too long"):
        decode(encode(Status(group="g" * 300, sender="a", receiver="b", epoch=1, seq=1, phase="idle")))


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "\x1b[2J", "\u202eb", "\u2028"])
def test_a_name_with_a_control_character_is_refused(name: str) -> None:
    for wrong in (
        Status(group=name, sender="a", receiver="b", epoch=1, seq=1, phase="idle"),
        Announce(group="g", sender="a", receiver="b", epoch=1, seq=1, job=name),
    ):
        with pytest.raises(InputError, match="a name cannot be used"):
            decode(encode(wrong))


def test_bytes_that_are_no_text_are_refused() -> None:
    """A lone surrogate as UTF-8 would write it."""
    whole = encode(Status(group="XXX", sender="a", receiver="b", epoch=1, seq=1, phase="idle"))
    with pytest.raises(InputError, match="not a peer message"):
        decode(whole.replace(b"XXX", b"\xed\xa0\x80"))


def test_messages_travel_in_journals() -> None:
    head = {"group": "g", "sender": "a", "receiver": "b", "epoch": 1, "seq": 1}
    about = {"attempt": 1, "members": ("a", "b"), "lease_us": 5, "terms": 0, "asked_us": 0}
    asked = msgspec.convert(head | about, Prepare)
    assert codec.decode_events(codec.encode([PeerReported(asked)])) == [PeerReported(asked)]
    assert codec.decode_commands(codec.encode([TellPeer("b", asked)])) == [TellPeer("b", asked)]
