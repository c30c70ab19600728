"""What runs beside others taught of a program, from the controller that answers or from a store and a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cohabit.app.client.client import Client
from cohabit.app.measure.profiles import asked, opened_store, owner_name
from cohabit.model.errors import InputError
from cohabit.model.profile import Profile, key_parts, run_key


def neighbours_in(
    client: Client, store: str | None, profile: Profile, model: str | None, named: bool
) -> dict[str, Any]:
    """Return the co-runs of a program, pair by pair, and what a model makes of them: the controller's or this one."""
    answer = None if store else asked(lambda: client.profile_neighbours(profile.program, profile.owner), named)
    if answer is not None:
        if model is not None:
            fix = "leave out --model, or name a store: --store FILE"
            raise InputError("the controller judges by its own model", "--model", fix)
        return {"judged": answer["judged"], "co_runs": by_pair(answer["co_runs"])}
    with opened_store(store) as opened:
        stored, profiles = opened.co_runs(), opened.profiles()
    key = run_key(profile)
    rows = [one._asdict() for one in stored if key in (one.program, *one.beside)]
    if model is None:
        return {"judged": None, "co_runs": by_pair(rows)}
    from cohabit.policy.degradation import PredictedPairs
    from cohabit.policy.neighbours import of_program, seen_by
    from cohabit.predict.model_file import load_model
    from cohabit.store.co_runs import summaries

    pairs = PredictedPairs(load_model(Path(model)).model, Path(model).name)
    if not pairs.learns:
        raise InputError(
            "it was trained by an earlier cohabit and learns nothing from co-runs", model, "train it again"
        )
    if lacks := pairs.lacks(profile.program, profile):
        raise InputError(lacks, "--model")
    hardware = {"", profile.hardware} if profile.hardware else None
    seen = seen_by(pairs, profiles, summaries(stored, hardware))
    return {"judged": of_program(pairs, profiles, seen, key), "co_runs": by_pair(rows)}


def by_pair(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each group of programs on one kind of hardware: how many runs, their mean and range."""
    groups: dict[tuple[str, tuple[str, ...], str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["program"], tuple(row["beside"]), row["hardware"]), []).append(row)
    found = []
    for (program, beside, hardware), seen in sorted(groups.items()):
        percents = [float(row["percent"]) for row in seen]
        found.append(
            {
                "program": display(program),
                "beside": [display(one) for one in beside],
                "hardware": hardware,
                "runs": len(seen),
                "mean_percent": sum(percents) / len(percents),
                "least_percent": min(percents),
                "most_percent": max(percents),
                "measured_at_us": max(int(row["measured_at_us"]) for row in seen) or None,
            }
        )
    return found


def display(key: str) -> str:
    """Return a program and its owner as people read them."""
    program, owner = key_parts(key)
    return f"{program} of {owner_name(owner)}" if owner else program
