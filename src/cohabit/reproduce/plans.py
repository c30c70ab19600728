"""What the plans of all papers share: how much is run, which seed an experiment has, what a shortened one says."""

from __future__ import annotations

from typing import Generic, TypeVar

from cohabit.reproduce.papers import Options

HIDDEN = "hidden"  # programs nobody has seen, drawn from priors
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
        """How much: as the options say in numbers (for tests), quick, or all of it."""
        if isinstance(self.options.sizes, type(self.full)):
            return self.options.sizes
        return self.quick if self.options.quick else self.full

    def seed(self, experiment: str) -> int:
        """The seed of an experiment."""
        return self.options.seed_of(f"{self.paper}/{experiment}")

    @property
    def hidden(self) -> bool:
        """Whether the main programs are unknown ones."""
        return self.options.programs == HIDDEN

    def shortened(self, done: object, full: object, what: str) -> str:
        """What a note says of an experiment that was cut short."""
        return "" if done == full else f"quick: {done} instead of {full} {what}"
