"""Replay a live journal: pass its events to a fresh core, under its own settings and on its own nodes.

A journal in a file is copied first, so a controller may run meanwhile; one in a database must not be in use.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from cohabit.app.serve.machine import MACHINE, cluster_of
from cohabit.app.serve.serving import SETTINGS, ServeConfig, Settings, policies_of
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.core.protocols import PolicySet
from cohabit.live.controller.backup import copy_of
from cohabit.live.controller.journal import Journal, open_journal
from cohabit.live.controller.place import find_journal, is_there
from cohabit.live.controller.recovery import Verified, verify
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError


def is_live(path: Path) -> bool:
    """Return whether this is a controller's place, its site file or its journal."""
    if path.is_dir():
        return is_there(find_journal(path))
    if path.suffix == ".toml":
        return True
    try:
        with open(path, "rb") as stream:
            return stream.read(15) == b"SQLite format 3"
    except OSError:
        return False


def journal_of(path: Path) -> tuple[Path, Path | str]:
    """Return the place and the journal of a site file, a place or a journal's file."""
    if path.suffix == ".toml":
        from cohabit.app.serve.site_file import read_site

        config = read_site(path).config
        return config.place, config.find_journal()
    return (path.parent, path) if path.is_file() else (path, find_journal(path))


def replay_live(path: Path) -> Verified:
    """Compare the commands of a fresh core with the recorded ones."""
    _, where = journal_of(path)
    if isinstance(where, str):
        return _replayed(open_journal(where))
    with tempfile.TemporaryDirectory(prefix="cohabit-replay-") as folder:
        return _replayed(open_journal(copy_of(where, Path(folder))))


def _replayed(journal: Journal) -> Verified:
    try:
        config = _config(journal)
        policies = policies_of(config)
        return verify(journal, _cluster(journal, config, policies), policies)
    finally:
        journal.close()


def _config(journal: Journal) -> ServeConfig:
    settings = journal.get(SETTINGS)
    if settings is None:
        raise InputError("no controller has served from this journal yet", journal.where)
    kept = msgspec.json.decode(settings, type=Settings)
    return ServeConfig(Path(), kept.nodes, kept.policy, kept.coupling, oversubscribe=kept.oversubscribe)


def _cluster(journal: Journal, config: ServeConfig, policies: PolicySet) -> Cluster:
    machine = journal.get(MACHINE)
    if machine is None:  # written by a version that did not record it: assume this machine
        return cluster_of(VirtualNodes(config.nodes), policies, config.oversubscribe)
    shared = not policies.placer.exclusive
    groups = msgspec.json.decode(machine, type=tuple[NodeGroup, ...])
    return Cluster(groups, "shared" if shared else "exclusive", shared and config.oversubscribe)
