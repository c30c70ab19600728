"""The catalogue sns12 says what the calibrated table says: demands at every scale, classes, stated facts."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from cohabit.model.errors import InputError
from cohabit.model.profile import classify, demand
from cohabit.model.program import profile_of
from cohabit.trace.programs import catalogue, read_programs
from tests.public_data import SPECIFICATION, pinned

SNS = catalogue("sns12")
NODE = SNS.machine.node
# Ways and GB/s per node at alpha 0.9, at scales 1, 2, 4, 8: what 2, 4, 8 and 20 sampled ways show.
DEMANDS = {
    "WC": [(3, 29.0), (2, 14.66), (2, 7.04), (2, 3.31)],
    "NW": [(18, 31.33), (16, 16.25), (7, 8.21), (5, 4.09)],
    "TS": [(12, 42.67), (8, 24.13), (5, 13.24), (3, 6.99)],
    "GAN": [(6, 38.5)],
    "RNN": [(5, 15.5)],
    "MG": [(3, 109.5), (2, 66.87), (2, 36.13), (2, 18.74)],
    "CG": [(10, 49.65), (7, 27.7), (4, 13.3), (3, 6.08)],
    "EP": [(2, 0.1), (2, 0.05), (2, 0.02), (2, 0.01)],
    "LU": [(6, 91.0), (4, 53.09), (3, 28.95), (2, 15.06)],
    "BFS": [(18, 0.15), (16, 0.64), (7, 0.57), (5, 0.51)],
    "HC": [(2, 3.2), (2, 1.36), (2, 0.55), (2, 0.2)],
    "BW": [(3, 105.0), (2, 62.85), (2, 34.37), (2, 17.83)],
}
CLASSES = {
    "scaling": {"MG", "CG", "LU", "TS", "BW"},
    "compact": {"BFS", "GAN", "RNN"},
    "neutral": {"EP", "WC", "NW", "HC"},
}


def test_the_machine() -> None:
    assert (NODE.count, NODE.cores, NODE.ways, NODE.min_ways, NODE.closids) == (8, 28, 20, 2, 16)
    assert NODE.bandwidth_gbs[:2] == ((1, 18.8), (2, 37.17))
    assert NODE.bandwidth_gbs[-1] == (28, 118.26)
    assert NODE.memory_bytes == 128 * 2**30
    assert SNS.machine.platform["network_gbs"] == 6.8
    assert SNS.machine.defaults["alpha"] == 0.9
    assert SNS.programs.raised == {}


@pytest.mark.parametrize("name", DEMANDS)
def test_demands_at_every_scale(name: str) -> None:
    program = SNS.programs[name]
    profile = profile_of(program, NODE)
    found = [demand(profile, scale, 16, 0.9, NODE) for scale in program.scales]
    assert [(one.ways, round(one.bandwidth_gbs, 2)) for one in found if one] == DEMANDS[name]


def test_all_programs_and_their_classes() -> None:
    assert set(SNS.programs) == set(DEMANDS)
    found = {kind: set[str]() for kind in CLASSES}
    for name, program in SNS.programs.items():
        judged = classify(profile_of(program, NODE))
        assert judged.kind == program.declared_class
        found[judged.kind].add(name)
    assert found == CLASSES


def test_ideal_scales() -> None:
    """CG is best on 2 nodes with +13 %; MG, LU, TS and BW on 8, each with more than 30 %."""
    for name in CLASSES["scaling"]:
        program = SNS.programs[name]
        judged = classify(profile_of(program, NODE))
        assert judged.ideal_scale == (2 if name == "CG" else 8)
        gain = program.time_s(1) / program.time_s(judged.ideal_scale) - 1
        assert gain == pytest.approx(0.13, abs=0.001) if name == "CG" else gain > 0.30


def test_stated_numbers() -> None:
    full = {name: SNS.programs[name].bandwidth_at(1, 20, 20) for name in ("MG", "CG", "EP", "BFS")}
    assert full == {"MG": 112.0, "CG": 42.9, "EP": 0.09, "BFS": 0.12}
    assert SNS.programs["MG"].bandwidth_at(2, 20, 20) == 67.6
    assert SNS.programs["BFS"].bandwidth_at(2, 20, 20) > full["BFS"]
    assert SNS.programs["BW"].exclusive_time_s(28, NODE) == pytest.approx(1190, abs=0.5)
    assert SNS.programs["BW"].exclusive_time_s(28, NODE, 8) == pytest.approx(557, abs=0.5)
    assert {name for name, one in SNS.programs.items() if one.power_of_two_only} == {"MG", "CG", "EP", "LU", "BFS"}
    assert {name for name, one in SNS.programs.items() if one.single_node} == {"GAN", "RNN"}


def test_where_every_number_comes_from_is_kept() -> None:
    for program in SNS.programs.values():
        assert set(program.provenance) == {"cls", "ways", "bw", "t", "sp"}
        assert program.title
        assert program.framework


def test_the_facts_are_those_of_the_specification() -> None:
    file = Path(str(resources.files("cohabit.trace") / "catalogues" / "sns12.json"))
    text = pinned(file, "191ade0e1a5d0722fc73d5098d2277b2f4266dcb4d983225da6d03da1ea4f9d8", "profiles-sns.json")
    if not text:
        return
    ours, theirs = json.loads(file.read_text()), json.loads(text)
    for table in ("platform", "sns_defaults"):
        assert ours[table] == theirs[table]
    assert ours["stream_curve_gbs"]["points_T"] == theirs["stream_curve_gbs"]["points_T"]
    assert ours["stream_curve_gbs"]["points_A"] == theirs["stream_curve_gbs"]["points_A"]
    assert read_programs(SPECIFICATION / "profiles-sns.json") == SNS.programs


def test_unknown_catalogues() -> None:
    with pytest.raises(InputError, match="did you mean 'sns12'"):
        catalogue("sns21")
