"""Groups that users of a resource manager name in their jobs: their members and their terms.

A group the site file describes ([group.NAME]) is as described there. Any other name stands for one job of that name in
this domain and in each domain that [mates] lists (all peers, if it lists none), on the terms of [mates]. Both sides
must derive the same group, or the protocol refuses it: so a group that comes with `cohabit submit` has the same terms,
unless it states others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from cohabit.live.api.groups import GroupTable, group_of
from cohabit.live.peers.keys import PairKeys, read_keys
from cohabit.model.errors import InputError
from cohabit.model.group import Group

NAME = re.compile(r"[A-Za-z0-9._:+-]{1,64}")
OF_THRESHOLD = ("threshold", "threshold_program", "threshold_key")


class MatesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"beside": "with"}):
    """[mates]: the terms of groups that are only named. The keys mean the same as in [group.NAME]."""

    beside: list[str] = []  # domains; none: all peers
    lease_s: float = 60.0
    lead_s: float = 2.0
    late_s: float = 0.5
    round_trip_s: float = 0.5
    ask_s: float = 10.0
    retry_s: float = 30.0
    dead_after_s: float = 180.0
    when_dead: str = "wait"
    give_up_s: float = 86_400.0
    overlap_s: float = -1.0
    threshold: str = ""  # HOST:PORT or unix:PATH where runs wait for their mates; "": they begin when they are started
    threshold_program: str = "/etc/cohabit/threshold"  # path on the nodes
    threshold_key: str = ""  # Grid Engine: a key file that root has on the nodes, too


class Groups:
    """Maps names to groups, for one domain. Groups in the file are checked at once."""

    def __init__(
        self, domain: str, peers: Sequence[str], described: Mapping[str, GroupTable], mates: MatesTable, where: str
    ) -> None:
        self._domain, self._peers, self.mates, self._where = domain, tuple(peers), mates, where
        _check_threshold(mates, f"{where}: mates.threshold")
        self._described, domains = dict(described), (domain, *peers)
        self._known = {name: group_of(name, table, domains, where) for name, table in described.items()}
        if domain and peers:
            group_for("any", mates, domain, peers, where)

    @property
    def threshold_key(self) -> Path | None:
        """The path of the key file, relative to the site file."""
        key = self.mates.threshold_key
        return Path(self._where).parent.absolute() / key if key else None

    @cached_property
    def threshold_keys(self) -> PairKeys | None:
        """The keys in that file, read once."""
        return None if self.threshold_key is None else read_keys(self.threshold_key)

    @property
    def may_begin_alone(self) -> str:
        """Return in one sentence why mates may begin alone here; empty: they may not, or there are none."""
        if self.mates.threshold or not self._domain or not self._peers:
            return ""
        alone = f"if a manager is late or stops, a job may run without its mates for {self.mates.lease_s:g} s"
        return f"[mates] has no threshold: {alone} (docs/install-mates.md)"

    def remember(self, group: Group | None) -> None:
        """Keep the group a job was accepted with, even if the site file has changed."""
        if group is not None:
            self._known[group.name] = group

    def add(self, group: Group | None) -> bool:
        """Add a group as submitted with a job; return whether it is new."""
        if group is None or group.name in self._known:
            return False
        self._known[group.name] = group
        return True

    def forget(self, name: str) -> None:
        """Remove the group of a job that was not accepted."""
        self._known.pop(name, None)

    def submitted(self, name: str, stated: Mapping[str, Any], in_use: bool) -> Group:
        """Return the group that comes with a job; terms it does not state are those of the site file.

        `in_use`: a job has mates of that name already; the group must not be described again.
        """
        if not NAME.fullmatch(name):  # it goes into comments and contexts of the manager
            raise InputError(
                f"{name!r} is not a valid name of a group", "group", "use letters, digits and . _ - + : only"
            )
        terms = _terms(self._described.get(name, self.mates))
        group = group_of(name, msgspec.convert(terms | dict(stated), GroupTable), (self._domain, *self._peers), "group")
        if (in_use or name in self._known) and group != self.find(name):
            fix = "take another name, or the members and terms it has"
            raise InputError("is known here with other members or terms", f"group {name}", fix)
        return group

    def find(self, name: str) -> Group | None:
        """Return the group; None: no job can have such mates here. Numbers are names of jobs without mates."""
        if name in self._known:
            return self._known[name]
        if not self._domain or not self._peers or name.isdigit():
            return None
        return group_for(name, self.mates, self._domain, self._peers, self._where)


def group_for(name: str, mates: MatesTable, domain: str, peers: Sequence[str], where: str) -> Group:
    """Return the group of this name on the terms of [mates]."""
    others = mates.beside or list(peers)
    for other in others:
        if other not in peers:
            raise InputError(f"with names {other}, which is not a peer", f"{where}: mates", "describe it: [peer.NAME]")
    table = GroupTable(dict.fromkeys((domain, *others), name), **_terms(mates))
    return group_of(name, table, (domain, *peers), where)


def _terms(table: MatesTable | GroupTable) -> dict[str, Any]:
    """Return the terms of a table for starting together, without the members."""
    keys = msgspec.structs.asdict(table)
    return {key: value for key, value in keys.items() if key not in ("beside", "members", *OF_THRESHOLD)}


def _check_threshold(mates: MatesTable, where: str) -> None:
    """Refuse an address that the nodes cannot use as it is written."""
    host, _, port = mates.threshold.rpartition(":")
    unix = mates.threshold.startswith("unix:/")
    if any(character.isspace() for character in mates.threshold + mates.threshold_program):
        raise InputError("has a space in it", where, "choose another path")
    if mates.threshold and not unix and not (host and host != "0.0.0.0" and port.isdigit() and int(port) > 0):
        raise InputError(f"is {mates.threshold!r}", where, "write the HOST:PORT by which nodes reach it, or unix:/PATH")
