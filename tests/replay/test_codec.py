"""Events and commands survive the journal unchanged, and the same value is the same bytes today and tomorrow."""

from __future__ import annotations

import typing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.model import codec
from cohabit.model import command as order
from cohabit.model import event as fact
from cohabit.model.curve import Curve
from cohabit.model.group import Group, Member, Terms, make_group
from cohabit.model.job import Job
from cohabit.model.peer import GroupNodes, Message, Standing
from cohabit.model.profile import KnownCoRun, Profile, ScaleProfile
from cohabit.model.scheme import Scheme
from tests.breadth import examples

EVENTS = typing.get_args(fact.Event)
COMMANDS = typing.get_args(order.Command)

numbers, names = st.integers(-(2**62), 2**62), st.text(max_size=12)
ranges = st.tuples(st.integers(0, 2**31), st.integers(1, 2**31))
BY_TYPE: dict[object, st.SearchStrategy[object]] = {
    int: numbers,
    str: names,
    bytes: st.binary(max_size=12),
    bool: st.booleans(),
    int | None: st.none() | numbers,
    tuple[str, ...]: st.lists(names, max_size=3).map(tuple),
    tuple[tuple[int, int], ...]: st.lists(ranges, max_size=3).map(tuple),
    tuple[tuple[str, int], ...]: st.lists(st.tuples(names, numbers), max_size=3).map(tuple),
    tuple[tuple[str, int, int], ...]: st.lists(st.tuples(names, numbers, numbers), max_size=3).map(tuple),
    float: st.floats(allow_nan=False),
    Curve | None: st.none() | st.just(Curve((2, 20), (0.5, 1.0))),
    Standing | None: st.none() | st.just(Standing(3, (GroupNodes("g", True, 2), GroupNodes("h", False, 4)))),
    Group | None: st.none() | st.just(make_group("g", [Member("a", "1"), Member("b", "2", 60)], Terms())),
    Profile: st.builds(Profile, names, st.integers(1, 64), st.just((ScaleProfile(1, 2.0),)), owner=names),
    tuple[KnownCoRun, ...]: st.lists(
        st.builds(KnownCoRun, names, st.lists(names, max_size=3).map(tuple), st.floats(allow_nan=False), numbers),
        max_size=2,
    ).map(tuple),
    dict[str, float]: st.dictionaries(names, st.floats(allow_nan=False), max_size=2),
}


def values(struct: type[msgspec.Struct]) -> st.SearchStrategy[object]:
    """Any value of the struct."""
    hints = typing.get_type_hints(struct)
    if hints.get("message") == Message:
        others = {name: BY_TYPE[hint] for name, hint in hints.items() if name != "message"}
        return st.builds(struct, **others, message=st.one_of(*map(values, typing.get_args(Message))))
    fields = {
        name: values(hints[name]) if hints[name] in (Job, ScaleProfile, Scheme) else BY_TYPE[hints[name]]
        for name in struct.__struct_fields__
    }
    return st.builds(struct, **fields)


@pytest.mark.parametrize("struct", EVENTS, ids=lambda struct: struct.__name__)
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_every_event_comes_back(struct: type, data: st.DataObject) -> None:
    events = data.draw(st.lists(values(struct), min_size=1, max_size=3))
    encoded = codec.encode(events)
    assert codec.decode_events(encoded) == events
    assert codec.encode(codec.decode_events(encoded)) == encoded


@pytest.mark.parametrize("struct", COMMANDS, ids=lambda struct: struct.__name__)
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_every_command_comes_back(struct: type, data: st.DataObject) -> None:
    commands = data.draw(st.lists(values(struct), min_size=1, max_size=3))
    encoded = codec.encode(commands)
    assert codec.decode_commands(encoded) == commands
    assert codec.encode(codec.decode_commands(encoded)) == encoded


GOLDEN: list[tuple[list, str]] = [
    ([], "90"),
    ([fact.Woken()], "9181a474797065a5576f6b656e"),
    (
        [fact.JobSubmitted(Job("a", 60_000_000, nodes=2, after=("b", "c"), held=True))],
        "9182a474797065ac4a6f625375626d6974746564a36a6f62de0005a66a6f625f6964a161a86c696d69745f7573ce03938700"
        "a56e6f64657302a5616674657292a162a163a468656c64c3",
    ),
    (
        [fact.JobFinished("a", 1), fact.JobFinished("b", 2, "failed"), fact.NodeDown(7)],
        "9383a474797065ab4a6f6246696e6973686564a66a6f625f6964a161a7617474656d70740184a474797065ab4a6f6246696e"
        "6973686564a66a6f625f6964a162a7617474656d707402a6737461747573a66661696c656482a474797065a84e6f6465446f"
        "776ea46e6f646507",
    ),
    (
        [fact.StartRefused("a", 1, "no", 5), fact.JobChanged("a", qos=3), fact.JobCancelled("é")],
        "9385a474797065ac537461727452656675736564a66a6f625f6964a161a7617474656d707401a6726561736f6ea26e6fab62"
        "61636b5f6f66665f75730583a474797065aa4a6f624368616e676564a66a6f625f6964a161a3716f730382a474797065ac4a"
        "6f6243616e63656c6c6564a66a6f625f6964a2c3a9",
    ),
    (
        [order.StartJob("a", 1, ((0, 2), (5, 1)), 60_000_000)],
        "9185a474797065a853746172744a6f62a66a6f625f6964a161a7617474656d707401a56e6f64657392920002920501a86c69"
        "6d69745f7573ce03938700",
    ),
    (
        [order.CancelJob("a", 2, "cancelled"), order.WakeAt(2**40)],
        "9284a474797065a943616e63656c4a6f62a66a6f625f6964a161a7617474656d707402a6726561736f6ea963616e63656c6c"
        "656482a474797065a657616b654174a561745f7573cf0000010000000000",
    ),
]


@pytest.mark.parametrize(("items", "stored"), GOLDEN)
def test_the_bytes_never_change(items: list, stored: str) -> None:
    """Stored here: a change makes every journal on every disk unreadable, so it needs a new version."""
    assert codec.encode(items).hex() == stored
    back = codec.decode_events if all(isinstance(item, EVENTS) for item in items) else codec.decode_commands
    assert back(bytes.fromhex(stored)) == items


def test_nonsense_is_refused() -> None:
    for bad in (b"", b"\x00", codec.encode([order.WakeAt(1)])):
        with pytest.raises(msgspec.DecodeError):
            codec.decode_events(bad)
