"""The papers by name, and one reproduction from its options to its rows and pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from cohabit.model.errors import InputError
from cohabit.reproduce.rows import Row, check_rows, contract
from cohabit.reproduce.seeds import experiment_seed
from cohabit.reproduce.tasks import Progress, Task, run_tasks

ALL = "all"
PAPERS = {  # name -> module with a `PAPER`
    "sns": "cohabit.reproduce.sns",
    "shepherd": "cohabit.reproduce.shepherd",
    "colocation": "cohabit.reproduce.colocation",
    "rush": "cohabit.reproduce.rush",
    "coscheduling": "cohabit.reproduce.coscheduling",
}
PREFIXES = {"sns": "S", "shepherd": "P", "colocation": "I", "rush": "R", "coscheduling": "C"}


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
        """The seed of one experiment, named with its paper."""
        return experiment_seed(self.seed, self.salt, experiment)


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
            "paper": self.paper, "seed": self.seed, "calibration_hash": self.calibration_hash,
            "rows": [one.document() for one in self.rows],
        }  # fmt: skip


class Paper(Protocol):
    """A paper: its tasks, its rows and its figures."""

    name: str
    title: str

    def tasks(self, options: Options) -> list[Task]:
        """Return the work in independent tasks."""

    def rows(self, options: Options, results: dict[str, Any]) -> list[Row]:
        """Return every row, in the paper's order."""

    def pictures(self, options: Options, results: dict[str, Any]) -> list[Picture]:
        """Return the paper's figures from our runs."""

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""

    def calibration_hash(self, options: Options) -> str:
        """Return a digest of all that was calibrated."""


@runtime_checkable
class WritesFiles(Protocol):
    """A paper whose reproduction writes further files, such as a trained model."""

    def files(self, options: Options, results: dict[str, Any]) -> dict[str, bytes]:
        """Return contents by file name."""


def chosen(name: str) -> list[str]:
    """Return the papers a name stands for."""
    if name == ALL:
        return list(PAPERS)
    if name not in PAPERS:
        raise InputError(f"there is no paper called {name!r}", "", f"known: {', '.join([*PAPERS, ALL])}")
    return [name]


def paper_of(name: str) -> Paper:
    """Return the paper of this name."""
    paper: Paper = import_module(PAPERS[name]).PAPER
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
    plans = [paper.tasks(options) for paper in papers]
    names = [f"{paper.name}: {task.name}" for paper, tasks in zip(papers, plans, strict=True) for task in tasks]
    flat = [task for tasks in plans for task in tasks]
    renamed = [replace(task, name=name) for name, task in zip(names, flat, strict=True)]
    answers = run(renamed, options.workers, progress)
    rows: list[Row] = []
    pictures: list[Picture] = []
    about: list[str] = []
    files: dict[str, bytes] = {}
    for paper, tasks in zip(papers, plans, strict=True):
        results = {task.name: answers[f"{paper.name}: {task.name}"] for task in tasks}
        rows += complete(paper.name, paper.rows(options, results))
        about += paper.about(options)
        if draw:
            pictures += paper.pictures(options, results)
            if isinstance(paper, WritesFiles):
                files |= paper.files(options, results)
    check_rows(rows)
    hashes = [paper.calibration_hash(options) for paper in papers]
    title = f"{', '.join(paper.title for paper in papers)}: the paper's results again"
    return Reproduction(name, options.seed, _one_hash(hashes), rows, title, pictures, about, files)


def complete(paper: str, rows: Sequence[Row]) -> list[Row]:
    """Check a reproduction against the contract: every row of rows.csv is there, measured or explained."""
    there = {one.id for one in rows}
    prefix = PREFIXES[paper]
    absent = [name for name in contract() if name.startswith(prefix) and name not in there]
    assert not absent, f"rows.csv asks for {', '.join(absent)}"
    return list(rows)


def _one_hash(hashes: Sequence[str]) -> str:
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.blake2b("".join(hashes).encode(), digest_size=16).hexdigest()
