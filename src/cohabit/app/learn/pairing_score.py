"""What pairing by a model is worth on programs it has not seen: true slowdown against random and best pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cohabit.optimise import matching
from cohabit.predict.features import Floats
from cohabit.predict.folds import stream
from cohabit.predict.scores import Asked

FEWEST = 4  # programs
DRAWS = 200  # of random pairs


def pairing_of(parts: Mapping[str, Asked], seed: int) -> dict[str, Any] | None:
    """Pair the programs of every split by what was predicted, and add up what is true; None: too few programs.

    A pair weighs the sum of both slowdowns. `worse_than_random` is the worst split, in percent of the random total.
    """
    chosen = random = best = 0.0
    worst, splits = -np.inf, 0
    rng = stream(seed, "random pairs")
    for asked in parts.values():
        found = _matrices(asked)
        if found is None:
            continue
        truth, answer = found
        own, least = _total(truth, answer), _total(truth, truth)
        usual = float(np.mean([_random(truth, rng) for _ in range(DRAWS)]))
        splits += 1
        chosen, random, best = chosen + own, random + usual, best + least
        worst = max(worst, 100.0 * (own - usual) / max(usual, 1e-9))
    if not splits:
        return None
    gap = random - best
    return {
        "splits": splits,
        "random": random,
        "chosen": chosen,
        "best": best,
        "gap_closed": (random - chosen) / gap if gap > 1e-9 else None,
        "worse_than_random": worst,
    }


def _matrices(asked: Asked) -> tuple[Floats, Floats] | None:
    """Return truth and answer of every unordered pair of the programs that are known in both orders."""
    truth, answer = (
        {pair: float(one) for pair, one in zip(zip(asked.app, asked.other, strict=True), values, strict=True)}
        for values in (np.maximum(asked.truth, 0.0), np.maximum(asked.answer, 0.0))
    )
    names = sorted({name for pair in truth for name in pair})
    while names:
        others = {one: [two for two in names if two != one] for one in names}
        gaps = {one: sum(not {(one, two), (two, one)} <= truth.keys() for two in others[one]) for one in names}
        worst = max(names, key=lambda name: gaps[name])
        if not gaps[worst]:
            break
        names.remove(worst)
    if len(names) < FEWEST:
        return None
    names = names[: len(names) - len(names) % 2]
    sums = []
    for table in (truth, answer):
        one = np.array([[0.0 if a == b else table[a, b] for b in names] for a in names])
        sums.append(one + one.T)
    return sums[0], sums[1]


def _total(truth: Floats, weights: Floats) -> float:
    """Return the true total of the pairs that are best by these weights."""
    found = matching.optimal(weights, np.inf)
    return float(sum(truth[pair[0], pair[1]] for pair in found.groups if len(pair) == 2))


def _random(truth: Floats, rng: np.random.Generator) -> float:
    order = rng.permutation(len(truth))
    return float(truth[order[0::2], order[1::2]].sum())
