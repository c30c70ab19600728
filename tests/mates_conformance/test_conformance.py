"""What is simulated is what happens: every scene simulated and on live controllers, with the same starts and waits.

A failure names the seed of a random scene; `COHABIT_SEED=N` plays that one alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.breadth import few
from tests.mates_conformance.live import play_live
from tests.mates_conformance.random_scenes import random_scene
from tests.mates_conformance.scene import Scene, disagreements, wrong
from tests.mates_conformance.scenes import SCENES
from tests.mates_conformance.simulated import play_simulated

GRAIN_S = 0.1  # of the scenes of the paper
RANDOM_GRAIN_S = 2.0
SEEDS = [int(os.environ["COHABIT_SEED"])] if "COHABIT_SEED" in os.environ else few(range(200), 12)
MEMORY = Path("/dev/shm")  # journals are written there if it exists: nothing here is about disks


@pytest.fixture
def places() -> Iterator[tuple[Path, Path]]:
    """A folder for each of the two plays."""
    with tempfile.TemporaryDirectory(prefix="cohabit-scene-", dir=MEMORY if MEMORY.is_dir() else None) as name:
        found = Path(name, "simulated"), Path(name, "live")
        for one in found:
            one.mkdir()
        yield found


def judge(scene: Scene, places: tuple[Path, Path], grain_s: float) -> None:
    """Each play against the scene's own answer, and both against each other."""
    simulated, live = play_simulated(scene, places[0]), play_live(scene, places[1])
    found = [f"simulated: {one}" for one in wrong(scene, simulated, grain_s)]
    found += [f"live: {one}" for one in wrong(scene, live, grain_s)]
    found += [f"simulated and live: {one}" for one in disagreements(scene, simulated, live, grain_s)]
    assert not found, "\n".join([scene.name, *found])


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
def test_a_scene_of_the_paper(scene: Scene, places: tuple[Path, Path]) -> None:
    judge(scene, places, GRAIN_S)


@pytest.mark.parametrize("seed", few(range(1000, 1040), 4))
def test_a_random_scene_on_shared_nodes(seed: int, places: tuple[Path, Path]) -> None:
    scene = random_scene(seed)
    domains = tuple(replace(one, scheme="agree") for one in scene.domains)
    judge(replace(scene, domains=domains, policy="cs"), places, RANDOM_GRAIN_S)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_scene(seed: int, places: tuple[Path, Path]) -> None:
    judge(random_scene(seed), places, RANDOM_GRAIN_S)
