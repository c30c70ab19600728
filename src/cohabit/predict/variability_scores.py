"""Quality of verdicts: F1 of "it varies", fold by fold, and confusion. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cohabit.predict.features import Floats
from cohabit.predict.variability_data import CLASSES, Labels


@dataclass(frozen=True, eq=False)
class Judged:
    """Verdicts about the runs of one fold, from a model that had not learned from them."""

    app: tuple[str, ...]
    truth: Labels
    answer: Labels
    shares: Floats  # [run, class of CLASSES], before calibration; empty for the binary question

    @property
    def name(self) -> str:
        """The application, where the fold has one only."""
        names = dict.fromkeys(self.app)
        return next(iter(names)) if len(names) == 1 else ""


def f1(truth: Labels, answer: Labels) -> float | None:
    """tp / (tp + (fp + fn) / 2); None where nothing varied and nothing was predicted to."""
    tp = int(((truth == 1) & (answer == 1)).sum())
    wrong = int((truth != answer).sum())
    return tp / (tp + wrong / 2.0) if tp + wrong else None


def mean_f1(folds: Sequence[Judged]) -> float | None:
    """The mean over folds that have something to find or to get wrong; None where none has."""
    found = [score for score in (f1(one.truth, one.answer) for one in folds) if score is not None]
    return float(np.mean(found)) if found else None


def pooled(folds: Sequence[Judged]) -> tuple[Labels, Labels]:
    """Truth and answer of all folds together."""
    return np.concatenate([one.truth for one in folds]), np.concatenate([one.answer for one in folds])


def confusion(truth: Labels, answer: Labels, classes: int = len(CLASSES)) -> list[list[int]]:
    """Return the confusion matrix: rows are the truth, columns the predictions."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (truth, answer), 1)
    return [[int(count) for count in row] for row in counts]
