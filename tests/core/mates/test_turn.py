"""What several modules of the protocol share, by hand: when an attempt lapses, the wait for the next, the fuse."""

from __future__ import annotations

import pytest

from cohabit.core.mates.state import Draft, GroupState, MatesState, MateView, Record, fresh_views, reloaded, stored
from cohabit.core.mates.turn import Turn, back_off_us, bound_until, enter, fuse_us, leave, note_news
from cohabit.model.group import FAIL, START_ALONE, Member, Terms, make_group
from cohabit.model.peer import COMMITTED, IDLE, RESERVING, RUNNING, VOTED
from cohabit.model.units import FOREVER

LEASE_US = Terms().lease_us


def group(record: Record | None = None, **terms: object) -> GroupState:
    """The side of b in a group of three."""
    made = make_group("g", [Member(name, name) for name in "abc"], Terms(**terms))  # type: ignore[arg-type]
    return GroupState(made, record or Record(members=("a", "b", "c")), fresh_views(made, "b"))


# ---- when an attempt lapses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "until_us"), [(RESERVING, 700), (VOTED, 700), (COMMITTED, 100 + 9 + 1), (RUNNING, 900), (IDLE, FOREVER)]
)
def test_an_attempt_lapses_with_its_lease_its_start_or_its_fuse(phase: str, until_us: int) -> None:
    record = Record(phase, lease_end_us=700, start_at_us=100, fuse_us=900)
    assert bound_until(group(record, late_us=9)) == until_us


# ---- the next attempt -----------------------------------------------------------------------------------------------


def test_the_wait_after_a_failure_doubles_four_times_and_is_never_the_same() -> None:
    one, waits = group(retry_us=1000), []
    for failures in range(7):
        one.failures = failures
        waits.append(back_off_us(one, "b"))
    least = [1000, 2000, 4000, 8000, 16000, 16000, 16000]
    assert all(few <= wait < 1.5 * few for few, wait in zip(least, waits, strict=True)), waits
    assert len(set(waits)) == 7
    one.failures = 0
    assert back_off_us(one, "a") != waits[0], "two domains do not chase each other"


def test_news_end_the_wait_at_once_and_never_lengthen_it() -> None:
    one, turn = group(), Turn(MatesState("b"), 50)
    one.try_us = 900
    note_news(turn, one)
    assert one.try_us == 50, "the mates answered within the instant of the failure"
    one.try_us = 40
    note_news(turn, one)
    assert one.try_us == 40


def test_news_in_an_attempt_ask_the_votes_again_and_spare_the_wait_after_it() -> None:
    one, turn = group(Record(VOTED, 3, "b", ("a", "b", "c"), lease_end_us=700)), Turn(MatesState("b"), 50)
    one.draft = Draft(send_us=600)
    note_news(turn, one)
    assert one.draft.send_us == 50
    turn.now_us = 700
    leave(turn, one, "the lease is over")
    assert (one.try_us, one.failures) == (700, 1)
    enter(turn, one, 4, "b", ("a", "b", "c"), 1000)
    turn.now_us = 1700
    leave(turn, one, "the lease is over")
    assert one.try_us > 1700, "old news do not count twice"


# ---- the fuse -------------------------------------------------------------------------------------------------------


def test_a_run_lasts_a_lease_beyond_the_word_of_the_mate_heard_least() -> None:
    one = group(Record(members=("a", "b", "c"), start_at_us=100), when_dead=FAIL)
    turn = Turn(MatesState("b"), 100)
    assert fuse_us(turn, one) == 100 + LEASE_US, "from its start on"
    one.views["a"] = MateView(bound_us=500)
    assert fuse_us(turn, one) == 100 + LEASE_US
    one.views["c"] = MateView(bound_us=400)
    assert fuse_us(turn, one) == 400 + LEASE_US
    one.views["c"].over = True
    assert fuse_us(turn, one) == 500 + LEASE_US, "who has had its run is not waited for"
    one.views["a"].over = True
    assert fuse_us(turn, one) == FOREVER


def test_a_job_that_may_run_alone_has_no_fuse() -> None:
    one = group(Record(members=("a", "b", "c"), start_at_us=100), when_dead=START_ALONE)
    assert fuse_us(Turn(MatesState("b"), 100), one) == FOREVER


# ---- what survives a crash ------------------------------------------------------------------------------------------


def test_records_and_the_epoch_survive_a_crash_and_what_was_heard_does_not() -> None:
    one = group(Record(VOTED, attempt=3, coordinator="a", members=("a", "b")))
    one.views["a"].heard_us = 5
    state = MatesState("b", epoch=7, groups={"g": one})
    again = reloaded(stored(state))
    assert (again.domain, again.epoch) == ("b", 7)
    assert again.groups["g"].record == one.record
    assert again.groups["g"].views == {"a": MateView(), "c": MateView()}
