"""The profiles of programs, by owner: which profile a job uses, and how events change it.

A job uses its owner's profile of the program, or the shared one if its owner has none; never a profile of another
user. A run changes its owner's profile only. If an owner has used the shared profile so far, its first measurement is
merged into a copy of it: curves and scales that an operator shared are not lost by one run, and a measurement that does
not fit them starts the copy afresh (model/merging.py). From then on the owner's profile alone decides, also what is to
be explored. An owner whose program has changed has an empty profile: the shared one does not describe that program.

Simulated jobs and those of older journals have no `profile_owner`: they read and write the shared profiles.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cohabit.core.state import State
from cohabit.model.event import ProfileLearned
from cohabit.model.merging import learned
from cohabit.model.profile import SHARED, Profile


def put(state: State, profile: Profile) -> None:
    """Store a profile as it is."""
    _made(state, profile.program, profile.owner)[profile.processes] = profile


def known_of(state: State, program: str, owner: str) -> Mapping[int, Profile]:
    """Return the profiles that apply to jobs of this owner, by number of processes."""
    own = state.own_profiles.get((owner, program)) if owner else None
    return state.profiles.get(program, {}) if own is None else own


def all_known(state: State) -> dict[tuple[str, str], Mapping[int, Profile]]:
    """Return all profiles, by program and owner."""
    shared: dict[tuple[str, str], Mapping[int, Profile]] = {(name, SHARED): one for name, one in state.profiles.items()}
    return shared | {(program, owner): one for (owner, program), one in state.own_profiles.items()}


def learn(state: State, fact: ProfileLearned) -> bool:
    """Merge a measurement into the profile; one that no longer fits starts the profile afresh."""
    if fact.owner and (fact.owner, fact.program) not in state.own_profiles:
        _copy(state, fact.program, SHARED, fact.owner)
    known = _made(state, fact.program, fact.owner)
    empty = Profile(fact.program, fact.processes, hardware=fact.hardware, owner=fact.owner)
    known[fact.processes] = learned(known.get(fact.processes) or empty, fact.measured)
    return _changed(state, fact.program)


def forget(state: State, program: str, owner: str) -> bool:
    """Drop what was measured of an owner's program; it is measured again if the site learns."""
    if not known_of(state, program, owner):
        return False
    if owner:
        state.own_profiles[owner, program] = {}
    else:
        del state.profiles[program]
    return _changed(state, program)


def share(state: State, program: str, owner: str) -> bool:
    """Make an owner's profile the shared one, for all users without a profile of their own."""
    if not owner or not state.own_profiles.get((owner, program)):
        return False
    _copy(state, program, owner, SHARED)
    return _changed(state, program)


def take_stored(state: State, profile: Profile) -> bool:
    """Replace what is known by a profile of the store; it holds what other writers measured, too."""
    put(state, profile)
    return _changed(state, profile.program)


def remove(state: State, program: str, processes: int, owner: str) -> bool:
    """Remove a profile as if it had never been measured: the shared one applies again to its owner's jobs."""
    known = state.own_profiles.get((owner, program)) if owner else state.profiles.get(program)
    if known is None or known.pop(processes, None) is None:
        return False
    if not known and owner:
        del state.own_profiles[owner, program]
    elif not known:
        del state.profiles[program]
    return _changed(state, program)


def _made(state: State, program: str, owner: str) -> dict[int, Profile]:
    if owner:
        return state.own_profiles.setdefault((owner, program), {})
    return state.profiles.setdefault(program, {})


def _copy(state: State, program: str, source: str, target: str) -> None:
    found = {
        count: msgspec.structs.replace(one, owner=target) for count, one in known_of(state, program, source).items()
    }
    known = _made(state, program, target)
    known.clear()
    known.update(found)


def _changed(state: State, program: str) -> bool:
    state.described.forget_asks(program)
    state.kept.clear()
    return state.ledger is not None
