"""What the chosen policy needs and what a site has: one table, for `doctor --site` and for every door.

A policy states its needs (policy/needs.py); this module asks the host or the manager. An essential need that is not
met is an error, unless it is given up by name (`--without`): then the policy runs without it, and is called so.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from cohabit.agent.node.meter import USED as REPORTED
from cohabit.app.serve import machine
from cohabit.app.serve.serving import ServeConfig, policies_of
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.core.protocols import PolicySet
from cohabit.live.controller.place import Place
from cohabit.model.errors import InputError, unknown
from cohabit.model.features import MEAN, features, given_by, not_in_vocabulary
from cohabit.model.node_report import NodeMeters, lacks
from cohabit.model.profile import Profile
from cohabit.policy.degradation import some_of
from cohabit.policy.needs import (
    CHANNEL,
    COUNTERS,
    CURVES,
    MODEL,
    NAMES,
    OVERSUBSCRIPTION,
    PROFILES,
    RESCTRL,
    TELEMETRY,
    Need,
)

if TYPE_CHECKING:
    from cohabit.app.steer.site import SteeredSite
    from cohabit.backend.steered.shapes import Discovered

MET, UNMET, LEFT_OUT, DISPENSABLE = "met", "missing", "left out", "done without"
NOT_LEARNED, LEARN = "programs are not measured as they run", "learn = true in [policy], or give profiles with curves"
NODES_MEASURE = "a machine with resctrl and hardware counters, or profiles measured on one (`cohabit profiles export`)"
CANARY = "canary."  # how the columns of canaries begin
TRAIN_HERE = 'measure pairs and train with the counters of running jobs: sources = ["procfs"] in PROGRAMS.toml'
Config = TypeVar("Config", bound=ServeConfig)


class Has(NamedTuple):
    """What a site has of one thing: what was found, or what to do about it."""

    found: str
    remedy: str = ""  # empty: it is there


class Row(NamedTuple):
    """One line of the table."""

    need: str
    state: str
    found: str
    without: str  # what happens without it; empty: it is met
    remedy: str


class Offers(NamedTuple):
    """All that a site has for policies."""

    has: dict[str, Has]
    profiles: Sequence[Profile]
    columns: Collection[str]  # that its own meters write into profiles
    canaries: bool = False  # they are sent before starts
    canary_remedy: str = "train a model without canaries (docs/variability.md)"


def rows_of(policies: PolicySet, offers: Offers, without: Sequence[str] = ()) -> list[Row]:
    """Compare every need of these policies with what there is."""
    for name in without:
        if name not in NAMES:
            raise unknown("need", name, NAMES, "cohabit doctor --site SITE.toml")
    parts = (policies.placer, policies.partitioner, *policies.gates)
    return [_row(need, offers, without) for part in parts for need in getattr(part, "needs", ())]


def refuse_unmet(rows: Sequence[Row], policy: str, where: str) -> None:
    """Raise one sentence that names all essential needs that are not met."""
    unmet = [row for row in rows if row.state == UNMET]
    if unmet:
        what = "; ".join(f"{row.need}: {row.found}, so {row.without}" for row in unmet)
        without = " ".join(f"--without {row.need}" for row in unmet)
        fix = "; ".join(dict.fromkeys(row.remedy for row in unmet))
        raise InputError(
            f"policy {policy} needs what is missing here ({what})", where, f"{fix}; or do without: {without}"
        )


def _row(need: Need, offers: Offers, without: Sequence[str]) -> Row:
    has = _counters(need, offers) if need.name == COUNTERS else offers.has[need.name]
    if need.name == TELEMETRY and not has.remedy and not offers.canaries and (sung := _of_canaries(need.columns)):
        has = Has(f"no canary is sent before a start, and the model asks for {some_of(sung)}", offers.canary_remedy)
    if not has.remedy:
        return Row(need.name, MET, has.found, "", "")
    state = LEFT_OUT if need.name in without else UNMET if need.essential else DISPENSABLE
    return Row(need.name, state, has.found, need.without, has.remedy)


def _counters(need: Need, offers: Offers) -> Has:
    """Compare features with those of the known profiles and those that runs here will have."""
    strange = not_in_vocabulary(need.columns)
    if strange:
        return Has(f"no meter writes {some_of(strange)}", "measure pairs and train again (docs/colocation.md)")
    whole = [one for one in offers.profiles if features(one.at_scale(1)).keys() >= set(need.columns)]
    if whole:
        return Has(f"{len(whole)} of {len(offers.profiles)} profiles have all {len(need.columns)} columns")
    missing = [name for name in need.columns if name not in offers.columns]
    if not missing:
        return Has(f"runs here are measured with all {len(need.columns)} columns")
    beside = f", nor has one of {len(offers.profiles)} profiles" if offers.profiles else ""
    profiles = "give profiles that have them (`cohabit profile`, `cohabit profiles export FILE`; profiles = FILE)"
    otherwise = TRAIN_HERE if need.trained else "choose another policy (`cohabit policies`)"
    return Has(f"meters here do not write {some_of(missing)}{beside}", f"{profiles}, or {otherwise}")


def checked(config: Config, without: Sequence[str], where: str) -> Config:
    """Return the settings of a controller of this machine; refuse a policy whose needs cannot be met."""
    policies = policies_of(config)
    rows = rows_of(policies, offers_here(config, policies), without)
    refuse_unmet(rows, config.policy.name, where)
    return replace(config, without=left_out(rows))


def left_out(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the needs that the policy runs without because that was asked for."""
    return tuple(dict.fromkeys(row.need for row in rows if row.state == LEFT_OUT))


def offers_here(config: ServeConfig, policies: PolicySet) -> Offers:
    """Return what this machine has for a controller with these settings."""
    profiling = config.profiling
    profiles = known_profiles(config)
    measures = profiling is not None and profiling.measure and not policies.placer.exclusive
    cluster = machine.cluster_of(VirtualNodes(config.nodes), policies, config.oversubscribe)
    divides = config.cache == "on" and any(group.ways for group in cluster.groups)
    has = {
        PROFILES: _profiles(profiles, measures and config.policy.learn, "profiles = FILE in [profiling]"),
        CURVES: _curves(profiles, _curves_here(divides, measures and config.policy.learn)),
        RESCTRL: Has("mounted, and caches may be divided")
        if divides
        else Has("the cache cannot be divided here", "see `cohabit doctor`, and cache = in the site file"),
        MODEL: _model(config.policy.variability),
        TELEMETRY: Has("this machine's counters are reported")
        if config.telemetry is not None
        else Has("nothing reports counters of nodes", "add [telemetry] to the site file"),
        OVERSUBSCRIPTION: Has("jobs may share cores")
        if config.oversubscribe
        else Has("every core has one job", "oversubscribe = true in the site file"),
        CHANNEL: Has("running jobs are measured here")
        if measures
        else Has("running jobs are not measured", "measure = true in [profiling]"),
    }
    return Offers(has, profiles, live_columns() if measures else ())


def offers_of_cluster(site: SteeredSite, found: Discovered) -> Offers:
    """Return what a cluster under a resource manager has, as far as its site file and its manager say."""
    from cohabit.app.steer.steering import read_profiles

    profiles = stored(site.config) + (read_profiles(site.profiles) if site.profiles is not None else [])
    counted = given_by(REPORTED, (MEAN,)) if site.keys is not None else set[str]()
    orders = bool(site.table.orders)
    has = {
        PROFILES: _profiles(
            profiles, site.policy.learn, "learn = true in [policy], or profiles = FILE in the site file"
        ),
        CURVES: _curves(profiles, _curves_of_nodes(site) if site.policy.learn else Has(NOT_LEARNED, LEARN)),
        RESCTRL: Has("node daemons divide caches")
        if orders and site.node.ways
        else Has(
            "no daemon divides the caches of nodes",
            "give [node] ways and `orders` in the site file (docs/node-side.md)",
        ),
        MODEL: _model(site.policy.variability),
        TELEMETRY: Has("counters of nodes are reported")
        if site.telemetry is not None
        else Has(
            "nothing reports counters of nodes",
            "add [nodes], or [telemetry] with a source; or use a policy without a gate",
        ),
        OVERSUBSCRIPTION: shared_cores(site, found),
        CHANNEL: Has("running jobs are not measured here", "choose a [policy] partition that corrects nothing"),
    }
    remedy = "canary = true in [telemetry], or a model that is trained without them"
    if site.word != "slurm":
        return Offers(has, profiles, counted)
    return Offers(has, profiles, counted, site.telemetry is not None and site.telemetry.canary, remedy)


def _of_canaries(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name.startswith(CANARY)]


def canary_columns(policies: PolicySet) -> list[str]:
    """Return the columns of canaries that models of the gates ask for."""
    needs = [need for gate in policies.gates for need in getattr(gate, "needs", ())]
    return [name for need in needs if need.name == TELEMETRY for name in _of_canaries(need.columns)]


def shared_cores(site: SteeredSite, found: Discovered) -> Has:
    """Return whether two jobs may share a core under this manager."""
    if found.core_jobs >= max(site.policy.group_size, 2):
        return Has(f"{found.core_jobs} jobs may share a core (OverSubscribe)")
    remedy, jobs = "jobs that want fewer cores share nodes", max(site.policy.group_size, 2)
    if site.word == "slurm":
        remedy = f"in slurm.conf, PartitionName=... OverSubscribe=YES:{jobs}; then scontrol reconfigure"
    return Has("the resource manager gives every core to one job", remedy)


def known_profiles(config: ServeConfig) -> list[Profile]:
    """Return the profiles that a controller of this machine starts with."""
    from cohabit.app.measure.profiles import profiles_in

    named = "" if config.profiling is None else config.profiling.profiles
    return [one.profile for one in profiles_in(Path(named))[0]] + stored(config) if named else stored(config)


def stored(config: ServeConfig) -> list[Profile]:
    """Return the profiles of a controller's store; none if it is not there yet, or is another account's to open."""
    from cohabit.store.profiles import open_store

    where: str | Path = config.store or Place(config.place).profiles
    try:
        if "://" not in str(where) and Path(where).lstat().st_uid != os.geteuid():
            return []
        with open_store(where, create=False) as store:
            return store.profiles()
    except (OSError, InputError):  # the controller says so, and learns meanwhile
        return []


def live_columns() -> set[str]:
    """Return the columns that the meters of live runs write on this host."""
    from cohabit.agent.sensors import procfs
    from cohabit.agent.sensors.perf import Perf
    from cohabit.launcher.meter import HARDWARE

    counted = [name for name in Perf().offer().counters if name in HARDWARE]
    return given_by({"task_clock", *procfs.AMOUNTS, *procfs.LEVELS, *counted})


def _profiles(profiles: Sequence[Profile], learns: bool, key: str) -> Has:
    """`learns`: programs are measured as they run."""
    if profiles:
        return Has(f"{len({one.program for one in profiles})} programs are known")
    if learns:
        return Has("none yet; programs are measured as they run")
    return Has("none are known, and none are measured here", f"write {key} (`cohabit profiles export FILE`)")


def _curves(profiles: Sequence[Profile], measured: Has) -> Has:
    """Compare what runs here will give with the curves that are known already."""
    names = {one.program for one in profiles}
    counted = {one.program for one in profiles if any(scale.counted for scale in one.scales)}
    if not measured.remedy or not names or counted < names:
        beside = f"; {len(counted)} of {len(names)} programs have counted ones" if names else ""
        return measured._replace(found=measured.found + beside)
    return Has(f"{len(counted)} programs have counted curves")


def _curves_here(divides: bool, learns: bool) -> Has:
    """Return whether runs on this machine give curves."""
    if not learns:
        return Has(NOT_LEARNED, LEARN)
    columns = live_columns()
    ways, misses = 1 if divides else 0, "cache_misses_mean" in columns
    return _measured("this machine", lacks(NodeMeters(ways, "instructions_mean" in columns, misses or divides)))


def _curves_of_nodes(site: SteeredSite) -> Has:
    """Return whether the daemons of nodes give curves, as they last said themselves."""
    from cohabit.app.steer.service import node_meters

    if site.keys is None:
        return Has(
            "no daemon of a node reports", "add [nodes], and `cohabit node serve` on the nodes (docs/node-side.md)"
        )
    known = [(int(one["nodes"]), msgspec.convert(one["meters"], NodeMeters)) for one in node_meters(site.place)]
    if not known:
        return Has(
            "no daemon of a node has reported yet",
            "`cohabit node serve` on the nodes; then `cohabit doctor --site` says what they measure",
        )
    if site.node.ways and not site.table.orders:
        return Has("the daemons get no orders to step the cache", "`orders` in the site file (docs/node-side.md)")
    lacking = [(count, words) for count, meters in known if (words := lacks(meters))]
    if not lacking:
        return Has(f"the daemons of {sum(count for count, _ in known)} nodes measure them")
    count, words = max(lacking)
    return _measured(f"{count} of {sum(one for one, _ in known)} nodes that report", words)


def _measured(where: str, lacking: Sequence[str]) -> Has:
    return Has(f"on {where}: {'; '.join(lacking)}", NODES_MEASURE) if lacking else Has(f"{where} measures them")


def _model(name: str) -> Has:
    return Has(Path(name).name) if name else Has("none is named", "train one (`cohabit train`): variability = FILE")


def as_data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the table as plain data."""
    return [row._asdict() for row in rows]
