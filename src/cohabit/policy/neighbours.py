"""What is known of a program beside others: by its counters (the prior), and after its co-runs (its own).

*Sensitivity* is by how much it is slowed, on average beside every other known program; *intensity* by how much it slows
those. The interval holds what is not known of this program itself, at the model's level; the noise of single runs and
what is not known of the others come on top for a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cohabit.model.cluster import NodeGroup
from cohabit.model.mix import Floats
from cohabit.model.profile import JOINT, KnownCoRun, Profile, Tenant, run_key
from cohabit.policy.degradation import CoRuns, PredictedPairs
from cohabit.predict.pooling import LEVEL, Effect, Pooled, percent, scaled

ANY_NODE = NodeGroup(1, 1)  # a model asks for counters only


def seen_by(pairs: PredictedPairs, profiles: Sequence[Profile], runs: Sequence[KnownCoRun]) -> CoRuns:
    """Return co-runs of a store as the model reads them: each beside what the counters promise of it."""
    found: dict[str, dict[str, list[Any]]] = {}
    known = _by_key(profiles)
    for one in runs:
        group = [known.get(name) for name in (one.program, *one.beside)]
        promised = None
        if None not in group:
            tenants = [Tenant("", 0, 1, 0, 0.0, 1.0, each) for each in group]
            answer = float(pairs.by_counters(tenants, ANY_NODE)[0, 1:].sum())
            promised = answer if np.isfinite(answer) else None
        found.setdefault(one.program, {})[JOINT.join(one.beside)] = [one.percent, promised, one.count]
    return {"runs": found} if found else {}


def of_program(pairs: PredictedPairs, profiles: Sequence[Profile], seen: CoRuns, program: str) -> dict[str, Any] | None:
    """Return both sides of a program (a `run_key`), as prior and as its own; None: the model cannot judge it."""
    before, after = pairs.after((), {}), pairs.after([program], seen)
    judged = {name: one for name, one in _by_key(profiles).items() if not pairs.lacks(name, one)}
    if before is None or after is None or program not in judged:
        return None
    names = list(judged)
    tenants = [Tenant(name, 0, 1, 0, 0.0, 1.0, judged[name]) for name in names]
    by_counters, here = pairs.by_counters(tenants, ANY_NODE), names.index(program)
    others = [place for place in range(len(names)) if place != here] or [here]
    slowed, slows = by_counters[here, others], by_counters[others, here]
    own = after.effects.get(program, after.spreads.prior())
    return {
        "model": pairs.name,
        "level": LEVEL,
        "beside": len(others),
        "prior": _sides(before, before.spreads.prior(), slowed, slows),
        "own": _sides(after, own, slowed, slows),
        "pairs_slowed": own.slowed,
        "pairs_beside": own.beside,
    }


def _by_key(profiles: Sequence[Profile]) -> Mapping[str, Profile]:
    """Return a profile of every program and owner: of the fewest processes that have counters."""
    ordered = sorted(profiles, key=lambda one: (not (one.at_scale(1) and one.scales[0].counters), one.processes))
    return {run_key(one): one for one in reversed(ordered)}


def _sides(pooled: Pooled, effect: Effect, slowed: Floats, slows: Floats) -> dict[str, dict[str, float]]:
    return {
        "sensitivity": _side(pooled, effect.sensitivity, effect.sensitivity_variance, slowed),
        "intensity": _side(pooled, effect.intensity, effect.intensity_variance, slows),
    }


def _side(pooled: Pooled, mean: float, variance: float, by_counters: Floats) -> dict[str, float]:
    """Return the mean over all neighbours, and the ends of its interval, in percent."""
    middle, reach = scaled(pooled.prior(by_counters), pooled.shift) + mean, pooled.reach * float(np.sqrt(variance))
    ends = (percent(middle + step, pooled.shift) for step in (0.0, -reach, reach))
    each = [float(np.clip(one, 0.0, pooled.ceiling).mean()) for one in ends]
    return dict(zip(("percent", "low", "high"), each, strict=True))
