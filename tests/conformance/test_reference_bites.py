"""The conformance cases hold for the textbook reference, and each fails with the bug it is there to catch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.conformance.cases import CASES, Case
from tests.conformance.mutants import BUGS, simulate_with_bug
from tests.reference.fast_easy import compiler, fast_easy_starts
from tests.reference.textbook import Job, simulate

EASY = [case for case in CASES if case.backfill == "easy"]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def run(case: Case, bug: str | None) -> tuple[int | None, ...]:
    results = simulate_with_bug(
        case.jobs,
        case.nodes,
        bug=bug,
        order=case.order,
        backfill=case.backfill,
        backfill_order=case.backfill_order,
        kill=case.kill,
    )
    return tuple(result.start for result in results)


@each_case
def test_reference_gives_the_expected_starts(case: Case) -> None:
    results = simulate(
        case.jobs,
        case.nodes,
        order=case.order,
        backfill=case.backfill,
        backfill_order=case.backfill_order,
        kill=case.kill,
    )
    assert tuple(result.start for result in results) == case.starts, case.why
    assert run(case, None) == case.starts


@each_case
def test_the_bug_gives_another_answer(case: Case) -> None:
    assert run(case, case.bug) == case.wrong
    assert case.wrong != case.starts


@each_case
def test_the_unit_of_time_does_not_matter(case: Case) -> None:
    scaled = [Job(j.job_id, j.submit * 10**6, j.run * 10**6, j.limit * 10**6, j.size) for j in case.jobs]
    results = simulate(
        scaled,
        case.nodes,
        order=case.order,
        backfill=case.backfill,
        backfill_order=case.backfill_order,
        kill=case.kill,
        tick=10**6,
    )
    assert tuple(r.start for r in results) == tuple(None if t is None else t * 10**6 for t in case.starts)


@pytest.mark.parametrize("case", EASY, ids=lambda case: case.name)
def test_an_easy_case_also_holds_with_one_reservation_and_in_c(case: Case) -> None:
    profile = simulate(
        case.jobs, case.nodes, order=case.order, backfill=1, backfill_order=case.backfill_order, kill=case.kill
    )
    assert tuple(r.start for r in profile) == case.starts
    if case.order == "fcfs" and case.backfill_order is None and compiler() is not None:
        assert tuple(fast_easy_starts(case.jobs, case.nodes, kill=case.kill)) == case.starts


def test_cases_are_well_formed_and_every_bug_is_caught() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.bug for case in CASES} == set(BUGS)
    for case in CASES:
        assert len(case.jobs) == len(case.starts) == len(case.wrong)
        assert case.why.endswith(".")
        assert all(job.limit > 0 for job in case.jobs), "must be writable as a trace"


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12), st.integers(1, 12), st.integers(1, 6)), max_size=10),
    st.sampled_from(["fcfs", "sjf", "wfp"]),
    st.sampled_from(["none", "easy", 2, "conservative"]),
    st.booleans(),
)
def test_without_a_bug_it_is_the_reference(
    rows: list[tuple[int, int, int, int]], order: str, backfill: str | int, kill: bool
) -> None:
    jobs = [Job(k, *row) for k, row in enumerate(rows)]
    plain = simulate_with_bug(jobs, 6, bug=None, order=order, backfill=backfill, kill=kill)
    assert plain == simulate(jobs, 6, order=order, backfill=backfill, kill=kill)
