"""What the core of a steered cluster decides by: its policies and its nodes, as the site file or the journal has them.

A journal keeps the settings its batches were told under, stretch by stretch: with another policy in the site file the
core goes on with all its jobs (core/succession.py), and a replay uses for each stretch its own.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import NamedTuple

import msgspec

from cohabit.app.scenario.policies import build, refuse_untrusted_files
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import begun_anew
from cohabit.app.serve.schemes import as_journalled
from cohabit.app.steer.site import NodeTable, SteeredSite
from cohabit.backend.steered.shapes import Discovered
from cohabit.core import checkpoint
from cohabit.core.protocols import Coupling, PolicySet
from cohabit.core.succession import living_of
from cohabit.live.controller.journal import Checkpoint, Journal, open_journal
from cohabit.live.controller.place import Place, only_one, open_place
from cohabit.live.controller.recovery import Stretch, Verified, going_on, restore, verify
from cohabit.model import codec
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The inputs of the core's decisions besides its events."""

    nodes: tuple[str, ...]
    cpus: tuple[int, ...]
    policy: PolicyConfig
    node: NodeTable
    coupling: Coupling | None = None
    core_jobs: int = 1  # jobs that may share a core


class Change(NamedTuple):
    """What other settings changed, and the jobs that were kept."""

    was: str
    now: str
    waiting: int
    running: int

    def __str__(self) -> str:
        policies = f"policy {self.was} -> {self.now}" if self.was != self.now else f"other keys of policy {self.now}"
        return f"{policies}: {self.waiting} waiting and {self.running} running jobs are kept"


def policies_of(site: SteeredSite, found: Discovered, coupling: Coupling | None) -> PolicySet:
    """Return the policies; jobs share cores only where the manager allows it to as many as a policy would group."""
    refuse_untrusted_files(site.policy)
    policies = _built(site.policy, found.core_jobs, coupling)
    if found.whole_nodes_because and not policies.placer.exclusive:
        raise InputError(
            f"policy {site.policy.name} lets jobs share nodes, but {found.whole_nodes_because}",
            "policy",
            "change Slurm's setting, or use a policy that gives out whole nodes",
        )
    return policies


def _built(policy: PolicyConfig, core_jobs: int, coupling: Coupling | None) -> PolicySet:
    shared = core_jobs >= max(policy.group_size, 2)
    return replace(build(policy, oversubscribe=shared), mates=coupling, notes_co_runs=True)


def cluster_of(node: NodeTable, found: Discovered, policies: PolicySet) -> Cluster:
    """Return the cluster as the core sees it: shared if the policy shares."""
    curve = tuple((cores, gbs) for cores, gbs in node.bandwidth_gbs)
    groups = tuple(
        replace(group, ways=node.ways, min_ways=node.min_ways, closids=node.closids, bandwidth_gbs=curve)
        for group in found.cluster.groups
    )
    sharing = "exclusive" if policies.placer.exclusive else "shared"
    return replace(found.cluster, groups=groups, sharing=sharing, names=found.names)


# ---- the settings of a journal --------------------------------------------------------------------------------------


def key_of(site: SteeredSite) -> str:
    """Return the key under which a journal keeps the settings of now."""
    return f"{site.word} settings"


def settings_of(site: SteeredSite, found: Discovered, coupling: Coupling | None) -> Settings:
    """Return the settings of a site file."""
    node = msgspec.structs.replace(site.node, hold_bandwidth=NodeTable().hold_bandwidth)  # decides nothing
    return Settings(found.names, found.cpus, site.policy, node, coupling, found.core_jobs)


def written(settings: Settings) -> str:
    """Return settings as a journal keeps them."""
    return msgspec.json.encode(settings).decode()


def _as_kept(text: str, found: Discovered) -> tuple[Cluster, PolicySet]:
    """Return the nodes and policies of kept settings. Keys that an earlier version lacked are as usual."""
    kept = msgspec.json.decode(text, type=Settings)
    try:
        policies = _built(kept.policy, kept.core_jobs, kept.coupling)
    except InputError as error:
        what = f"jobs were taken under policy {kept.policy.name}, which cannot be made any more: {error.what}"
        raise InputError(what, error.where, "put back the files it had then, or detach and use a new place") from error
    return cluster_of(kept.node, found, policies), policies


def settle(journal: Journal, site: SteeredSite, found: Discovered) -> tuple[Coupling | None, Change | None]:
    """Let the journal go on under the settings of the site file; return this domain with the scheme the journal was
    begun with, and what has changed. A journal that never took a job is begun anew; other nodes are refused."""
    own, text = site.config.coupling, journal.get(key_of(site))
    if text is None:
        journal.put({key_of(site): written(settings_of(site, found, own))})
        return own, None
    kept = msgspec.json.decode(text, type=Settings)
    coupling = as_journalled(own, kept.coupling)
    now = settings_of(site, found, coupling)
    if kept == now:
        return coupling, None
    if begun_anew(journal, Place(site.place), key_of(site)):
        return settle(journal, site, found)
    refuse_other_nodes(kept, now, site)
    policies = policies_of(site, found, coupling)
    old = restore(journal, *_as_kept(text, found))
    try:
        core = going_on(old.core, cluster_of(site.node, found, policies), policies, old.last_us)
    except InputError as error:
        raise InputError(error.what, os.fspath(site.place), error.fix) from error
    seq, pending = journal.next_seq - 1, codec.encode(old.orders)
    here = Checkpoint(seq, old.last_us, checkpoint.save(core), pending)
    journal.go_on_under(here, text, {key_of(site): written(now)})
    return coupling, Change(kept.policy.name, now.policy.name, *living_of(core))


def refuse_other_nodes(kept: Settings, now: Settings, site: SteeredSite) -> None:
    """Refuse settings under which the jobs of a journal cannot go on."""
    if (kept.nodes, kept.cpus) != (now.nodes, now.cpus):
        raise InputError(
            "its jobs were taken on other nodes",
            os.fspath(site.place),
            f"`cohabit {site.word} detach`, then use a new folder (place)",
        )


async def verify_journal(site: SteeredSite) -> Verified:
    """Replay the whole journal of a controller, each stretch under its own settings; it must not be running."""
    place = open_place(site.place)
    with only_one(place):
        found = (await site.look_around(only_read=True)).found
        journal = open_journal(place.journal)
        try:
            text = journal.get(key_of(site))
            if text is None:
                raise InputError("no controller has steered from this journal yet", journal.where)
            refuse_other_nodes(msgspec.json.decode(text, type=Settings), settings_of(site, found, None), site)
            earlier = [Stretch(one.seq, *_as_kept(one.settings, found)) for one in journal.ended_stretches()]
            return verify(journal, *_as_kept(text, found), earlier)
        finally:
            journal.close()
