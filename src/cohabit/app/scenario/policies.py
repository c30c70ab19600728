"""Build policies from names: a bundle, varied key by key, becomes the PolicySet a core runs with."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from cohabit.app.scenario.tables import PolicyConfig, Scenario
from cohabit.app.scenario.typed_toml import refuse_for_root
from cohabit.core.cycles import Cycle
from cohabit.core.kernels.bundles import CONSERVATIVE, FIRST_FIT, STRICT
from cohabit.core.protocols import SHARE_WITH, PolicySet
from cohabit.model.errors import InputError, unknown
from cohabit.model.features import feature
from cohabit.model.profile import Profile
from cohabit.model.units import HOUR, SECOND, microseconds
from cohabit.policy.backfill import backfill_named
from cohabit.policy.options import ALL_SCALES, OBJECTIVES, UNKNOWN, GateOptions, PlacementOptions, TrialRules
from cohabit.policy.registry import (
    BUNDLES,
    GUARANTEE,
    LISTED_BY,
    PLACEMENTS,
    UNDIVIDED,
    UNGATED,
    looks_at_usage,
    make_gates,
    make_order,
    make_partitioner,
    make_placement,
    order_entry,
)

if TYPE_CHECKING:
    from cohabit.policy.degradation import Degradations

MOST_EVALUATIONS = 1_000_000
MOST_EXPLORED = 0.5
USUAL_ALPHA = 0.9  # of spread: 10 % slower than alone is tolerable (S22)
CONCERNED = {  # the placements that a key of [policy] applies to
    "alpha": ("spread", "shepherd", "joint"), "beta": ("spread", "joint"), "scales": ("share", "spread", "joint"),
    "book_bandwidth": ("spread", "joint"), "look_ahead": ("joint",), "objective": ("joint",), "fairness": ("joint",),
    "unknown": ("joint",),
    "planned": ("joint",), "evaluations": ("joint",),
    "moves": ("shepherd",), "learn": ("spread", "shepherd", "joint"), "pairing": ("pair",),
    "degradation": ("pair", "joint"), "model": ("pair", "joint"), "trust_model": ("pair", "joint"),
    "threshold_pct": ("pair",), "group_size": ("pair",), "explore": ("pair",),
    "window": ("pair",), "refill": ("pair",),
}  # fmt: skip
VARYING = (  # keys beside a bundle that replace its own
    "order", "backfill", "backfill_order", "placement", "age_limit_s", "age_limit_runs", "pairing", "gate", "partition",
    "bf_interval_s", "bf_window_s", "bf_resolution_s", "bf_max_job_test",
)  # fmt: skip
OF_GATES = {  # the gates that a key of [policy] applies to
    "variability": ("variability", "paying"), "delay_labels": ("variability", "paying"),
    "telemetry_nodes": ("variability", "paying"), "choose_nodes": ("variability", "paying"),
    "skip_threshold": ("variability",), "cost_aware": ("variability",),
    "longest_wait_s": ("paying",), "variation_price_s": ("paying",),
}  # fmt: skip
OF_CYCLES = ("bf_interval_s", "bf_window_s", "bf_resolution_s", "bf_max_job_test")
UNHEEDED = {  # keys of placement pair that a way of pairing ignores
    "consecutive": ("degradation", "model", "trust_model", "threshold_pct", "explore", "window", "refill"),
    "intensity": ("degradation", "model", "trust_model", "threshold_pct", "explore", "group_size", "refill"),
    "saving": ("threshold_pct",),
}


def resolve(config: PolicyConfig) -> dict[str, Any]:
    """Return the policy names that result from the bundle and the keys beside it."""
    if config.name not in BUNDLES:
        raise unknown("policy", config.name, BUNDLES, LISTED_BY)
    chosen = dict(BUNDLES[config.name][0])
    for key in VARYING:
        if (value := getattr(config, key)) is not None:
            chosen[key] = value
    return chosen


def build(config: PolicyConfig, sharing: str | None = None, oversubscribe: bool = True) -> PolicySet:
    """Return the policies, with time-dependent orders compiled; sharing = "exclusive" switches back to CE."""
    chosen = resolve(config)
    if sharing == "exclusive" and chosen["placement"] in PLACEMENTS:
        chosen["placement"] = "exclusive"
    if "scales" in chosen and config.scales == PolicyConfig().scales:
        config = msgspec.structs.replace(config, scales=list(chosen["scales"]))
    options = _options(config, str(chosen.get("pairing", "greedy")), oversubscribe)
    placer = make_placement(chosen["placement"], options)
    backfill = backfill_named(chosen["backfill"], _cycle(chosen))
    _refuse_impossible_plans(config, chosen["placement"], backfill.depth)
    first, second = chosen["order"], chosen.get("backfill_order")
    if second is not None and backfill.depth in (0, CONSERVATIVE):
        raise InputError(
            f"backfill_order = {second!r} has no effect with backfill = {chosen['backfill']!r}",
            "policy",
            "leave it out, or use easy, first-fit or a depth",
        )
    if second is not None and not placer.exclusive:
        what = f"backfill_order = {second!r} has no effect where jobs share nodes (placement {chosen['placement']!r})"
        raise InputError(what, "policy", "leave it out, or use placement exclusive")
    _refuse_age_limit_without_overtaking(chosen, config)
    orders = [first] if second is None else [first, second]
    changing = any(order_entry(one).changing for one in orders)
    return PolicySet(
        order=make_order(first, config.order_options, changing),
        backfill=backfill,
        placer=placer,
        partitioner=make_partitioner(chosen["placement"], chosen.get("partition"), options),
        gates=make_gates(chosen.get("gate", UNGATED), _gate_options(config)),
        age_limit_us=round(chosen.get("age_limit_s", 0.0) * SECOND),
        age_limit_runs=chosen.get("age_limit_runs", 0.0),
        backfill_order=None if second is None else make_order(second, config.backfill_order_options, changing),
        fair_share_half_life_us=round(config.fair_share_half_life_h * HOUR) if any(map(looks_at_usage, orders)) else 0,
        share_with=_share_with(config),
        fairness=_fairness(config) if chosen["placement"] == "joint" else 0.0,
        names=chosen,
    )


def _cycle(chosen: dict[str, Any]) -> Cycle | None:
    """Return the terms of backfilling in cycles; None: none are named. Only jobs that pass others need them."""
    named = [key for key in OF_CYCLES if chosen.get(key)]
    if named and chosen["backfill"] in ("none", "conservative", "first-fit"):
        what = f"{named[0]} has no effect with backfill = {chosen['backfill']!r}"
        raise InputError(what, f"policy.{named[0]}", "leave it out, or use easy or a depth")
    if named and chosen["placement"] == "pair":
        raise InputError(f"{named[0]} has no effect with placement 'pair'", f"policy.{named[0]}", "leave it out")
    every, window, step = (round((chosen.get(key) or 0) * SECOND) for key in OF_CYCLES[:3])
    return Cycle(every, window, step, chosen.get("bf_max_job_test") or 0) if named else None


def _share_with(config: PolicyConfig) -> str:
    if config.share_with not in SHARE_WITH:
        raise unknown("share_with", config.share_with, SHARE_WITH, "docs/policies.md")
    return config.share_with


def _fairness(config: PolicyConfig) -> float:
    if config.fairness and not 1.0 < config.fairness < inf:
        fix = "give a number above 1, such as 2, or leave it out"
        raise InputError(f"fairness = {config.fairness:g} is not possible", "policy.fairness", fix)
    return config.fairness


def _refuse_age_limit_without_overtaking(chosen: dict[str, Any], config: PolicyConfig) -> None:
    """Refuse an age limit unless backfilling is first-fit: with reservations it has no meaning."""
    if chosen["backfill"] != "first-fit":
        if config.age_limit_s or config.age_limit_runs:
            raise InputError(
                f"an age limit has no effect with backfill = {chosen['backfill']!r}",
                "policy",
                "leave it out, or use first-fit",
            )
        chosen.pop("age_limit_s", None)
        chosen.pop("age_limit_runs", None)
    if chosen.get("age_limit_s"):
        chosen.pop("age_limit_runs", None)


def _options(config: PolicyConfig, pairing: str, oversubscribe: bool) -> PlacementOptions:
    return PlacementOptions(
        USUAL_ALPHA if config.alpha is None else config.alpha,
        config.beta,
        tuple(config.scales) or ALL_SCALES,
        config.partition != UNDIVIDED,
        config.book_bandwidth,
        config.learn,
        config.alpha or 0.0,
        config.moves,
        pairing,
        _degradations(config),
        config.threshold_pct,
        config.group_size,
        config.window,
        oversubscribe,
        config.refill,
        config.look_ahead,
        _one_of("objective", config.objective, OBJECTIVES),
        _one_of("unknown", config.unknown, UNKNOWN),
        config.planned,
        _evaluations(config),
        _trial_rules(config),
        _explore(config),
    )


def _explore(config: PolicyConfig) -> float:
    if not 0.0 <= config.explore <= MOST_EXPLORED:
        what = f"explore = {config.explore:g} is not between 0 and {MOST_EXPLORED:g}"
        raise InputError(what, "policy.explore", "0.05 is usual: one pair of twenty; 0 makes none to learn")
    return config.explore


def _trial_rules(config: PolicyConfig) -> TrialRules:
    if config.least_cores < 1:
        what = f"least_cores = {config.least_cores} is not possible"
        raise InputError(what, "policy.least_cores", "give 1 or more")
    if not 0.0 <= config.worst_loss < 1.0:
        what = f"worst_loss = {config.worst_loss:g} is not between 0 and 1"
        raise InputError(what, "policy.worst_loss", "give a number from 0 to below 1, such as 0.05")
    return TrialRules(config.least_cores, config.worst_loss)


def _evaluations(config: PolicyConfig) -> int:
    if not 1 <= config.evaluations <= MOST_EVALUATIONS:
        what = f"evaluations = {config.evaluations} is not from 1 to {MOST_EVALUATIONS:,}"
        raise InputError(what, "policy.evaluations", "leave it out for 4,000; more take longer")
    return config.evaluations


def _refuse_impossible_plans(config: PolicyConfig, placement: object, depth: int) -> None:
    """Refuse plans where no job is promised a start, which bounds how long a plan may pass over a job; and plans
    beside a model, which they do not ask."""
    if config.planned and placement == "joint" and depth in (STRICT, FIRST_FIT):
        what = "planned = true needs promises, which bound how long a plan passes over a job"
        raise InputError(what, "policy.backfill", "use easy, a depth or conservative")
    if config.planned and placement == "joint" and (config.model or config.degradation):
        what = "planned = true forecasts with profiles only, and cannot ask a model of degradation"
        raise InputError(what, "policy.planned", "leave out planned, or leave out model and degradation")


def _one_of(key: str, value: str, possible: Sequence[str]) -> str:
    if value not in possible:
        raise unknown(key, value, possible, "docs/policies.md")
    return value


def _gate_options(config: PolicyConfig) -> GateOptions:
    if config.telemetry_nodes not in ("job", "all"):
        raise InputError(f"telemetry_nodes is {config.telemetry_nodes!r}", "policy.telemetry_nodes", "use job or all")
    model = None
    if config.variability:
        from cohabit.predict.variability_file import load_variability

        model = load_variability(Path(config.variability)).model
    return GateOptions(
        model,
        tuple(config.delay_labels),
        config.skip_threshold,
        config.telemetry_nodes == "all",
        config.cost_aware,
        config.choose_nodes,
        microseconds(config.longest_wait_s),
        microseconds(config.variation_price_s),
    )


def refuse_untrusted_files(config: PolicyConfig) -> None:
    """Refuse files of the policy that another account could change, for a controller started by root."""
    refuse_for_root(*(Path(text) for text in (config.degradation, config.model, config.variability) if text))


def _degradations(config: PolicyConfig) -> Degradations | None:
    """Return how much programs slow each other, from a matrix or a model; None: to be derived from profiles."""
    if config.degradation and config.model:
        raise InputError("policy has both degradation and model", "policy", "keep one of the two")
    if config.degradation:
        from cohabit.policy.degradation import KnownPairs
        from cohabit.trace.degradation import read_degradation

        matrix = read_degradation(Path(config.degradation))
        return KnownPairs(matrix.names, matrix.percent + np.diag(matrix.beside_itself))
    if config.model:
        from cohabit.policy.degradation import PredictedPairs
        from cohabit.predict.model_file import load_model, not_beaten_by

        stored = load_model(Path(config.model))
        if (beaten := not_beaten_by(stored.manifest)) and not config.trust_model:
            what = f"the model does no better on families it has not seen than {' and '.join(beaten)}"
            fix = "measure more pairs and train again, or say trust_model = true"
            raise InputError(what, f"policy.model = {config.model!r}", fix)
        return PredictedPairs(stored.model, Path(config.model).name)
    return None


def without_effect(config: PolicyConfig, names: dict[str, Any], measured: bool = True) -> list[str]:
    """Return a sentence for each key that has no effect under these policies; `measured`: running jobs are measured."""
    usual, placement = PolicyConfig(), str(names["placement"])
    gate = str(names.get("gate", UNGATED))
    gated, by = gate != UNGATED, f"with gate {gate!r}" if gate != UNGATED else "without a gate"
    ungated = [key for key, gates in OF_GATES.items() if gate not in gates]
    ungated = [key for key in ungated if getattr(config, key) != getattr(usual, key)]
    unlearned = [f"nothing is delayed: gate {gate!r} has no model (policy.variability, see `cohabit train`)"]
    said = [key for key in CONCERNED if getattr(config, key) != getattr(usual, key)]
    elsewhere = [key for key in said if placement not in CONCERNED[key]]
    found = [f"policy.{key} has no effect with placement {placement!r}" for key in elsewhere]
    found += [f"policy.{key} has no effect {by}" for key in ungated]
    found += unlearned if gated and not config.variability else []
    if names.get("partition") == GUARANTEE and not measured:
        found.append(
            "cache shares stay as booked: partition 'guarantee' corrects them by measurements, and this scenario "
            "simulates none (world.progress_s)"
        )
    pairing = str(names.get("pairing", "greedy")) if placement == "pair" else ""
    if config.evaluations != usual.evaluations and not config.planned and placement == "joint":
        found.append("policy.evaluations has no effect without planned = true")
    learns = bool(config.model) and pairing not in ("consecutive", "intensity")
    if config.explore != usual.explore and placement == "pair" and not learns and not UNHEEDED.get(pairing, ()):
        found.append("policy.explore has no effect without a model that learns (policy.model)")
    bounded = ("threshold_pct",) if learns and config.explore else ()  # pairs made to learn keep it
    unheeded = [key for key in said if key in UNHEEDED.get(pairing, ()) and key not in bounded]
    return found + [f"policy.{key} has no effect with pairing {pairing!r}" for key in unheeded]


def nothing_known(
    scenario: Scenario, policies: PolicySet, programs: Sequence[str], profiles: Sequence[Profile]
) -> list[str]:
    """Return a sentence for each program unknown to the matrix or the model; refuse if that is all of them."""
    config, placer = scenario.policy, policies.placer
    _refuse_zeros(placer, programs, profiles)
    key = "degradation" if config.degradation else "model"
    if not getattr(config, key):
        return []
    from cohabit.policy.placement.pair import Pair

    heeded = isinstance(placer, Pair) and key not in UNHEEDED.get(placer.method, ())
    later = key == "model" and scenario.programs.profiles == "none"  # counters become known as programs run
    if not heeded or later:
        return []
    assert isinstance(placer, Pair)
    known = {one.program: one for one in profiles}
    strange = [name for name in programs if placer.degradations.lacks(name, known.get(name))]
    if len(strange) == len(programs):
        why = "has none of their programs" if key == "degradation" else "needs counters that none of them has"
        raise InputError(
            f"it {why}: all jobs would run alone",
            f"policy.{key} = {getattr(config, key)!r}",
            "check the names, or leave the key out",
        )
    return [f"policy.{key} does not cover {name or 'jobs without a program'}: run alone" for name in strange]


def is_gated(config: PolicyConfig) -> bool:
    """Return whether a gate may delay jobs under this policy; a wrong name is refused elsewhere."""
    bundle = BUNDLES[config.name][0] if config.name in BUNDLES else {}
    return (config.gate or bundle.get("gate", UNGATED)) != UNGATED


def _refuse_zeros(placer: object, programs: Sequence[str], profiles: Sequence[Profile]) -> None:
    """Refuse pairs by cache misses where profiles are known and none of the jobs' programs has any."""
    from cohabit.policy.placement.pair import INTENSITY, MISSES, Pair

    known = [one for one in profiles if one.program in programs]
    if not isinstance(placer, Pair) or placer.method != INTENSITY or not known:
        return
    if all(feature(one.at_scale(1), MISSES) is None for one in known):
        what = f"none of the programs has {MISSES}: jobs would be paired as if none missed the cache"
        raise InputError(what, "policy.pairing = 'intensity'", "give programs counters, or use another pairing")


def title(names: dict[str, Any]) -> str:
    """Return the display name of the policy."""
    backfill = str(names["backfill"])
    text = f"{names['order']} + {'depth ' + backfill if backfill.isdigit() else backfill}"
    if names.get("backfill_order"):
        text += f" by {names['backfill_order']}"
    if names.get("pairing") and names["placement"] == "pair":
        return f"{text} + {names['pairing']} pairs"
    text = text if names["placement"] == "exclusive" else f"{text} + {names['placement']}"
    text = f"{text} + {names['scheme']}" if names.get("scheme") else text
    return text if names.get("gate", UNGATED) == UNGATED else f"{text} + {names['gate']} gate"
