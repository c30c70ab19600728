"""The canaries: nine features from what ranks waited, the words that start them, and the real thing under OpenMPI."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from cohabit.agent.canary.running import Canary, command_of, features_of, send_canary
from cohabit.model.errors import InputError
from cohabit.model.telemetry import CANARY_TIMES, feature_names

HERE = shutil.which("mpirun") is not None and importlib.util.find_spec("mpi4py") is not None
needs_mpi = pytest.mark.skipif(not HERE, reason="needs mpi4py (cohabit[mpi]) and OpenMPI (Debian: openmpi-bin)")


def test_nine_features_in_the_order_of_the_names() -> None:
    found = features_of([(0.1, 0.5, 1.0), (0.3, 0.1, 3.0)])
    assert tuple(found) == feature_names(CANARY_TIMES)
    assert found["canary.send_wait_s.min"] == pytest.approx(0.1)
    assert found["canary.send_wait_s.max"] == pytest.approx(0.3)
    assert found["canary.recv_wait_s.mean"] == pytest.approx(0.3)
    assert found["canary.allreduce_wait_s.max"] == pytest.approx(3.0)


def test_the_words_of_a_launcher_of_ones_own_come_before_the_program() -> None:
    words = command_of(Canary(ranks=16, launcher=("srun", "--mpi=pmix")), Path("out"))
    assert words[:4] == ("srun", "-n", "16", "--mpi=pmix")
    assert words[4] == sys.executable
    assert words[-4:] == ("100000000", "10", "5", "out")


@pytest.mark.parametrize("wrong", [Canary(ranks=1), Canary(size_mb=0.0), Canary(ring_rounds=0), Canary(launcher=())])
def test_what_cannot_work_is_refused(wrong: Canary) -> None:
    with pytest.raises(InputError):
        wrong.check()


@needs_mpi
def test_a_launcher_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(InputError, match="there is no no-such-mpirun"):
        send_canary(Canary(launcher=("no-such-mpirun",)))


@needs_mpi
@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timing  # ranks that wait for a core wait longer than for the token
def test_a_real_canary_waits_longer_with_a_larger_token() -> None:
    small, large = (send_canary(Canary(ranks=3, size_mb=size, ring_rounds=3, reduce_rounds=2)) for size in (0.1, 20.0))
    assert small.ranks == large.ranks == 3
    assert tuple(small.features) == feature_names(CANARY_TIMES)
    for name in CANARY_TIMES:
        lowest, highest, mean = (large.features[f"{name}.{stat}"] for stat in ("min", "max", "mean"))
        assert 0 <= lowest <= mean <= highest
    assert large.features["canary.allreduce_wait_s.mean"] > 3 * small.features["canary.allreduce_wait_s.mean"]
    assert large.cost_s > large.inside_s > 0
