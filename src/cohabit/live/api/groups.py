"""A group of mates as users describe it, in a site file or in a submission: the same keys, the same checks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cohabit.model.errors import InputError
from cohabit.model.group import Group, Member, Terms, Window, make_group
from cohabit.model.units import microseconds


class WindowTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[[group.NAME.window]]: domain `second` starts from `least_s` to `most_s` after domain `first`."""

    first: str
    second: str
    least_s: float = 0.0
    most_s: float = 0.0


class GroupTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[group.NAME]: jobs that start together, and on which terms (docs/coscheduling-protocol.md)."""

    members: dict[str, str]  # domain -> job
    lease_s: float = 60.0
    lead_s: float = 2.0
    late_s: float = 0.05
    round_trip_s: float = 0.05
    ask_s: float = 10.0
    retry_s: float = 30.0
    dead_after_s: float = 180.0
    when_dead: str = "start_alone"
    give_up_s: float = 86_400.0  # when_dead = "wait": the job fails after its mate has been dead for so long
    overlap_s: float = -1.0  # how long mates must be seen running together; -1: for the whole run
    window: list[WindowTable] = []


def group_of(name: str, table: GroupTable, domains: Sequence[str], where: str) -> Group:
    """Return the group with its terms checked; `domains`: this one and its peers."""
    terms = Terms(
        lease_us=microseconds(table.lease_s),
        lead_us=microseconds(table.lead_s),
        late_us=microseconds(table.late_s),
        round_trip_us=microseconds(table.round_trip_s),
        ask_us=microseconds(table.ask_s),
        retry_us=microseconds(table.retry_s),
        dead_after_us=microseconds(table.dead_after_s),
        when_dead=table.when_dead,
        give_up_us=microseconds(table.give_up_s),
        watch_us=microseconds(table.overlap_s) if table.overlap_s >= 0 else -1,
    )
    windows = tuple(
        Window(one.first, one.second, microseconds(one.least_s), microseconds(one.most_s)) for one in table.window
    )
    members = [Member(*pair) for pair in sorted(table.members.items())]  # the same order in every domain
    try:
        return make_group(name, members, terms, windows, tuple(domains))
    except InputError as error:
        raise InputError(error.what, f"{where}: {error.where}", error.fix) from error
