"""Common parts of the plans of all papers: how much is run, the seed of an experiment, the note of a shortened one."""

from __future__ import annotations

from typing import Generic, TypeVar

from cohabit.reproduce.papers import Options

HIDDEN = "hidden"  # unseen programs, drawn from priors
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
        """The seed of an experiment."""
        return self.options.seed_of(f"{self.paper}/{experiment}")

    @property
    def hidden(self) -> bool:
        """Return whether the main programs are hidden ones."""
        return self.options.programs == HIDDEN

    def shortened(self, done: object, full: object, what: str) -> str:
        """Return the note of a shortened experiment."""
        return "" if done == full else f"quick: {done} instead of {full} {what}"
