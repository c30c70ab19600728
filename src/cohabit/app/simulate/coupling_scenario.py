"""Check the tables of a scenario with several domains: expand short forms, refuse contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cohabit.app.scenario.tables import (
    ClusterConfig,
    CouplingConfig,
    DomainConfig,
    JobsConfig,
    PolicyConfig,
    Scenario,
    TroubleConfig,
)
from cohabit.model.errors import InputError
from cohabit.model.group import WHEN_DEAD, Window, start_offsets
from cohabit.model.peer import MOST_MEMBERS
from cohabit.model.scheme import SCHEMES
from cohabit.model.units import microseconds
from cohabit.policy.registry import BUNDLES
from cohabit.sim.streams import stream
from cohabit.sim.trouble import Trouble
from cohabit.trace.pairing import PAIRINGS, PROPORTION, VICINITY

CANCEL, REFUSE, DEAD = "cancel", "refuse", "dead"
OF_ONE_CLUSTER = ("cluster", "jobs", "policy")
Part = tuple[str, ClusterConfig, JobsConfig, PolicyConfig]  # its place in the file, and its tables


def spelled_out(data: dict[str, Any]) -> dict[str, Any]:
    """Return the same data with a domain's short forms expanded: a number of nodes, a file of jobs, a bundle."""
    domains = data.get("domain")
    if not isinstance(domains, list):
        return data
    return data | {"domain": [_spelled_out(one) if isinstance(one, dict) else one for one in domains]}


def _spelled_out(domain: dict[str, Any]) -> dict[str, Any]:
    cluster, jobs, policy = (domain.get(key) for key in OF_ONE_CLUSTER)
    long: dict[str, Any] = {}
    if isinstance(cluster, int) and not isinstance(cluster, bool):
        long["cluster"] = {"nodes": cluster}
    if isinstance(jobs, str):
        long["jobs"] = {"file" if ".csv" in jobs else "trace": jobs}
    if isinstance(policy, str):
        long["policy"] = {"name": policy}
    return domain | long


def check_domains(scenario: Scenario, where: str) -> list[Part]:
    """Return the tables of every domain, or an empty list if there are none; refuse contradictions."""
    domains = scenario.domain
    if not domains:
        if scenario.coupling != CouplingConfig():
            raise InputError("[coupling] has no domains to couple", where, "add [[domain]] tables, or leave it out")
        return []
    usual = Scenario()
    for key in OF_ONE_CLUSTER:
        if getattr(scenario, key) != getattr(usual, key):
            raise InputError(f"has both [{key}] and [[domain]]", where, f"move {key} into the domains")
    if scenario.limit:
        raise InputError("[[limit]] does not go with [[domain]]", where, "leave it out")
    if not 2 <= len(domains) <= MOST_MEMBERS:
        number = f"{len(domains)} domain" + ("s" if len(domains) > 1 else "")
        raise InputError(f"has {number}", where, f"give 2 to {MOST_MEMBERS} [[domain]] tables")
    names = [one.name for one in domains]
    for name in names:
        if not name or any(sign in name for sign in ":+/\\") or any(sign.isspace() for sign in name):
            raise InputError(f"domain.name = {name!r} cannot be used", where, "use letters, digits, - and _")
        if names.count(name) > 1:
            raise InputError(f"has two domains called {name!r}", where, "give each its own name")
    for one in domains:
        _check_scheme(one, where)
        for trouble in one.trouble:
            _check_trouble(trouble, f"{where}: domain {one.name}: trouble")
    _check_coupling(scenario.coupling, names, where)
    return [(f"domain {one.name}: ", one.cluster, one.jobs, one.policy) for one in domains]


def _check_scheme(domain: DomainConfig, where: str) -> None:
    place = f"domain {domain.name}: "
    if domain.scheme is not None and domain.scheme not in SCHEMES:
        raise InputError(f"{place}scheme = {domain.scheme!r} is unknown", where, f"use {', '.join(SCHEMES)}")
    if domain.max_held > 1:
        what = f"{place}max_held = {domain.max_held:g} is more than the whole machine"
        raise InputError(what, where, "give a share from 0 to 1")


def _check_trouble(trouble: TroubleConfig, where: str) -> None:
    about_jobs = trouble.what in (CANCEL, REFUSE)
    if not about_jobs and trouble.what != DEAD:
        raise InputError(f"what = {trouble.what!r} is unknown", where, f"use {CANCEL}, {REFUSE} or {DEAD}")
    if about_jobs != bool(trouble.job):
        raise InputError(f"what = {trouble.what!r} with job = {trouble.job!r}", where, "cancel and refuse name a job")
    if about_jobs != (trouble.until_s is None):
        raise InputError(f"what = {trouble.what!r} with or without until_s", where, "only dead has, and needs, an end")
    if trouble.until_s is not None and trouble.until_s <= trouble.at_s:
        raise InputError(f"until_s = {trouble.until_s:g} is not after at_s = {trouble.at_s:g}", where)


def trouble_of(domain: DomainConfig, numbers: Mapping[str, int], where: str) -> Trouble:
    """Return the trouble of a domain; `numbers`: the core's number of every job that can run."""
    jobs: dict[str, list[tuple[int, str]]] = {CANCEL: [], REFUSE: []}
    for one in domain.trouble:
        if one.what == DEAD:
            continue
        if one.job not in numbers:
            raise InputError(f"{one.what}s the unknown job {one.job}", f"{where}: trouble", "name one of its jobs")
        jobs[one.what].append((microseconds(one.at_s), str(numbers[one.job])))
    dead = [(microseconds(one.at_s), microseconds(one.until_s)) for one in domain.trouble if one.until_s is not None]
    return Trouble(tuple(jobs[CANCEL]), {job: at_us for at_us, job in jobs[REFUSE]}, tuple(dead))


def check_pairing(coupling: CouplingConfig, where: str) -> None:
    """Refuse an invalid way to choose mates."""
    choices = {"pairing": (coupling.pairing, PAIRINGS), "when_dead": (coupling.when_dead, WHEN_DEAD)}
    for key, (value, known) in choices.items():
        if value not in known:
            raise InputError(f"coupling.{key} = {value!r} is unknown", where, f"use {', '.join(known)}")
    proportion = coupling.proportion
    if proportion is not None and not 0 < proportion <= 1:
        what = f"coupling.proportion = {proportion:g} of the jobs is impossible"
        raise InputError(what, where, "give a number above 0 and at most 1")
    if coupling.pairing == PROPORTION and proportion is None:
        raise InputError('coupling.pairing = "proportion" needs coupling.proportion', where, "give 0.1, for example")
    if proportion is not None and coupling.pairing not in (PROPORTION, VICINITY):
        raise InputError(f"coupling.proportion has no effect with pairing {coupling.pairing!r}", where, "leave it out")
    if coupling.pairing == VICINITY and coupling.vicinity_s <= 0:
        raise InputError(f"coupling.vicinity_s = {coupling.vicinity_s:g} pairs no jobs", where, "120 is the paper's")


def _check_coupling(coupling: CouplingConfig, names: list[str], where: str) -> None:
    check_pairing(coupling, where)
    for key in ("loss", "duplicate"):
        if getattr(coupling, key) > 1:
            what = f"coupling.{key} = {getattr(coupling, key):g} is not between 0 and 1"
            raise InputError(what, where, "give 0 to 1")
    if coupling.overlap_s < 0 and coupling.overlap_s != -1:
        raise InputError(f"coupling.overlap_s = {coupling.overlap_s:g} is negative", where, "-1 is the whole run")
    windows = start_windows(coupling)
    for window in windows:
        for name in (window.first, window.second):
            if name not in names:
                raise InputError(
                    f"coupling.window names the unknown domain {name!r}", where, f"known are {', '.join(names)}"
                )
        if window.least_us > window.most_us:
            what = f"coupling.window from {window.first} to {window.second} ends before it begins"
            raise InputError(what, where, "least_s is at most most_s")
    start_offsets(names, windows, f"{where}: coupling.window")


def start_windows(coupling: CouplingConfig) -> tuple[Window, ...]:
    """Return the windows in which the domains' jobs start, one after the other."""
    return tuple(
        Window(one.first, one.second, microseconds(one.least_s), microseconds(one.most_s)) for one in coupling.window
    )


def domain_scenario(scenario: Scenario, domain: DomainConfig) -> Scenario:
    """Return one domain as a scenario: its tables, its own seed, and the common programs, world and faults."""
    seed = int(stream(scenario.seed, f"domain {domain.name}").integers(2**31))
    return msgspec.structs.replace(
        scenario,
        seed=seed,
        cluster=domain.cluster,
        jobs=domain.jobs,
        policy=domain.policy,
        domain=[],
        coupling=CouplingConfig(),
    )


def with_policy(domain: DomainConfig, **keys: Any) -> DomainConfig:
    """Return the domain under other policies; a bundle with a scheme overrides the domain's scheme."""
    policy = msgspec.structs.replace(domain.policy, **keys)
    brings = "scheme" in BUNDLES.get(str(keys.get("name")), ({}, None))[0]
    return msgspec.structs.replace(domain, policy=policy, scheme=None if brings else domain.scheme)
