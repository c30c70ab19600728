"""The papers by name, and one reproduction from its options to its rows and pictures.

Seeds 0 to 99 are for development. With a salt, which only the reviewer holds (--salt or COHABIT_EVALUATION_SALT), every
experiment has a seed that was unknown before: hash(salt, experiment, seed).
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any

from cohabit.model.errors import InputError
from cohabit.reproduce.rows import Row, check_rows, contract
from cohabit.reproduce.tasks import Progress, Task, run_tasks

ALL = "all"
PAPERS = {  # first letter of the rows; joint is our own
    "sns": "S", "shepherd": "P", "colocation": "I", "rush": "R", "coscheduling": "C", "joint": "J",
}  # fmt: skip
SALT_VARIABLE = "COHABIT_EVALUATION_SALT"
SEED_BYTES = 6  # stays well inside every integer type on the way


def salt_from(option: str | None) -> str:
    """Return the salt that was given, else the one of the environment, else none."""
    return option if option is not None else os.environ.get(SALT_VARIABLE, "")


def digest(content: bytes) -> str:
    """Return 32 hexadecimal digits that change with the content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Options:
    """The options of a user."""

    seed: int = 1
    quick: bool = False
    salt: str = ""
    programs: str = "catalogue"  # or "hidden": programs drawn from the priors, for papers that have programs
    sensitivity: bool = False
    workers: int | None = None
    sizes: Any = None  # other numbers of repeats than the paper's or the quick ones; for tests
    shared: str = ""  # where the data folder is, if not beside the checkout

    def seed_of(self, experiment: str) -> int:
        """Return the seed of one experiment, named with its paper."""
        if not self.salt:
            return self.seed
        text = f"{self.salt}\0{experiment}\0{self.seed}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=SEED_BYTES).digest(), "big")


@dataclass(frozen=True)
class Picture:
    """One figure of the report: plotly's data, and text for a reader without the paper."""

    title: str
    figure: dict[str, Any]
    caption: str


@dataclass(frozen=True)
class Reproduction:
    """The result of a reproduction."""

    paper: str
    seed: int
    calibration_hash: str
    rows: list[Row]
    title: str = ""
    pictures: list[Picture] = field(default_factory=list)
    about: list[str] = field(default_factory=list)  # sentences for the top of the report
    files: dict[str, bytes] = field(default_factory=dict)  # further files for the output folder, by name

    def document(self) -> dict[str, Any]:
        """The JSON of the command contract."""
        return {
            "paper": self.paper,
            "seed": self.seed,
            "calibration_hash": self.calibration_hash,
            "rows": [asdict(one) for one in self.rows],
        }


class Paper(ABC):
    """A paper: its experiments, which are modules with `tasks(plan)` and `rows(plan, results)`, and its figures."""

    name: str  # also of its folder
    title: str
    what: str = "the paper's results again"  # after the title
    plan: type[Any]  # made of the options
    experiments: tuple[Any, ...]

    def tasks(self, options: Options) -> list[Task]:
        """Return the work in independent tasks."""
        plan = self.plan(options)
        return [task for experiment in self.experiments for task in experiment.tasks(plan)]

    def rows(self, options: Options, results: dict[str, Any]) -> list[Row]:
        """Return every row, in the paper's order."""
        plan = self.plan(options)
        return [one for experiment in self.experiments for one in experiment.rows(plan, results)]

    def pictures(self, options: Options, results: dict[str, Any]) -> list[Picture]:
        """Return the paper's figures from our runs."""
        module = import_module(f"cohabit.reproduce.{self.name}.pictures")
        found: list[Picture] = module.pictures(self.plan(options), results)
        return found

    def files(self, results: dict[str, Any]) -> dict[str, bytes]:
        """Return further files for the output folder by name, such as a trained model."""
        return {}

    @abstractmethod
    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""

    @abstractmethod
    def calibration_hash(self, options: Options) -> str:
        """Return a digest of all that was assumed and calibrated."""


def chosen(name: str) -> list[str]:
    """Return the papers a name stands for."""
    if name == ALL:
        return list(PAPERS)
    if name not in PAPERS:
        raise InputError(f"there is no paper called {name!r}", "", f"known: {', '.join([*PAPERS, ALL])}")
    return [name]


def paper_of(name: str) -> Paper:
    """Return the paper of this name."""
    paper: Paper = import_module(f"cohabit.reproduce.{name}.paper").PAPER
    return paper


def reproduce(
    name: str,
    options: Options,
    progress: Progress | None = None,
    draw: bool = False,
    run: Callable[..., Any] = run_tasks,
) -> Reproduction:
    """Run everything, judge it, and draw it if requested."""
    papers = [paper_of(one) for one in chosen(name)]
    work = [(paper, task) for paper in papers for task in paper.tasks(options)]
    named = [replace(task, name=f"{paper.name}: {task.name}") for paper, task in work]
    answers = run(named, options.workers, progress)
    rows: list[Row] = []
    pictures: list[Picture] = []
    about: list[str] = []
    files: dict[str, bytes] = {}
    for paper in papers:
        results = {task.name: answers[f"{paper.name}: {task.name}"] for owner, task in work if owner is paper}
        rows += complete(paper.name, paper.rows(options, results))
        about += paper.about(options)
        if draw:
            pictures += paper.pictures(options, results)
            files |= paper.files(results)
    check_rows(rows)
    hashes = [paper.calibration_hash(options) for paper in papers]
    title = f"{', '.join(paper.title for paper in papers)}: {papers[0].what}"
    calibration = hashes[0] if len(hashes) == 1 else digest("".join(hashes).encode())
    return Reproduction(name, options.seed, calibration, rows, title, pictures, about, files)


def complete(paper: str, rows: Sequence[Row]) -> list[Row]:
    """Check a reproduction against the contract: every row of rows.csv is there, measured or explained."""
    there = {one.id for one in rows}
    absent = [name for name in contract() if name.startswith(PAPERS[paper]) and name not in there]
    assert not absent, f"rows.csv asks for {', '.join(absent)}"
    return list(rows)
