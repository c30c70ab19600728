"""The measured pairs of our own exercises: whole, with their noise and where they come from, and the figures stated."""

from __future__ import annotations

import csv
import json
import socket
from typing import Any

import pytest
from benchmarks.own_pairs import NAMES, OUT, figures_of

pytestmark = pytest.mark.skipif(not (OUT / "pairs.csv").exists(), reason="not measured yet: benchmarks.own_pairs")


def rows() -> list[dict[str, str]]:
    with open(OUT / "pairs.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_all_ordered_pairs_of_at_least_eight_exercises_are_there_with_their_noise() -> None:
    found = rows()
    programs = {row["app"] for row in found}
    assert len(programs) >= 8
    assert programs <= set(NAMES)
    assert {(row["app"], row["other"]) for row in found} == {(one, two) for one in programs for two in programs}
    for row in found:
        assert int(row["meta.solo_repeats"]) >= 3
        assert int(row["meta.pair_repeats"]) >= 2
        assert float(row["meta.solo_noise_percent"]) >= 0.0
        assert float(row["meta.pair_noise_percent"]) >= 0.0
        assert float(row["app_time_s"]) > 1.0


def test_the_machine_is_said_and_nothing_private() -> None:
    text = (OUT / "pairs.csv.meta.json").read_text()
    told = json.loads(text)
    assert told["environment"]
    assert told["sources"]
    assert str(OUT.parents[2]) not in text
    assert socket.gethostname() not in json.dumps(told["environment"])


def near(stated: Any, found: Any) -> bool:
    """Whether figures are the stated ones, up to rounding of other processors."""
    if isinstance(stated, dict):
        return stated.keys() == found.keys() and all(near(stated[key], found[key]) for key in stated)
    if isinstance(stated, float):
        return abs(stated - found) <= 0.02 * max(abs(stated), 1.0)
    return bool(stated == found)


@pytest.mark.slow
def test_the_stated_figures_come_out_again() -> None:
    assert near(json.loads((OUT / "figures.json").read_text()), figures_of(OUT / "pairs.csv"))
