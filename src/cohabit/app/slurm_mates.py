"""Groups that users of a resource manager name in their jobs: who belongs to one, and on which terms.

A group the site file describes ([group.NAME]) is as described there. Any other name stands for one job of that name in
this domain and in each of those that [mates] lists (all peers, if it lists none), on the terms of [mates]. Both sides
must come to the same group, or the protocol refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cohabit.live.api.groups import GroupTable, group_of
from cohabit.model.errors import InputError
from cohabit.model.group import Group


class MatesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"beside": "with"}):
    """[mates]: the terms of groups that are only named. The keys of [group.NAME] mean the same here."""

    beside: list[str] = []  # domains; none: all peers
    lease_s: float = 60.0
    lead_s: float = 2.0
    late_s: float = 0.5
    round_trip_s: float = 0.5
    ask_s: float = 10.0
    retry_s: float = 30.0
    dead_after_s: float = 180.0
    when_dead: str = "wait"
    overlap_s: float = -1.0


class Groups:
    """Names to groups, for one domain. What the file describes is checked at once."""

    def __init__(
        self, domain: str, peers: Sequence[str], described: Mapping[str, GroupTable], mates: MatesTable, where: str
    ) -> None:
        self._domain, self._peers, self._mates, self._where = domain, tuple(peers), mates, where
        domains = (domain, *peers)
        self._known = {name: group_of(name, table, domains, where) for name, table in described.items()}
        if domain and peers:
            group_for("any", mates, domain, peers, where)

    def remember(self, group: Group | None) -> None:
        """One that came with a job, in its own words."""
        if group is not None:
            self._known[group.name] = group

    def find(self, name: str) -> Group | None:
        """None: no job can have such mates here. Numbers are names of jobs without mates."""
        if name in self._known:
            return self._known[name]
        if not self._domain or not self._peers or name.isdigit():
            return None
        return group_for(name, self._mates, self._domain, self._peers, self._where)


def group_for(name: str, mates: MatesTable, domain: str, peers: Sequence[str], where: str) -> Group:
    """The group of this name on the terms of [mates]."""
    others = mates.beside or list(peers)
    for other in others:
        if other not in peers:
            raise InputError(f"with names {other}, which is no peer", f"{where}: mates", "describe it: [peer.NAME]")
    keys = {key: value for key, value in msgspec.structs.asdict(mates).items() if key != "beside"}
    table = GroupTable(dict.fromkeys((domain, *others), name), **keys)
    return group_of(name, table, (domain, *peers), where)
