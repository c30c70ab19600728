"""The list of sources; where two offer the same counter, the earlier one is used."""

from __future__ import annotations

from collections.abc import Iterable

from cohabit.agent.sensors.cgroup import Cgroup
from cohabit.agent.sensors.perf import Perf
from cohabit.agent.sensors.pressure import Pressure
from cohabit.agent.sensors.procfs import Procfs
from cohabit.agent.sensors.resctrl import Resctrl
from cohabit.agent.sensors.source import Offer, Source
from cohabit.agent.sensors.valgrind import Valgrind
from cohabit.model.errors import InputError

NAMES = ("perf", "resctrl", "cgroup", "procfs", "pressure", "valgrind")


def all_sources() -> list[Source]:
    """Return one of each."""
    return [Perf(), Resctrl(), Cgroup(), Procfs(), Pressure(), Valgrind()]


def offered() -> list[Offer]:
    """Return what each source can do on this host, why not, and what to do about it."""
    return [source.offer() for source in all_sources()]


def usable(names: Iterable[str] | None = None) -> list[Source]:
    """Return the named sources, which must all work here; without names, all that work and do not slow programs
    down."""
    sources = {source.name: source for source in all_sources()}
    if names is None:
        return [source for source in sources.values() if not source.slows_down and source.offer().available]
    wanted = set(names)
    for name in sorted(wanted):
        if name not in sources:
            raise InputError(f"there is no source {name!r} of counters", "", f"choose from {', '.join(NAMES)}")
        offer = sources[name].offer()
        if not offer.available:
            raise InputError(
                f"the source {name!r} does not work here: {offer.reason}", "", offer.advice or "leave it out"
            )
    return [source for name, source in sources.items() if name in wanted]
