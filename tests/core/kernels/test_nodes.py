"""The lowest idle nodes are given out, as few ranges, and come back."""

from __future__ import annotations

from cohabit.core.columns import FIRST_WORD, FREE, RANGE_NEXT, SPARE_RANGE
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import World

nodes = kernel("nodes")


def take(world: World, count: int) -> int:
    row = world.job(count, 10)
    nodes.take_nodes(row, world.jobs, world.machine)
    return row


def release(world: World, row: int) -> None:
    nodes.release_nodes(row, world.jobs, world.machine)


def spare_ranges(world: World) -> int:
    count, link = 0, int(world.gauges[SPARE_RANGE])
    while link >= 0:
        count, link = count + 1, int(world.pool[RANGE_NEXT, link])
    return count


def test_only_existing_nodes_are_idle_at_first() -> None:
    world = World(70)
    assert world.idle.tolist() == [2**64 - 1, 2**6 - 1]
    assert (world.free, spare_ranges(world)) == (70, 71)


def test_the_lowest_idle_nodes_are_taken() -> None:
    world = World(10)
    first, second = take(world, 3), take(world, 2)
    assert (world.ranges(first), world.ranges(second)) == ([(0, 3)], [(3, 2)])
    release(world, first)
    third = take(world, 4)
    assert world.ranges(third) == [(0, 3), (5, 1)]
    assert world.idle.tolist() == [0b1111000000]


def test_taking_and_releasing_count_the_idle_nodes() -> None:
    world = World(10)
    row = take(world, 7)
    assert world.gauges[FREE] == 3
    release(world, row)
    assert world.gauges[FREE] == 10


def test_neighbours_in_two_words_are_one_range() -> None:
    world = World(130)
    row = take(world, 129)
    assert world.ranges(row) == [(0, 129)]
    assert world.idle.tolist() == [0, 0, 0b10]


def test_a_search_begins_at_the_first_word_with_idle_nodes() -> None:
    world = World(130)
    first, _ = take(world, 10), take(world, 100)
    assert world.gauges[FIRST_WORD] == 1
    release(world, first)
    assert world.gauges[FIRST_WORD] == 0
    assert world.ranges(take(world, 12)) == [(0, 10), (110, 2)]


def test_released_nodes_and_ranges_can_be_given_out_again() -> None:
    world = World(130)
    rows = [take(world, 1) for _ in range(130)]
    assert spare_ranges(world) == 1
    for row in rows[::2]:
        release(world, row)
    assert world.idle.tolist() == [0x5555555555555555, 0x5555555555555555, 0b01]
    assert all(world.ranges(row) == [] for row in rows[::2])
    wide = take(world, 65)
    assert world.ranges(wide) == [(node, 1) for node in range(0, 130, 2)]
    release(world, wide)
    for row in rows[1::2]:
        release(world, row)
    assert world.idle.tolist() == [2**64 - 1, 2**64 - 1, 0b11]
    assert spare_ranges(world) == 131
