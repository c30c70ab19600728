"""Simulate several domains: each is prepared by itself, their jobs are linked as mates, and they run side by side.

The domains share nothing but messages: each is a world with its own core (sim/coupled.py). Jobs without mates go
through the same code as in a simulation of one cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from cohabit.app.scenario.policies import resolve
from cohabit.app.scenario.tables import CouplingConfig, DomainConfig, Scenario
from cohabit.app.simulate.coupling_scenario import domain_scenario, start_windows
from cohabit.app.simulate.preparation import Prepared, prepare
from cohabit.app.simulate.stepping import Stepper
from cohabit.core.protocols import Coupling
from cohabit.model.errors import InputError
from cohabit.model.group import Group, Member, Terms, make_group
from cohabit.model.records import RunTable
from cohabit.model.scheme import HOLD, Scheme
from cohabit.model.units import SECOND, microseconds
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.sim.coupled import CoupledWorlds, Link, fitting_terms
from cohabit.trace.pairing import COLUMN, NONE, VICINITY, Tie, by_column, by_proportion, by_vicinity

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PreparedDomains:
    """Everything loaded and checked, ready to run."""

    scenario: Scenario
    domains: dict[str, Prepared]
    ties: tuple[Tie, ...]
    groups: dict[str, dict[int, Group]]  # domain -> position in the order of submission -> its group
    link: Link
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CoupledRun:
    """The result: a table per domain, and the cycle of jobs that wait for each other at the end."""

    tables: dict[str, RunTable]
    ties: tuple[Tie, ...]
    deadlock: tuple[str, ...]
    messages: int


def scheme_of(domain: DomainConfig) -> Scheme:
    """Return the domain's scheme for mates elsewhere."""
    scheme = Scheme(
        enabled=domain.enabled, scheme=domain.scheme or str(resolve(domain.policy).get("scheme", HOLD)),
        least_hold_us=microseconds(domain.min_hold_s), release_us=microseconds(domain.release_s),
        most_held=domain.max_held, most_yields=domain.max_yields, raise_per_yield=domain.raise_per_yield,
        bounded_hold_us=microseconds(domain.bounded_hold_s),
    )  # fmt: skip
    scheme.check()
    return scheme


def link_of(coupling: CouplingConfig) -> Link:
    """Return the properties of the message link."""
    return Link(microseconds(coupling.latency_s), microseconds(coupling.jitter_s), coupling.loss, coupling.duplicate)


def terms_of(coupling: CouplingConfig, common_clock: bool) -> Terms:
    """Return the terms of all groups: derived from the link, unless the scenario says otherwise."""
    terms = fitting_terms(link_of(coupling), coupling.when_dead, common_clock)
    said: dict[str, int] = {"watch_us": round(coupling.overlap_s * SECOND) if coupling.overlap_s >= 0 else -1}
    if coupling.dead_after_s is not None:
        said["dead_after_us"] = microseconds(coupling.dead_after_s)
    if coupling.lease_s is not None:
        said["lease_us"] = microseconds(coupling.lease_s)
        said["ask_us"] = min(terms.ask_us, max(said["lease_us"] // 4, 1))
    return msgspec.structs.replace(terms, **said)


def prepare_domains(scenario: Scenario, workloads: Mapping[str, Workload] | None = None) -> PreparedDomains:
    """Load every domain and link their jobs; `workloads` replace those of the scenario, for studies."""
    domains: dict[str, Prepared] = {}
    notes: list[str] = []
    for rank, domain in enumerate(scenario.domain):
        given = None if workloads is None else workloads[domain.name]
        try:
            prepared = prepare(domain_scenario(scenario, domain), given)
        except InputError as error:
            where = f"domain {domain.name}: {error.where}" if error.where else f"domain {domain.name}"
            raise InputError(error.what, where, error.fix) from error
        scheme = scheme_of(domain)
        peers = tuple(other.name for other in scenario.domain if other is not domain)
        names = prepared.policies.names | {"scheme": scheme.scheme if scheme.enabled else NONE}
        policies = replace(prepared.policies, mates=Coupling(domain.name, rank, scheme, peers), names=names)
        domains[domain.name] = replace(prepared, policies=policies)
        notes += [f"{domain.name}: {text}" for text in prepared.notes]
    jobs = {name: replace(one.workload, rejection=one.rejection) for name, one in domains.items()}
    ties = _tied(scenario.coupling, jobs)
    alive = [tie for tie in ties if all(jobs[_name(scenario, at)].rejection[tie.rows[at]] == ACCEPTED
                                        for at in tie.domains())]  # fmt: skip
    if len(alive) < len(ties):
        notes.append(f"{len(ties) - len(alive):,} groups have a member that was rejected: the others start without it")
    if not alive and scenario.coupling.pairing != NONE:
        notes.append("no jobs belong together: every domain is by itself")
    groups = _groups(scenario, domains, alive)
    return PreparedDomains(scenario, domains, tuple(alive), groups, link_of(scenario.coupling), tuple(notes))


def _name(scenario: Scenario, place: int) -> str:
    return scenario.domain[place].name


def _tied(coupling: CouplingConfig, jobs: Mapping[str, Workload]) -> list[Tie]:
    if coupling.pairing == NONE:
        return []
    if coupling.pairing == COLUMN:
        return by_column(jobs)
    if coupling.pairing == VICINITY:
        return by_vicinity(jobs, microseconds(coupling.vicinity_s), coupling.proportion or 0.0)
    return by_proportion(jobs, coupling.proportion or 0.0)


def _groups(
    scenario: Scenario, domains: Mapping[str, Prepared], ties: list[Tie]
) -> dict[str, dict[int, Group]]:  # fmt: skip
    """Return every domain's groups, with the core's job ids: positions in the order of submission."""
    clocks = {domain.clock_offset_s for domain in scenario.domain}
    terms, windows = terms_of(scenario.coupling, len(clocks) == 1), start_windows(scenario.coupling)
    names = tuple(domains)
    numbers = {
        name: {int(row): number for number, row in enumerate(one.rows)} for name, one in domains.items()
    }  # fmt: skip
    found: dict[str, dict[int, Group]] = {name: {} for name in domains}
    for tie in ties:
        places = {names[at]: numbers[names[at]][tie.rows[at]] for at in tie.domains()}
        limits = {names[at]: int(domains[names[at]].workload.limit_us[tie.rows[at]]) for at in tie.domains()}
        members = [Member(name, str(number), limits[name]) for name, number in places.items()]
        concerned = tuple(one for one in windows if one.first in places and one.second in places)
        group = make_group(tie.name, members, terms, concerned, names)
        for name, number in places.items():
            found[name][number] = group
    return found


def run_domains(
    prepared: PreparedDomains, *, record_nodes: bool = True, progress: Progress | None = None
) -> CoupledRun:
    """Simulate all domains on one true clock."""
    steppers = {
        name: Stepper(one, keep_segments=record_nodes, mates=prepared.groups[name])
        for name, one in prepared.domains.items()
    }
    offsets = {domain.name: microseconds(domain.clock_offset_s) for domain in prepared.scenario.domain}
    worlds = {name: stepper.world for name, stepper in steppers.items()}
    coupled = CoupledWorlds(worlds, prepared.link, prepared.scenario.seed, offsets)
    total = sum(len(one.rows) for one in prepared.domains.values())

    def tell(_: int) -> None:
        if progress is not None:
            progress(min(sum(world.starts for world in worlds.values()), total), total)

    coupled.run(None if progress is None else tell)
    tables = {
        name: _with_mates(prepared, name, at, steppers[name]) for at, name in enumerate(prepared.domains)
    }  # fmt: skip
    return CoupledRun(tables, prepared.ties, tuple(coupled.deadlock), coupled.messages)


def _with_mates(prepared: PreparedDomains, name: str, place: int, stepper: Stepper) -> RunTable:
    """Return the table of a domain with the costs of mates as additional columns."""
    table, _ = stepper.result()
    total, rows = len(table), prepared.domains[name].rows
    group = np.full(total, None, object)
    for tie in prepared.ties:
        if place in tie.domains():
            group[tie.rows[place]] = tie.name
    ready_s, held_s, yields = np.full(total, np.nan), np.zeros(total), np.zeros(total, np.int64)
    for number, row in enumerate(rows.tolist()):
        outcome = stepper.world.outcomes[str(number)]
        if group[row] is not None:
            ready_us = outcome.first_ready_us if outcome.first_ready_us is not None else outcome.start_us
            ready_s[row] = np.nan if ready_us is None else ready_us / SECOND
            held_s[row], yields[row] = outcome.held_us / SECOND, outcome.yields
    mates = {
        "domain": np.full(total, name, object), "group": group, "first_ready_s": ready_s, "held_s": held_s,
        "yields": yields,
    }  # fmt: skip
    workload = replace(table.workload, extra=table.workload.extra | mates)
    whole = msgspec.to_builtins(prepared.scenario)
    for data in whole["domain"]:
        data["cluster"]["nodes"] = prepared.domains[data["name"]].cluster.nodes if not data["cluster"]["group"] else 0
    return replace(table, workload=workload, seed=prepared.scenario.seed, settings=whole,
                   scenario_hash=_hash(prepared, whole, table.scenario_hash))  # fmt: skip


def _hash(prepared: PreparedDomains, whole: dict[str, object], own: str) -> str:
    """Return a digest of a domain's settings and jobs, the coupling, and which jobs are mates."""
    digest = hashlib.blake2b(own.encode(), digest_size=16)
    for part in (whole["coupling"], [msgspec.to_builtins(scheme_of(one)) for one in prepared.scenario.domain]):
        digest.update(msgspec.json.encode(part, order="deterministic"))
    digest.update(msgspec.json.encode([tie.rows for tie in prepared.ties]))
    return digest.hexdigest()
