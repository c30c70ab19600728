"""Quality of answers: R^2, error by range of degradation, surprises, importance of counters. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cohabit.model.features import TIME, counter_of
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.features import CoRuns, Floats, family_of

RANGES = ((-np.inf, 10.0, "below 10 %"), (10.0, 50.0, "10 to 50 %"), (50.0, 100.0, "50 to 100 %"),
          (100.0, np.inf, "above 100 %"))  # fmt: skip
BAD_PCT = 100.0  # a pair beyond this is better run one after the other
SHUFFLES = 3


@dataclass(frozen=True)
class Asked:
    """Questions and answers about rows a model had not learned from."""

    app: tuple[str, ...]
    other: tuple[str, ...]
    truth: Floats
    answer: Floats  # as the model gave it, perhaps below zero
    mean: Floats  # the prediction from the mean of the training rows alone

    @staticmethod
    def joined(parts: Sequence[Asked]) -> Asked:
        """Concatenate several sets of answers."""
        return Asked(
            tuple(name for part in parts for name in part.app),
            tuple(name for part in parts for name in part.other),
            *(np.concatenate([getattr(part, field) for part in parts]) for field in ("truth", "answer", "mean")),
        )

    @property
    def negatives(self) -> int:
        """Answers below zero: no measured slow-down is, apart from noise, so the model is wrong there."""
        return int((self.answer < 0.0).sum())


def r_squared(truth: Floats, answer: Floats) -> float | None:
    """Share of the variance explained, answers kept above zero; None where there is no variance."""
    total = float(((truth - truth.mean()) ** 2).sum()) if len(truth) > 1 else 0.0
    if total <= 0.0:
        return None
    return 1.0 - float(((truth - np.maximum(answer, 0.0)) ** 2).sum()) / total


def mean_error(truth: Floats, answer: Floats) -> float:
    """Mean absolute error in points of degradation."""
    return float(np.abs(truth - np.maximum(answer, 0.0)).mean())


def summary(asked: Asked) -> dict[str, Any]:
    """One learner in numbers."""
    return {
        "rows": len(asked.truth),
        "r2": r_squared(asked.truth, asked.answer),
        "mean_error": mean_error(asked.truth, asked.answer),
        "mean_predictor_r2": r_squared(asked.truth, asked.mean),
        "mean_predictor_error": mean_error(asked.truth, asked.mean),
        "negatives": asked.negatives,
    }


def by_range(truth: Floats, answer: Floats) -> list[dict[str, Any]]:
    """Error where the truth is small, middling and large; `bias` below zero means predictions are too low."""
    found = []
    for low, high, name in RANGES:
        rows = (truth >= low) & (truth < high)
        if rows.any():
            off = answer[rows] - truth[rows]
            found.append(
                {
                    "range": name,
                    "rows": int(rows.sum()),
                    "mean_error": float(np.abs(off).mean()),
                    "bias": float(off.mean()),
                    "promised_too_little": float((off < 0.0).mean()),
                }
            )
    return found


def surprises(truth: Floats, answer: Floats) -> int:
    """Pairs that would be made (at most 100 % promised) and are bad (more than 100 %)."""
    return int(((truth > BAD_PCT) & (answer <= BAD_PCT)).sum())


def importance(model: DegradationModel, data: CoRuns, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return how far R^2 falls when a counter is shuffled among the rows, largest first."""
    whole = r_squared(data.truth, model.flat.rows(data.primary, data.beside)) or 0.0
    found = []
    for side, columns, table in (
        ("primary", data.schema.primary, data.primary),
        ("other", data.schema.other, data.beside),
    ):
        for counter in dict.fromkeys(counter_of(column) for column in columns):
            places = [at for at, column in enumerate(columns) if counter_of(column) == counter]
            falls = []
            for _ in range(SHUFFLES):
                mixed = table.copy()
                mixed[:, places] = table[rng.permutation(len(table))][:, places]
                tables = (mixed, data.beside) if side == "primary" else (data.primary, mixed)
                falls.append(whole - (r_squared(data.truth, model.flat.rows(*tables)) or 0.0))
            name = counter if counter == TIME else f"{side}.{counter}"
            found.append({"counter": name, "family": family_of(counter), "r2_lost": float(np.mean(falls))})
    return sorted(found, key=lambda one: -one["r2_lost"])
