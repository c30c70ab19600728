"""Whatever a side is told, in whatever order: it goes on, its promises never go back, and changes are saved."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.core.mates.protocol import step
from cohabit.core.mates.state import (
    Ended,
    Heard,
    Input,
    Joined,
    MatesState,
    Ready,
    Recovered,
    Reserved,
    StartFailed,
    Stored,
    Tick,
    Withdrawn,
    reloaded,
    stored,
)
from cohabit.model.group import WAIT, Member, Terms, Window, make_group
from cohabit.model.peer import PHASES, Abort, Announce, Commit, Prepare, Started, Status, Vote
from cohabit.model.units import SECOND
from tests.breadth import examples

WINDOW = Window("a", "b", 5 * SECOND, 9 * SECOND)
GROUP = make_group("g", [Member(name, name) for name in "abc"], Terms(when_dead=WAIT, watch_us=0), (WINDOW,))
few = st.integers(1, 4)
instants = st.integers(-1, 200).map(lambda second: second * SECOND if second >= 0 else -1)
domains = st.sampled_from("abcd")
heads = {"group": st.sampled_from(["g", "g", "g", "h"]), "sender": domains, "receiver": st.just("b"), "epoch": few}
heads |= {"seq": st.integers(1, 300)}
led = {"attempt": few, "coordinator": domains}
members = st.sampled_from([("a", "b"), ("b", "c"), ("a", "b", "c"), ("a", "c"), ("b", "d"), ("a", "b", "d")])
clocks = {"answers_us": instants, "answers_epoch": few}
messages = st.one_of(
    st.builds(Announce, **heads, job=domains, withdrawn=st.booleans()),
    st.builds(Status, **heads, **led, **clocks, phase=st.sampled_from(PHASES), asked_us=instants),
    st.builds(
        Prepare, **heads, attempt=few, members=members, asked_us=instants, lease_us=st.integers(1, 90 * SECOND),
        terms=st.just(GROUP.digest),
    ),
    st.builds(
        Vote, **heads, **led, **clocks, yes=st.booleans(), heard_us=instants, sent_us=instants, lease_end_us=instants
    ),
    st.builds(Commit, **heads, attempt=few, start_at_us=instants),
    st.builds(Abort, **heads, **led),
    st.builds(Started, **heads, **led),
)  # fmt: skip
group = st.just("g")
inputs: st.SearchStrategy[Input] = st.one_of(
    messages.map(Heard),
    messages.map(Heard),
    st.builds(Ready, group, st.booleans()),
    st.builds(Reserved, group, few, st.booleans()),
    st.builds(StartFailed, group, few),
    st.builds(Ended, group, few, st.booleans()),
    st.just(Tick()),
    st.just(Withdrawn("g")),
    st.just(Recovered()),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(inputs, st.integers(0, 20 * SECOND)), max_size=40))
def test_any_sequence(told: list[tuple[Input, int]]) -> None:
    state, now_us, attempt = MatesState("b"), 0, 0
    kept = b""
    step(state, now_us, Joined(GROUP))
    for one, later_us in told:
        now_us += later_us
        if isinstance(one, Recovered):
            state = reloaded(msgspec.msgpack.decode(msgspec.msgpack.encode(stored(state)), type=Stored))
        outcome = step(state, now_us, one)
        record = state.groups["g"].record
        assert record.attempt >= attempt
        assert outcome.wake_us > now_us or not isinstance(one, Tick)
        now = msgspec.msgpack.encode(record, order="deterministic")
        assert now == kept or "g" in outcome.save or not kept
        attempt, kept = record.attempt, now
