"""Phases: around the profiled mean, by seed and name, and bounded by what a program can draw."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from cohabit.sim.machine.constants import CONSTANTS, calibration_hash
from cohabit.sim.machine.phases import AVERAGE, BURST, CALM, LEVELS, STEADY, Phases, draw_track, multipliers
from cohabit.sim.machine.truth import Truth, shape_of
from tests.sim.machine.machines import as_program, node_group, plain_program

SHARES = CONSTANTS.phases.shares


def test_every_run_has_exactly_the_shares_of_the_constants() -> None:
    for number in range(200):
        track = draw_track(np.random.default_rng(number))
        assert track.ends[-1] == 1.0
        assert list(track.ends) == sorted(track.ends)
        assert len(track.ends) == len(track.levels)
        assert all(before != after for before, after in zip(track.levels, track.levels[1:], strict=False))
        assert track.shares_between(np.array([0.0, 1.0]))[0] == pytest.approx(SHARES, abs=1e-12)


def test_the_mean_over_a_run_is_the_profiled_one() -> None:
    levels = [multipliers(level, 10.0, 0.4) for level in LEVELS]
    assert sum(share * one.bandwidth for share, one in zip(SHARES, levels, strict=True)) == pytest.approx(1)
    assert sum(share * one.sensitivity for share, one in zip(SHARES, levels, strict=True)) == pytest.approx(1)
    assert [one.bandwidth for one in levels] == pytest.approx([0.4, 1.0, 1.6])


def test_the_number_of_stages_is_about_what_the_constants_say() -> None:
    counts = [len(draw_track(np.random.default_rng(number)).ends) for number in range(300)]
    assert np.mean(counts) == pytest.approx(3 * (CONSTANTS.phases.cycles_per_run + 1) - 2, rel=0.1)


def test_stages_follow_the_seed_and_the_name() -> None:
    assert Phases(1).track("a") == Phases(1).track("a")
    assert Phases(1).track("a") != Phases(1).track("b")
    assert Phases(1).track("a") != Phases(2).track("a")


def test_shares_of_intervals_add_up() -> None:
    track = draw_track(np.random.default_rng(3))
    shares = track.shares_between(np.linspace(0, 1, 38))
    assert shares.sum(axis=1) == pytest.approx(1)
    assert shares.mean(axis=0) == pytest.approx(SHARES)
    assert STEADY.shares_between(np.array([0.0, 0.3, 1.0])).tolist() == [[0, 1, 0], [0, 1, 0]]


def test_a_saturated_program_is_flat() -> None:
    """It cannot burst above what its cores can draw; the bound holds on both sides, or the mean would suffer."""
    truth = Truth({"p": as_program("p", plain_program(gbs=(112,) * 4))}, [node_group()])
    shape = shape_of("p", 16, 1, 1, 16)
    assert [truth.load(shape, 0, level).demand(20.0) for level in LEVELS] == [112.0] * 3
    near = Truth({"p": as_program("p", plain_program(gbs=(100,) * 4))}, [node_group()])
    ceiling = 0.97 * 114.8
    found = [near.load(shape, 0, level).demand(20.0) for level in LEVELS]
    assert found == pytest.approx([200 - ceiling, 100, ceiling])


def test_ipc_stays_sensible_in_the_most_sensitive_stage() -> None:
    truth = Truth({"p": as_program("p", plain_program((0.36, 0.42, 0.52, 1.0)))}, [node_group()])
    calm, average, burst = (truth.load(shape_of("p", 16, 1, 1, 16), 0, level) for level in LEVELS)
    assert average.ipc(2.0) == 0.36
    assert burst.ipc(2.0) == pytest.approx(0.36 / 2)
    assert calm.ipc(2.0) + burst.ipc(2.0) == pytest.approx(2 * 0.36)
    assert calm.ipc(20.0) == average.ipc(20.0) == burst.ipc(20.0) == 1.0


@pytest.mark.parametrize("level", [CALM, BURST])
def test_alone_a_phase_changes_nothing(level: int) -> None:
    truth = Truth({"p": as_program("p", plain_program(gbs=(90,) * 4, mu=0.9))}, [node_group()])
    number = truth.load_number(shape_of("p", 16, 1, 1, 16), 0, level)
    assert truth.state(0, ((number, 20),)).rates == (1.0,)


def test_the_average_level_is_the_program_as_profiled() -> None:
    assert multipliers(AVERAGE, 5.0, 0.3) == (1.0, 1.0)


def test_constants_are_those_of_the_file_and_their_hash_tells_every_change() -> None:
    program = as_program("p", plain_program())
    hashes = {
        calibration_hash(),
        calibration_hash([program]),
        calibration_hash(
            [program], msgspec.structs.replace(CONSTANTS, law=msgspec.structs.replace(CONSTANTS.law, q=2.0))
        ),
        calibration_hash([as_program("p", plain_program(mu=0.51))]),
    }
    assert len(hashes) == 4
    assert calibration_hash([program, as_program("q", plain_program())]) == calibration_hash(
        [as_program("q", plain_program()), program]
    )


def test_shares_that_would_shift_the_mean_are_refused() -> None:
    with pytest.raises(AssertionError):
        msgspec.structs.replace(CONSTANTS.phases, shares=(0.2, 0.5, 0.3))
