"""Two live controllers and a group of two real jobs: together without trouble, and whatever dies when.

The whole of it, every boundary of both sides, is `python -m tests.campaign_live`; here a sample of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.breadth import few
from tests.system.deadly_rounds import Nursery
from tests.system.mates_round import broken, play


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("scheme", ["hold", "yield", "agree"])
def test_mates_start_within_a_tenth_of_a_second(nursery: Nursery, tmp_path: Path, scheme: str) -> None:
    """The best of up to three rounds: what a neighbour on the machine adds is not ours."""
    apart_us: list[int] = []
    while len(apart_us) < 3 and min(apart_us, default=100_000) >= 100_000:
        result = play(nursery, tmp_path / str(len(apart_us)), scheme=scheme)
        assert broken(result) == []
        assert [len(runs) for runs in result.runs.values()] == [1, 1]
        apart_us.append(result.apart_us)
    assert min(apart_us) < 100_000, apart_us


@pytest.mark.slow
@pytest.mark.parametrize(
    ("die", "dead_s"),
    few(
        [
            (("alpha", "after batch", 1), 0.0),  # submitted, and nobody told
            (("beta", "before batch", 2), 0.0),
            (("beta", "before sending", 3), 0.0),
            (("alpha", "after hearing", 3), 0.7),
            (("alpha", "after batch", 5), 0.0),  # about the decision
            (("alpha", "before posting", 5), 6.0),
            (("beta", "after batch", 6), 6.0),  # the decision heard
            (("alpha", "before order", 1), 0.0),  # the start decided, and not ordered
            (("beta", "after order", 1), 6.0),  # started; its fuse burns without it
            (("alpha", "before fact", 1), 0.7),
            (("beta", "after sending", 9), 6.0),
            (("alpha", "after checkpoint", 2), 0.7),
        ],
        4,
    ),
    ids=lambda value: "-".join(map(str, value)).replace(" ", "-") if isinstance(value, tuple) else f"{value}s",
)
def test_mates_keep_their_promises_whoever_dies(
    nursery: Nursery, tmp_path: Path, die: tuple[str, str, int], dead_s: float
) -> None:
    domain, kind, number = die
    result = play(nursery, tmp_path, die, dead_s, checkpoint_every=3 if "checkpoint" in kind else 2000)
    passed, starts = result.boundaries[domain].count(kind), result.starts[domain]
    if passed != number:  # else it died there: after all was done, or its second life has come to no such boundary
        assert starts == (2 if passed > number else 1), "it dies where it is told to, and nowhere else"
    assert broken(result) == []


@pytest.mark.slow
def test_the_kill_test_bites(nursery: Nursery, tmp_path: Path) -> None:
    """What would happen if an executor had no fuse."""
    assert "ran alone" in str(broken(play(nursery, tmp_path, ("alpha", "after order", 1), 6.0, mutant="no fuse")))


@pytest.mark.slow
def test_a_controller_that_forgets_its_runs_starts_none_twice_at_once(nursery: Nursery, tmp_path: Path) -> None:
    """The executor's book of cores refuses the second run of a job for as long as the first one is there."""
    result = play(nursery, tmp_path, ("beta", "before fact", 1), 0.0, mutant="forgotten runs")
    assert "two runs at once" not in str(broken(result))
