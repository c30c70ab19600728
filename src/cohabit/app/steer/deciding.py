"""What the core of a steered cluster decides by: its policies and its nodes, as the site file or the journal has them.

A journal keeps the settings its batches were told under, stretch by stretch: with another policy in the site file the
core goes on with all its jobs (core/succession.py), and a replay uses for each stretch its own.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace

import msgspec

from cohabit.app.scenario.policies import build, refuse_untrusted_files
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.deciding import Change, made_again
from cohabit.app.serve.machine import begun_anew
from cohabit.app.serve.schemes import as_journalled
from cohabit.app.steer.site import NodeTable, SteeredSite
from cohabit.backend.steered.shapes import Discovered
from cohabit.core.protocols import Coupling, PolicySet
from cohabit.live.controller.journal import Journal, open_journal
from cohabit.live.controller.place import Place, only_one, open_place
from cohabit.live.controller.recovery import Stretch, Verified, change_settings, restore, verify
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError

MANAGERS = ("slurm", "gridengine")  # words for them, in files and journals
log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The inputs of the core's decisions besides its events."""

    nodes: tuple[str, ...]
    cpus: tuple[int, ...]
    policy: PolicyConfig
    node: NodeTable
    coupling: Coupling | None = None
    core_jobs: int = 1  # jobs that may share a core
    groups: tuple[NodeGroup, ...] = ()  # the nodes as the manager describes them; none: an earlier version wrote it


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
    return _cluster(node, found.cluster.groups, found.names, policies)


def _cluster(node: NodeTable, told: tuple[NodeGroup, ...], names: tuple[str, ...], policies: PolicySet) -> Cluster:
    curve = tuple((cores, gbs) for cores, gbs in node.bandwidth_gbs)
    groups = tuple(
        replace(group, ways=node.ways, min_ways=node.min_ways, closids=node.closids, bandwidth_gbs=curve)
        for group in told
    )
    return Cluster(groups, "exclusive" if policies.placer.exclusive else "shared", names=names)


# ---- the settings of a journal --------------------------------------------------------------------------------------


def key_of(word: str) -> str:
    """Return the key under which a journal keeps the settings of now."""
    return f"{word} settings"


def settings_of(site: SteeredSite, found: Discovered, coupling: Coupling | None) -> Settings:
    """Return the settings of a site file."""
    node = msgspec.structs.replace(site.node, hold_bandwidth=NodeTable().hold_bandwidth)  # decides nothing
    groups = found.cluster.groups
    return Settings(found.names, found.cpus, site.policy, node, coupling, found.core_jobs, groups)


def written(settings: Settings) -> str:
    """Return settings as a journal keeps them."""
    return msgspec.json.encode(settings).decode()


def _kept(text: str, groups: tuple[NodeGroup, ...]) -> Settings:
    """Return kept settings; `groups`: the nodes, where an earlier version did not write them."""
    kept = msgspec.json.decode(text, type=Settings)
    return kept if kept.groups else msgspec.structs.replace(kept, groups=groups)


def _as_kept(kept: Settings) -> tuple[Cluster, PolicySet]:
    """Return the nodes and policies of kept settings. Keys that an earlier version lacked are as usual."""
    policies = made_again(kept.policy.name, lambda: _built(kept.policy, kept.core_jobs, kept.coupling))
    return _cluster(kept.node, kept.groups, kept.nodes, policies), policies


def settle(journal: Journal, site: SteeredSite, found: Discovered) -> tuple[Coupling | None, Discovered, Change | None]:
    """Let the journal go on under the settings of the site file; return this domain with the scheme the journal was
    begun with, the nodes, and what has changed. A journal that never took a job is begun anew; other nodes are
    refused."""
    own, key = site.config.coupling, key_of(site.word)
    text = journal.get(key)
    if text is None:
        journal.put({key: written(settings_of(site, found, own))})
        return own, found, None
    kept = _kept(text, found.cluster.groups)
    coupling = as_journalled(own, kept.coupling)
    now = settings_of(site, found, coupling)
    if kept == now:
        journal.put({key: written(now)})
        return coupling, found, None
    if begun_anew(journal, Place(site.place), key):
        return settle(journal, site, found)
    refuse_other_nodes(kept, now, site)
    policies = policies_of(site, found, coupling)
    ended, settings = written(kept), {key: written(now)}
    try:
        old = restore(journal, *_as_kept(kept))
        counts = change_settings(journal, old, cluster_of(site.node, found, policies), policies, ended, settings)
    except InputError as error:
        if kept != msgspec.structs.replace(now, groups=kept.groups):
            raise InputError(error.what, os.fspath(site.place), error.fix) from error
        log.warning(
            "%s describes its nodes differently than before; the old description is kept: %s", site.title, error.what
        )
        return coupling, replace(found, cluster=replace(found.cluster, groups=kept.groups)), None
    return coupling, found, Change(kept.policy.name, now.policy.name, *counts)


def refuse_other_nodes(kept: Settings, now: Settings, site: SteeredSite) -> None:
    """Refuse settings under which the jobs of a journal cannot go on."""
    if (kept.nodes, kept.cpus) != (now.nodes, now.cpus):
        raise InputError(
            "its jobs were taken on other nodes",
            os.fspath(site.place),
            f"`cohabit {site.word} detach`, then use a new folder (place)",
        )


async def verify_journal(site: SteeredSite) -> Verified:
    """Replay the whole journal of a controller, each stretch under its own settings; it must not be running. The
    manager is asked about its nodes only if an earlier version wrote the journal."""
    place = open_place(site.place)
    with only_one(place):
        journal = open_journal(place.journal)
        try:
            groups: tuple[NodeGroup, ...] = ()
            if (text := journal.get(key_of(site.word))) and not _kept(text, ()).groups:
                found = (await site.look_around(only_read=True)).found
                refuse_other_nodes(_kept(text, ()), settings_of(site, found, None), site)
                groups = found.cluster.groups
            return verify_own(journal, site.word, groups)
        finally:
            journal.close()


def steered_by(journal: Journal) -> str:
    """Return the word of the manager whose jobs this journal has; empty: of none."""
    return next((word for word in MANAGERS if journal.get(key_of(word)) is not None), "")


def verify_own(journal: Journal, word: str, groups: tuple[NodeGroup, ...] = ()) -> Verified:
    """Replay a whole journal, each stretch under the settings it was told under. `groups`: the nodes, where an earlier
    version did not write them."""
    text = journal.get(key_of(word))
    if text is None:
        raise InputError("no controller has steered from this journal yet", journal.where)
    kept = _kept(text, groups)
    if not kept.groups:
        fix = f"attach once more, or `cohabit {word} attach SITE.toml --verify`"
        raise InputError("an earlier version wrote it, without the nodes of the cluster", journal.where, fix)
    stretches = [Stretch(one.seq, *_as_kept(_kept(one.settings, kept.groups))) for one in journal.ended_stretches()]
    return verify(journal, *_as_kept(kept), stretches)
