"""Who goes with whom: by submit times (K10), by proportion (K9), by column; contradictions are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import BAD_SIZE, Workload
from cohabit.trace.pairing import NO_MEMBER, Tie, by_column, by_proportion, by_vicinity, chosen_by_proportion
from cohabit.trace.synthetic import synthetic_workload


def jobs_at(*submit_s: float, ids: list[Any] | None = None, **extra: list[str]) -> Workload:
    count = len(submit_s)
    ones = np.ones(count, np.int64)
    made = synthetic_workload(
        (np.array(submit_s) * SECOND).astype(np.int64), ones * SECOND, ones * SECOND, ones, nodes=8, source="made",
        extra={name: np.array(cells, object) for name, cells in extra.items()},
    )  # fmt: skip
    return made if ids is None else replace(made, job_id=np.array(ids))


def rows(ties: list[Tie]) -> list[tuple[int, ...]]:
    return [tie.rows for tie in ties]


def test_a_job_goes_with_the_latest_one_before_it() -> None:
    jobs = {"big": jobs_at(0, 100, 200), "small": jobs_at(99.999, 100, 250)}
    assert rows(by_vicinity(jobs, 120 * SECOND)) == [(0, 0), (1, 1), (2, 2)]


def test_the_vicinity_itself_is_too_far_and_later_jobs_do_not_count() -> None:
    jobs = {"big": jobs_at(0, 1000), "small": jobs_at(120, 999)}
    assert rows(by_vicinity(jobs, 120 * SECOND)) == []
    assert rows(by_vicinity(jobs, 121 * SECOND)) == [(0, 0)]


def test_of_several_the_highest_id_wins() -> None:
    jobs = {"big": jobs_at(0), "small": jobs_at(1, 2, 3, ids=[7, 30, 9])}
    assert rows(by_vicinity(jobs, 120 * SECOND)) == [(0, 1)]
    named = {"big": jobs_at(0), "small": jobs_at(1, 2, 3, ids=["z", "b", "a"])}
    assert rows(by_vicinity(named, 120 * SECOND)) == [(0, 2)]


def test_files_need_not_be_sorted_and_rejected_jobs_have_no_mates() -> None:
    big = jobs_at(500, 0)
    small = replace(jobs_at(510, 5), rejection=np.array([BAD_SIZE, 0], np.int8))
    assert rows(by_vicinity({"big": big, "small": small}, 120 * SECOND)) == [(1, 1)]


def test_three_domains_gather_around_the_first() -> None:
    jobs = {"a": jobs_at(0, 1000), "b": jobs_at(1, 1001), "c": jobs_at(1002)}
    assert rows(by_vicinity(jobs, 60 * SECOND)) == [(0, 0, NO_MEMBER), (1, 1, 0)]
    assert by_vicinity(jobs, 60 * SECOND)[1].name == "a:2+b:2+c:1"


@pytest.mark.parametrize("proportion", [0.05, 0.1, 0.5])
def test_pairs_by_vicinity_can_be_thinned_evenly(proportion: float) -> None:
    times = [1000.0 * number for number in range(200)]
    jobs = {"a": jobs_at(*times), "b": jobs_at(*times)}
    kept = [row for row, _ in rows(by_vicinity(jobs, SECOND, proportion))]
    assert len(kept) == round(200 * proportion)
    assert max(np.diff(kept)) <= 1 / proportion + 1
    assert len(by_vicinity(jobs, SECOND, 1.0)) == 200


@pytest.mark.parametrize(
    ("proportion", "expected"),
    [(0.25, [3, 7, 11]), (0.33, [2, 5, 8, 11]), (0.5, [1, 3, 5, 7, 9, 11]), (1.0, list(range(12))),
     (0.8, [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]), (0.4, [1, 3, 5, 7, 9, 11])],
)  # fmt: skip
def test_every_so_manieth_job(proportion: float, expected: list[int]) -> None:
    assert chosen_by_proportion(12, proportion).tolist() == expected


def test_proportion_pairs_the_ith_jobs_of_all_domains() -> None:
    jobs = {"a": jobs_at(30, 20, 10, 0), "b": jobs_at(0, 10, 20, 30), "c": jobs_at(1, 2, 3, 4)}
    assert rows(by_proportion(jobs, 0.5)) == [(2, 1, 1), (0, 3, 3)]


def test_proportion_needs_equally_many() -> None:
    with pytest.raises(InputError, match=r"a has 1, b has 2.*vicinity"):
        by_proportion({"a": jobs_at(0), "b": jobs_at(0, 1)}, 0.5)
    with pytest.raises(InputError, match="impossible"):
        chosen_by_proportion(5, 0.0)


def test_one_side_of_a_pair_suffices() -> None:
    jobs = {"a": jobs_at(0, 1, mate=["b:2", ""]), "b": jobs_at(0, 1, mate=["", "a:1"])}
    assert rows(by_column(jobs)) == [(0, 1)]
    assert rows(by_column(jobs | {"b": jobs_at(0, 1)})) == [(0, 1)]
    assert rows(by_column(jobs | {"a": jobs_at(0, 1)})) == [(0, 1)]
    assert by_column({"a": jobs_at(0), "b": jobs_at(0)}) == []


def test_groups_span_any_number_of_domains() -> None:
    jobs = {name: jobs_at(0, 1, group=["", "g"]) for name in "abcd"}
    assert by_column(jobs) == [Tie("g", (1, 1, 1, 1))]


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ({"mate": ["c:1", ""]}, {}, "unknown domain 'c'"),
        ({"mate": ["b:9", ""]}, {}, "a job that b does not have"),
        ({"mate": ["a:1", ""]}, {}, "the job itself"),
        ({"mate": ["a:2", ""]}, {}, "a job of its own domain"),
        ({"mate": ["b", ""]}, {}, "is not DOMAIN:JOB"),
        ({"mate": ["b:1", "b:1"]}, {}, "b:1 would have two mates, a:1"),
        ({"mate": ["b:1", ""]}, {"mate": ["a:2", ""]}, "b:1 would have two mates, a:1"),
        ({"group": ["g", "g"]}, {}, "already has job 1 in domain a"),
        ({"group": ["g", ""]}, {}, "group g has no job in any other domain"),
        ({"group": ["g", ""], "mate": ["b:1", ""]}, {"group": ["", "g"]}, "a:1 has a mate and a group"),
    ],
)
def test_contradictions_are_refused(a: dict[str, list[str]], b: dict[str, list[str]], words: str) -> None:
    with pytest.raises(InputError) as refusal:
        by_column({"a": jobs_at(0, 1, **a), "b": jobs_at(0, 1, **b)})
    assert words in str(refusal.value)
    assert "job 1" in str(refusal.value) or "job 2" in str(refusal.value)
