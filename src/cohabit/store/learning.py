"""How measurements become a stored profile: one more run, and all that are left when some are forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from cohabit.model.merging import drifted, learned, merged
from cohabit.model.profile import Profile, ScaleProfile

if TYPE_CHECKING:
    from cohabit.store.profiles import ProfileStore


def keep(store: ProfileStore, new: Profile) -> tuple[Profile, str]:
    """Merge a profile into the store; replace it if the program has changed, and return why. Refusals write nothing."""
    known = store.get(new.program, new.processes, new.hardware, new.owner)
    if known is None or known.provenance != new.provenance:
        return store.put(new), ""
    pairs = [(known.at_scale(one.scale), one) for one in new.scales]
    why = next((text for old, one in pairs if old is not None and (text := drifted(old, one))), "")
    if why:
        store.replace([new])
        return new, why
    merged(known, new)  # raises if they cannot be merged, before anything is written
    return store.put(new), ""


def rebuilt(empty: Profile, samples: Iterable[tuple[str, ScaleProfile]]) -> Profile:
    """Return the profile that these measurements, with their provenance, make in their order."""
    found = empty
    for provenance, measured in samples:
        if provenance != found.provenance:
            found = msgspec.structs.replace(empty, provenance=provenance)
        found = learned(found, measured)
    return found
