"""Names to policies: a bundle, varied key by key, becomes the PolicySet a core runs with."""

from __future__ import annotations

from typing import Any

from cohabit.app.scenario import PolicyConfig, half_life_us
from cohabit.core.kernels import CONSERVATIVE
from cohabit.core.protocols import PolicySet
from cohabit.model.errors import InputError
from cohabit.policy.backfill import reservation
from cohabit.policy.placement.exclusive import Exclusive
from cohabit.policy.registry import BUNDLES, LISTED_BY, PLACEMENTS, make_order, order_entry, unknown


def resolve(config: PolicyConfig) -> dict[str, Any]:
    """What the bundle and the keys beside it come to."""
    if config.name not in BUNDLES:
        raise unknown("policy", config.name, BUNDLES, LISTED_BY)
    chosen = dict(BUNDLES[config.name][0])
    for key in ("order", "backfill", "backfill_order", "placement"):
        if (value := getattr(config, key)) is not None:
            chosen[key] = value
    return chosen


def build(config: PolicyConfig) -> PolicySet:
    """The policies, with orders that change over time compiled."""
    chosen = resolve(config)
    if chosen["placement"] not in PLACEMENTS:
        raise unknown("placement", chosen["placement"], PLACEMENTS, LISTED_BY)
    backfill = reservation.from_name(chosen["backfill"])
    first, second = chosen["order"], chosen.get("backfill_order")
    if second is not None and backfill.depth in (0, CONSERVATIVE):
        raise InputError(
            f"backfill_order = {second!r} has no effect with backfill = {chosen['backfill']!r}", "policy",
            "leave it out, or use easy, first-fit or a depth",
        )  # fmt: skip
    changing = order_entry(first).changing or (second is not None and order_entry(second).changing)
    return PolicySet(
        order=make_order(first, config.order_options, changing),
        backfill=backfill,
        placer=Exclusive(),
        backfill_order=None if second is None else make_order(second, config.backfill_order_options, changing),
        fair_share_half_life_us=half_life_us(config) if first == "multifactor" else 0,
        names=chosen,
    )


def title(names: dict[str, Any]) -> str:
    """What a reader should call it."""
    backfill = str(names["backfill"])
    text = f"{names['order']} + {'depth ' + backfill if backfill.isdigit() else backfill}"
    if names.get("backfill_order"):
        text += f" by {names['backfill_order']}"
    return text if names["placement"] == "exclusive" else f"{text} + {names['placement']}"
