"""The scenes that fit there under a real Slurm and a real Grid Engine, beside the simulator: same order, same waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cohabit.live.peers.keys import write_new_key
from tests.backend.coupled.conftest import folder, gridengine, slurms, threshold
from tests.backend.coupled.sides import GridEngineSide, Side, SlurmSide, why
from tests.breadth import few
from tests.mates_conformance.managers import APART_S, GRAIN_S, INSTANT_S, play_managed, scenes
from tests.mates_conformance.scene import Scene, swapped, wrong
from tests.mates_conformance.simulated import play_simulated
from tests.support.gridengine_cluster import GridEngineCluster
from tests.support.slurm_cluster import SlurmCluster

__all__ = ["folder", "gridengine", "slurms", "threshold"]
pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timing, pytest.mark.xdist_group("coupled-managers")]


@pytest.fixture
def two_slurms(slurms: list[SlurmCluster], tmp_path: Path) -> Iterator[list[Side]]:
    """Two Slurms, not steered yet."""
    named = zip(("alpha", "beta"), slurms, strict=True)
    yield from _sides([SlurmSide(name, tmp_path / name, one) for name, one in named])


@pytest.fixture
def both_kinds(slurms: list[SlurmCluster], gridengine: GridEngineCluster, tmp_path: Path) -> Iterator[list[Side]]:
    """A Slurm and a Grid Engine."""
    alpha, beta = (
        SlurmSide("alpha", tmp_path / "alpha", slurms[0]),
        GridEngineSide("beta", tmp_path / "beta", gridengine),
    )
    yield from _sides([alpha, beta])


def _sides(sides: list[Side]) -> Iterator[list[Side]]:
    for side in sides:
        side.folder.mkdir()
        side.clear()
    write_new_key(sides[0].folder.parent / "key")
    try:
        yield sides
    finally:
        for side in sides:
            side.detach()
            side.clear()


def judge(scene: Scene, sides: list[Side], place: Path, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The simulator against the scene's own answer; the managers against the simulator, which is told when
    their commands, which take their time, were done."""
    for name in ("given", "done"):
        (place / name).mkdir()
    found = [f"simulated: {one}" for one in wrong(scene, play_simulated(scene, place / "given"), 0.1)]
    done, played = play_managed(scene, sides, place, program)
    simulated = play_simulated(done, place / "done")
    found += wrong(replace(scene, starts={}), played, GRAIN_S, APART_S) + swapped(scene, played, simulated, INSTANT_S)
    starts = {job.name: (played.courses[job.name].start_s, simulated.courses[job.name].start_s) for job in scene.jobs}
    off = [abs(real - told) for real, told in starts.values() if real is not None and told is not None]
    with capsys.disabled():
        print(f"\n{scene.name}: starts within {max(off):.1f} s of the simulated ones")  # noqa: T201
    for name, (real, told) in starts.items():
        if (real is None) != (told is None) or (real is not None and told is not None and abs(real - told) > GRAIN_S):
            found.append(f"{name} starts at {real}, simulated at {told}")
    assert not found, f"{found}\n{why(sides)()}"


@pytest.mark.parametrize("scene", few(scenes(), 2), ids=lambda scene: scene.name.replace(" ", "-"))
def test_a_scene_on_two_slurms(
    scene: Scene, two_slurms: list[Side], tmp_path: Path, threshold: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge(scene, two_slurms, tmp_path, threshold, capsys)


@pytest.mark.parametrize("scene", few(scenes(), 2), ids=lambda scene: scene.name.replace(" ", "-"))
def test_a_scene_on_slurm_and_grid_engine(
    scene: Scene, both_kinds: list[Side], tmp_path: Path, threshold: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge(scene, both_kinds, tmp_path, threshold, capsys)
