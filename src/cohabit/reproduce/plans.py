"""Common parts of the plans of all papers: sizes, seeds, notes, rows over sets, and where public data lies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from cohabit.reproduce.papers import Options
from cohabit.reproduce.rows import Claim, Row, joined, row_over_sets
from cohabit.sim.streams import stream

HIDDEN = "hidden"  # unseen programs, drawn from priors
SHARED = "COHABIT_SHARED"
Sizes = TypeVar("Sizes")


class PlanOf(Generic[Sizes]):
    """One reproduction; a paper names itself and its two sizes."""

    paper: str
    full: Sizes
    quick: Sizes

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def sizes(self) -> Sizes:
        """The sizes: as given in the options (for tests), quick, or full."""
        if isinstance(self.options.sizes, type(self.full)):
            return self.options.sizes
        return self.quick if self.options.quick else self.full

    def seed(self, experiment: str) -> int:
        """Return the seed of an experiment."""
        return self.options.seed_of(f"{self.paper}/{experiment}")

    @property
    def hidden(self) -> bool:
        """Return whether the main programs are hidden ones."""
        return self.options.programs == HIDDEN

    def shortened(self, done: object, full: object, what: str) -> str:
        """Return the note of a shortened experiment."""
        return "" if done == full else f"quick: {done} instead of {full} {what}"

    def resampling(self, name: str) -> np.random.Generator:
        """Return the random numbers of a row's bootstrap."""
        return stream(self.seed("bootstrap"), name)

    def measured(self, claim: Claim, sets: Sequence[Sequence[Any]], *words: str, stream_name: str = "") -> Row:
        """Return the row of a claim over sets, with the words after its own note."""
        rng = self.resampling(stream_name or claim.about.id)
        return row_over_sets(claim.about, sets, claim.statistic, rng, joined(claim.note, *words))


def shared_file(relative: str, folder: str = "") -> Path | None:
    """Return a file of public data, in the folder of the environment or in `shared` beside the checkout, or None."""
    named = folder or os.environ.get(SHARED, "")
    folders = [Path(named)] if named else [parent / "shared" for parent in Path(__file__).resolve().parents]
    return next((one / relative for one in folders if (one / relative).is_file()), None)
