"""Calibrate a model's shares per class to probabilities: one rising curve per class.

A classifier says 0.6 where three of ten such runs vary; a delay that weighs costs needs the 0.3. The curve of a class
is fitted on answers about applications the model had not seen, by isotonic regression where there is enough data, else
by a logistic curve; deployed, both are straight lines between knots. `fit_calibration` alone needs scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cohabit.predict.features import Floats
from cohabit.predict.variability_data import CLASSES, Labels

ISOTONIC_ROWS = 100  # of the class: with fewer, steps follow the noise
KNOTS = 65
EDGE = 1e-4


@dataclass(frozen=True, eq=False)
class Calibration:
    """The curve of every class of CLASSES, all with the same number of knots; an empty class stays at zero."""

    knots: Floats  # [class, knot], rising; the last may be repeated to fill the row
    chances: Floats

    def apply(self, shares: Floats) -> Floats:
        """Row by row a probability per class."""
        from cohabit.predict.trees import along_curves

        return np.asarray(along_curves(shares, self.knots, self.chances))


def identity() -> Calibration:
    """Return a calibration that leaves shares unchanged."""
    line = np.tile([0.0, 1.0], (len(CLASSES), 1))
    return Calibration(line, line)


def fit_calibration(shares: Floats, truth: Labels) -> Calibration:
    """Curves from answers about runs the model had not learned from."""
    curves = [_curve(shares[:, at], (truth == at).astype(np.float64)) for at in range(len(CLASSES))]
    longest = max(len(knots) for knots, _ in curves)
    filled = [[np.pad(part, (0, longest - len(part)), mode="edge") for part in curve] for curve in curves]
    return Calibration(np.array([knots for knots, _ in filled]), np.array([chances for _, chances in filled]))


def _curve(shares: Floats, own: Floats) -> tuple[Floats, Floats]:
    rate = float(own.mean())
    if rate in (0.0, 1.0) or np.ptp(shares) == 0.0:
        return np.array([0.0, 1.0]), np.array([rate, rate])
    if min(own.sum(), (1.0 - own).sum()) >= ISOTONIC_ROWS:
        from sklearn.isotonic import IsotonicRegression

        steps = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(shares, own)
        return np.asarray(steps.X_thresholds_, np.float64), np.asarray(steps.y_thresholds_, np.float64)
    from sklearn.linear_model import LogisticRegression

    x = np.linspace(float(shares.min()), float(shares.max()), KNOTS)
    logistic = LogisticRegression().fit(_logit(shares)[:, None], own)
    y = np.asarray(logistic.predict_proba(_logit(x)[:, None])[:, 1], np.float64)
    # A falling curve would mean that the model is inverted for this class: then its answer is useless.
    return (x, y) if y[-1] >= y[0] else (x, np.full(KNOTS, rate))


def _logit(shares: Floats) -> Floats:
    kept = np.clip(shares, EDGE, 1.0 - EDGE)
    return np.asarray(np.log(kept / (1.0 - kept)))


def brier(chances: Floats, truth: Labels) -> float:
    """Mean squared distance between probabilities and what happened, over the classes; 0 is perfect."""
    happened = np.eye(len(CLASSES))[truth]
    return float(((chances - happened) ** 2).sum(axis=1).mean())
