"""The models of a quick run, which come with the program: trained as in the full form, on one history's control runs.

A good model needs the paper's 3,206 control runs, and those take longer than a quick run may. `scripts/rush-models`
makes the files again; they are refused where the simulated world has changed since.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from cohabit.model.errors import InputError
from cohabit.predict.variability import VariabilityModel
from cohabit.predict.variability_data import Norms
from cohabit.predict.variability_file import load_variability, save_variability
from cohabit.reproduce.rush.control import History, collected
from cohabit.reproduce.rush.lab import world_hash
from cohabit.reproduce.rush.learning import Trained
from cohabit.whole_files import replacing

FILES = {"full": "full.model", "partial": "partial.model", "paying": "paying.model"}
ABOUT = "about.json"
FOLDER = Path(str(resources.files("cohabit.reproduce.rush") / "shipped_models"))
AGAIN = "make the models again with scripts/rush-models, or leave out --quick"


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the models were made."""

    history: int  # the seed of the control runs
    runs: int
    columns_eliminated: bool
    learners: dict[str, str]  # by model
    world: str  # digest of the world in which the control jobs ran
    sha256: dict[str, str]  # of each file
    norms: dict[str, dict[str, float]]  # of all applications at all sizes


@dataclass(frozen=True)
class Shipped:
    """Models and norms as a trial needs them."""

    full: VariabilityModel
    partial: VariabilityModel
    paying: VariabilityModel
    norms: Norms
    about: About
    job_nodes: None = None  # its gates run in full only


@cache
def shipped(folder: Path = FOLDER) -> Shipped:
    """Read the models; their digests and their world must fit."""
    about = msgspec.json.decode((folder / ABOUT).read_bytes(), type=About)
    if about.world != world_hash():
        raise InputError("the models of --quick were trained in another simulated world", str(folder), AGAIN)
    for name, wanted in about.sha256.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != wanted:
            raise InputError("is not the model that was shipped", str(folder / name), AGAIN)
    full, partial, paying = (load_variability(folder / file).model for file in FILES.values())
    return Shipped(full, partial, paying, Norms(**about.norms), about)


def ship(folder: Path, history: History, seed: int, eliminating: bool, learner: str = "") -> About:
    """Train the models of a set that see all nodes and write them with their norms."""
    data = collected(history)
    trained = Trained(data, seed, eliminating, learner)
    folder.mkdir(parents=True, exist_ok=True)
    models = {"full": trained.whole, "partial": trained.some, "paying": trained.of_bursts}
    for name, one in models.items():
        save_variability(folder / FILES[name], replace(one, estimator=None), {"rows": len(data.all_nodes)})
    about = About(
        history.seed,
        len(data.all_nodes),
        eliminating,
        {name: one.deployed.kind for name, one in models.items()},
        world_hash(),
        {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in FILES.values()},
        {name: dict(one) for name, one in asdict(data.norms).items()},
    )
    with replacing(folder / ABOUT) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(about, order="deterministic"), indent=1) + b"\n")
    return about
