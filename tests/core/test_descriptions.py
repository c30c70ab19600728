"""Jobs that are placed alike share a number, and answers are kept by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.core.descriptions import Descriptions, Wishes
from cohabit.core.kinds import Kinds
from cohabit.core.ledger import Ledger
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.job import Job
from cohabit.model.plan import Ask
from cohabit.model.resources import CORES
from tests.support.clusters import MEMORY

SMALL = Cluster((NodeGroup(4, cores=8),))


def numbers(shared: bool, *asked: dict[str, Any], cluster: Cluster = SMALL) -> list[int]:
    """Numbers of jobs, which differ as told."""
    specs = [Job(str(number), **({"limit_us": 5, "processes": 2} | one)) for number, one in enumerate(asked)]
    found: list[int] = Descriptions(Kinds(cluster), shared, len(specs)).numbers(np.arange(len(specs)), specs).tolist()
    return found


def ask(nodes: int, cores: int) -> Ask:
    return Ask(1, nodes, cores, 0, 0, False, "run", ((cores,),))


def test_on_whole_nodes_jobs_are_alike_that_need_as_many_of_the_same_kinds() -> None:
    assert numbers(False, {}, {"user": 3, "limit_us": 9}, {"processes": 8}, {"processes": 9}) == [0, 0, 0, 1]
    assert numbers(False, {}, {"memory_bytes": 1}, {"memory_bytes": 5}, cluster=MEMORY) == [0, 0, 1]


def test_on_shared_nodes_every_part_of_the_description_counts() -> None:
    differ = ({}, {"program": "p"}, {"processes": 3}, {"memory_bytes": 1}, {"exclusive": True}, {"single_node": True})
    assert numbers(True, *differ) == [0, 1, 2, 3, 4, 5]
    assert numbers(True, {}, {"user": 9, "limit_us": 77}, {"profile_owner": "1001"}) == [0, 0, 0]
    assert numbers(True, {"program": "p"}, {"program": "p", "profile_owner": "1001"}) == [0, 1], "by own profiles"


def test_a_changed_job_gets_its_number_anew() -> None:
    specs: list[Job | None] = [Job("a", 5, 2), Job("b", 5, 2)]
    one = Descriptions(Kinds(SMALL), True, 2)
    assert one.numbers(np.arange(2), specs).tolist() == [0, 0]
    specs[1] = Job("b", 5, 3)
    assert one.numbers(np.arange(2), specs).tolist() == [0, 0], "not noticed by itself"
    one.forget(1)
    assert one.numbers(np.arange(2), specs).tolist() == [0, 1]
    assert one.count == 2


def test_asks_are_found_once_for_all_jobs_alike() -> None:
    specs = [Job("a", 5, 2, program="p"), Job("b", 5, 2, program="p"), Job("c", 5, 2, program="q")]
    one, found = Descriptions(Kinds(SMALL), True, 3), list[int]()

    def find(row: int) -> list[Ask]:
        found.append(row)
        return [ask(1, 2)]

    for _ in range(2):
        for row in range(3):
            assert one.asks(row, specs, lambda row=row: find(row)) == [ask(1, 2)]  # type: ignore[misc]
    assert found == [0, 2]
    one.forget_asks("p")
    for row in range(3):
        one.asks(row, specs, lambda row=row: find(row))  # type: ignore[misc]
    assert found == [0, 2, 0], "the profile of the other program has not changed"
    one.forget_asks()
    one.asks(2, specs, lambda: find(2))
    assert found == [0, 2, 0, 2]


def test_a_description_has_room_if_one_of_its_asks_has() -> None:
    ledger, wishes = Ledger(Kinds(SMALL), (CORES,)), Wishes()
    wishes.note(0, [ask(4, 8)])
    wishes.note(1, [ask(5, 1), ask(2, 1)])
    wishes.note(2, [ask(5, 1), ask(1, 9)])
    assert wishes.without_room(ledger).tolist() == [2]
    ledger.book(0, ((0, 1),), ((1,),))
    assert wishes.without_room(ledger).tolist() == [0, 2]
    wishes.drop(2)
    assert wishes.without_room(ledger).tolist() == [0]


def test_room_for_more_rows_keeps_the_numbers() -> None:
    specs: list[Job | None] = [Job("a", 5, 2), Job("b", 5, 3)]
    one = Descriptions(Kinds(SMALL), True, 2)
    one.numbers(np.arange(2), specs)
    one.grow(4)
    assert one.numbers(np.arange(3), [*specs, Job("c", 5, 3)]).tolist() == [0, 1, 1]
