"""Quality of answers: R^2, error by range of degradation, surprises, importance of counters. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cohabit.model.features import TIME, counter_of
from cohabit.predict.baselines import MEAN
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
    plain: Mapping[str, Floats] = field(default_factory=dict)  # answers of other baselines, by name
    sizes: tuple[int, ...] = ()  # of the sets it was joined from

    @staticmethod
    def joined(parts: Sequence[Asked]) -> Asked:
        """Concatenate several sets of answers."""
        return Asked(
            tuple(name for part in parts for name in part.app),
            tuple(name for part in parts for name in part.other),
            np.concatenate([part.truth for part in parts]),
            np.concatenate([part.answer for part in parts]),
            np.concatenate([part.mean for part in parts]),
            {name: np.concatenate([part.plain[name] for part in parts]) for name in parts[0].plain},
            tuple(len(part.truth) for part in parts),
        )

    def split(self) -> list[Asked]:
        """Return the sets of answers it was joined from."""
        found, at = [], 0
        for size in self.sizes or (len(self.truth),):
            own, at = slice(at, at + size), at + size
            plain = {name: answer[own] for name, answer in self.plain.items()}
            answers = self.truth[own], self.answer[own], self.mean[own]
            found.append(Asked(self.app[own], self.other[own], *answers, plain))
        return found

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


def model_score(asked: Asked) -> dict[str, float | None]:
    """The model itself, in the form of its baselines."""
    return {"r2": r_squared(asked.truth, asked.answer), "mean_error": mean_error(asked.truth, asked.answer)}


def baselines(asked: Asked) -> dict[str, dict[str, float | None]]:
    """Every baseline in numbers, the mean first."""
    answers = {MEAN: asked.mean, **asked.plain}
    return {
        name: {"r2": r_squared(asked.truth, answer), "mean_error": mean_error(asked.truth, answer)}
        for name, answer in answers.items()
    }


def not_beaten(asked: Asked) -> list[str]:
    """Return the baselines whose mean error is no larger than the model's, and the mean where R^2 is not above it."""
    own, found = mean_error(asked.truth, asked.answer), baselines(asked)
    names = [name for name, one in found.items() if one["mean_error"] is not None and one["mean_error"] <= own]
    score, plain = r_squared(asked.truth, asked.answer), found[MEAN]["r2"]
    if MEAN not in names and score is not None and plain is not None and score <= plain:
        names.insert(0, MEAN)
    return names


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
