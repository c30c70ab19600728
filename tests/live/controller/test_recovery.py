"""Comparing the core with the world after a restart, without either."""

from __future__ import annotations

from cohabit.backend.protocol import ENDED, NEVER, RUNNING, Run
from cohabit.live.controller.recovery import NOT_BEGUN, reconcile, to_repeat
from cohabit.model.command import CancelJob, RenewJob, StopJob, WakeAt
from cohabit.model.event import JobFinished, JobStarted, StartRefused

A = ("a", 1)


def test_what_goes_on_is_left_alone() -> None:
    found = reconcile({A: True}, [Run(*A, RUNNING)], [])
    assert found == ([], [], [], [])


def test_a_start_that_was_not_heard_of_is_reported() -> None:
    assert reconcile({A: False}, [Run(*A, RUNNING)], []).facts == [JobStarted(*A)]


def test_an_end_that_was_not_heard_of_is_reported_and_then_settled() -> None:
    for confirmed in (True, False):
        found = reconcile({A: confirmed}, [Run(*A, ENDED, "failed")], [])
        assert (found.facts, found.over) == ([JobFinished(*A, "failed")], [A])


def test_a_start_that_never_began_is_refused() -> None:
    refused = [StartRefused(*A, NOT_BEGUN, back_off_us=1)]
    assert reconcile({A: False}, [], []).facts == refused
    found = reconcile({A: False}, [Run(*A, NEVER)], [])
    assert (found.facts, found.over) == (refused, [A])


def test_a_run_without_a_trace_is_lost() -> None:
    assert reconcile({A: True}, [], []).facts == [JobFinished(*A, "lost")]


def test_a_run_nobody_counts_on_is_stopped() -> None:
    found = reconcile({("a", 2): False}, [Run(*A, RUNNING), Run("b", 1, ENDED, "done")], [])
    assert found.strays == [A]
    assert found.over == [("b", 1)]


def test_a_cancelled_start_that_never_began_is_not_queued_again() -> None:
    assert reconcile({A: False}, [Run(*A, NEVER)], [CancelJob(*A)]).facts == [JobFinished(*A, "cancelled")]
    assert reconcile({A: False}, [], [StopJob(*A)]).facts == [JobFinished(*A, "stopped")]


def test_orders_to_stop_and_renew_are_repeated_while_their_run_goes_on() -> None:
    orders = to_repeat(
        [RenewJob(*A, 5), RenewJob("b", 1, 7), WakeAt(1), RenewJob(*A, 9), CancelJob("c", 1), StopJob("b", 1)]
    )
    assert orders == [CancelJob("c", 1), StopJob("b", 1), RenewJob(*A, 9)]
    active = {A: True, ("b", 1): True, ("c", 1): True}
    runs = [Run(*A, RUNNING), Run("b", 1, RUNNING), Run("c", 1, ENDED, "done")]
    assert reconcile(active, runs, orders).orders == [StopJob("b", 1), RenewJob(*A, 9)]
