"""What the core of this machine decides by: its policies and its nodes, as the site file or the journal has them.

A journal keeps the settings its batches were told under, stretch by stretch: under another policy in the site file the
core goes on with all its jobs (core/succession.py), and a replay uses for each stretch its own. Of clusters under a
resource manager: app/steer/deciding.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from cohabit.app.scenario.policies import build, refuse_untrusted_files
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve import machine as machines
from cohabit.app.serve.machine import MACHINE
from cohabit.app.serve.schemes import as_journalled
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.core.protocols import Coupling, PolicySet
from cohabit.live.controller.journal import Journal
from cohabit.live.controller.place import Place
from cohabit.live.controller.recovery import Stretch, Verified, change_settings, restore, verify
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError

SETTINGS = "settings"
Settled = tuple[Cluster, PolicySet]


class Settings(msgspec.Struct, frozen=True):
    """The inputs of the core's decisions besides its events, as a journal keeps them."""

    nodes: int | str
    policy: PolicyConfig
    coupling: Coupling | None
    oversubscribe: bool = False
    machine: tuple[NodeGroup, ...] | None = None  # of a stretch that is over; None: the journal has it by itself


class Change(NamedTuple):
    """What other settings changed, and the jobs that were kept."""

    was: str
    now: str
    waiting: int
    running: int

    def __str__(self) -> str:
        policies = f"policy {self.was} -> {self.now}" if self.was != self.now else f"other keys of policy {self.now}"
        return f"{policies}: {self.waiting} waiting and {self.running} running jobs are kept"


def policies_under(settings: Settings) -> PolicySet:
    """Return the policies, with this domain's scheme for mates elsewhere."""
    refuse_untrusted_files(settings.policy)
    built = build(settings.policy, oversubscribe=settings.oversubscribe)
    return replace(built, mates=settings.coupling, notes_co_runs=True)


def settle(journal: Journal, now: Settings, nodes: VirtualNodes, place: Path) -> tuple[Settled, Change | None]:
    """Let the journal go on under the settings of now, with the scheme for mates it was begun with; return the nodes
    and policies, and what has changed. A journal that never took a job is begun anew; other nodes are refused."""
    text = journal.get(SETTINGS)
    if text is None:
        journal.put({SETTINGS: _written(now)})
        kept = now
    else:
        kept = msgspec.json.decode(text, type=Settings)
        now = msgspec.structs.replace(now, coupling=as_journalled(now.coupling, kept.coupling))
        if kept != now and machines.begun_anew(journal, Place(place), SETTINGS):
            return settle(journal, now, nodes, place)
    policies = policies_under(now)
    found = machines.cluster_of(nodes, policies, now.oversubscribe)
    if kept == now:
        return (machines.same_machine(journal, found, place), policies), None
    before = _as_kept(journal, kept)
    ended = _written(msgspec.structs.replace(kept, machine=before[0].groups))
    settings = {SETTINGS: _written(now), MACHINE: machines.written(found)}
    try:
        counts = change_settings(journal, restore(journal, *before), found, policies, ended, settings)
    except InputError as error:
        raise InputError(error.what, os.fspath(place), error.fix) from error
    return (found, policies), Change(kept.policy.name, now.policy.name, *counts)


def verify_own(journal: Journal) -> Verified:
    """Replay a whole journal, each stretch under the settings it was told under."""
    text = journal.get(SETTINGS)
    if text is None:
        raise InputError("no controller has served from this journal yet", journal.where)
    kept = msgspec.json.decode(text, type=Settings)
    earlier = [(one.seq, msgspec.json.decode(one.settings, type=Settings)) for one in journal.ended_stretches()]
    return verify(journal, *_as_kept(journal, kept), [Stretch(seq, *_as_kept(journal, one)) for seq, one in earlier])


def _written(settings: Settings) -> str:
    return msgspec.json.encode(settings).decode()


def _as_kept(journal: Journal, kept: Settings) -> Settled:
    """Return the nodes and policies of kept settings."""
    policies = made_again(kept.policy.name, lambda: policies_under(kept))
    shared = not policies.placer.exclusive
    groups, text = kept.machine, journal.get(MACHINE)
    if groups is None and text is None:  # written by a version that did not record it: assume this machine
        return machines.cluster_of(VirtualNodes(kept.nodes), policies, kept.oversubscribe), policies
    if groups is None:
        groups = msgspec.json.decode(text or "", type=tuple[NodeGroup, ...])
    return Cluster(groups, "shared" if shared else "exclusive", shared and kept.oversubscribe), policies


def made_again(name: str, make: Callable[[], PolicySet]) -> PolicySet:
    """Return the policies of kept settings; raise one sentence if they cannot be made any more."""
    try:
        return make()
    except InputError as error:
        what = f"jobs were taken under policy {name}, which cannot be made any more: {error.what}"
        raise InputError(what, error.where, "put back the files it had then, or begin in a new place") from error
