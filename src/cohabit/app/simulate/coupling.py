"""Simulate several domains: each is prepared by itself, their jobs are linked as mates, and they run side by side.

The domains share nothing but messages: each is a world with its own core (sim/coupled.py). Jobs without mates go
through the same code as in a simulation of one cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from cohabit.app.scenario.policies import resolve
from cohabit.app.scenario.tables import CouplingConfig, DomainConfig, PolicyConfig, Scenario, SchemeConfig
from cohabit.app.simulate.coupling_scenario import CANCEL, domain_scenario, start_windows, trouble_of
from cohabit.app.simulate.preparation import Prepared, prepare
from cohabit.app.simulate.stepping import Observer, Stepper
from cohabit.core.mates.deadlock import describe
from cohabit.core.protocols import Coupling
from cohabit.model.errors import InputError
from cohabit.model.group import Group, Member, Terms, make_group
from cohabit.model.records import RunTable
from cohabit.model.scheme import HOLD, Scheme
from cohabit.model.units import DAY, SECOND, microseconds
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.sim.coupled import CoupledWorlds, Link, fitting_terms
from cohabit.sim.journal import Journal
from cohabit.sim.trouble import Trouble
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
    trouble: dict[str, Trouble]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CoupledRun:
    """The result: a table per domain, and the cycle of jobs that wait for each other at the end."""

    tables: dict[str, RunTable]
    ties: tuple[Tie, ...]
    deadlock: tuple[str, ...]
    messages: int
    deadlock_words: str = ""
    journals: dict[str, Journal] = field(default_factory=dict)  # only if they were asked for


def scheme_of(domain: SchemeConfig, policy: PolicyConfig) -> Scheme:
    """Return the domain's scheme for mates elsewhere."""
    scheme = Scheme(
        enabled=domain.enabled,
        scheme=domain.scheme or str(resolve(policy).get("scheme", HOLD)),
        least_hold_us=microseconds(domain.min_hold_s),
        release_us=microseconds(domain.release_s),
        most_held=domain.max_held,
        most_yields=domain.max_yields,
        raise_per_yield=domain.raise_per_yield,
        bounded_hold_us=microseconds(domain.bounded_hold_s),
        on_deadlock=domain.on_deadlock,
    )
    scheme.check()
    return scheme


def link_of(coupling: CouplingConfig) -> Link:
    """Return the properties of the message link."""
    return Link(microseconds(coupling.latency_s), microseconds(coupling.jitter_s), coupling.loss, coupling.duplicate)


def terms_of(coupling: CouplingConfig, common_clock: bool, steady: bool = True) -> Terms:
    """Return the terms of all groups: derived from the link, unless the scenario says otherwise. `steady`: no
    controller is ever dead, no start refused."""
    terms = fitting_terms(link_of(coupling), coupling.when_dead, common_clock, steady)
    said: dict[str, int] = {"watch_us": round(coupling.overlap_s * SECOND) if coupling.overlap_s >= 0 else -1}
    if coupling.lease_s is not None:
        said["ask_us"] = min(terms.ask_us, max(microseconds(coupling.lease_s) // 4, 1))
    for key in ("lead", "lease", "ask", "retry", "dead_after"):
        if (stated_s := getattr(coupling, f"{key}_s")) is not None:
            said[f"{key}_us"] = microseconds(stated_s)
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
        scheme = scheme_of(domain, domain.policy)
        peers = tuple(other.name for other in scenario.domain if other is not domain)
        names = prepared.policies.names | {"scheme": scheme.scheme if scheme.enabled else NONE}
        policies = replace(prepared.policies, mates=Coupling(domain.name, rank, scheme, peers), names=names)
        domains[domain.name] = replace(prepared, policies=policies)
        notes += [f"{domain.name}: {text}" for text in prepared.notes]
    jobs = {name: replace(one.workload, rejection=one.rejection) for name, one in domains.items()}
    ties = _tied(scenario.coupling, jobs)
    accepted = [one.rejection == ACCEPTED for one in jobs.values()]
    alive = [tie for tie in ties if all(accepted[at][tie.rows[at]] for at in tie.domains())]
    if len(alive) < len(ties):
        notes.append(f"{len(ties) - len(alive):,} groups have a member that was rejected: the others start without it")
    if not alive and scenario.coupling.pairing != NONE:
        notes.append("no jobs belong together: every domain is by itself")
    groups = _groups(scenario, domains, alive)
    link = link_of(scenario.coupling)
    trouble = {one.name: _trouble_of(one, domains[one.name]) for one in scenario.domain}
    return PreparedDomains(scenario, domains, tuple(alive), groups, link, trouble, tuple(notes))


def _trouble_of(domain: DomainConfig, prepared: Prepared) -> Trouble:
    names = prepared.workload.job_id[prepared.rows].tolist()
    return trouble_of(domain, {str(name): number for number, name in enumerate(names)}, f"domain {domain.name}")


def _tied(coupling: CouplingConfig, jobs: Mapping[str, Workload]) -> list[Tie]:
    if coupling.pairing == NONE:
        return []
    if coupling.pairing == COLUMN:
        return by_column(jobs)
    if coupling.pairing == VICINITY:
        return by_vicinity(jobs, microseconds(coupling.vicinity_s), coupling.proportion or 0.0)
    return by_proportion(jobs, coupling.proportion or 0.0)


def _groups(scenario: Scenario, domains: Mapping[str, Prepared], ties: list[Tie]) -> dict[str, dict[int, Group]]:
    """Return every domain's groups, with the core's job ids: positions in the order of submission."""
    clocks = {domain.clock_offset_s for domain in scenario.domain}
    steady = all(one.what == CANCEL for domain in scenario.domain for one in domain.trouble)
    terms, windows = terms_of(scenario.coupling, len(clocks) == 1, steady), start_windows(scenario.coupling)
    names = tuple(domains)
    numbers = {name: {int(row): number for number, row in enumerate(one.rows)} for name, one in domains.items()}
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


def clock_offsets(prepared: PreparedDomains) -> dict[str, int]:
    """Return what each domain's clock shows more than true time. No clock shows less than 0, where the core has no
    instants: if one would, all go so many whole days ahead (releases stay at their time of day)."""
    offsets = {domain.name: microseconds(domain.clock_offset_s) for domain in prepared.scenario.domain}
    firsts = [int(one.workload.submit_us[one.rows].min()) + offsets[name] for name, one in prepared.domains.items()]
    ahead_us = max(-(min(firsts) // DAY), 0) * DAY
    return {name: offset_us + ahead_us for name, offset_us in offsets.items()}


def run_domains(
    prepared: PreparedDomains,
    *,
    record_nodes: bool = True,
    keep_journals: bool = False,
    progress: Progress | None = None,
    observe: Mapping[str, Observer] | None = None,
) -> CoupledRun:
    """Simulate all domains on one true clock; `observe`: sees every step of a domain, by its name."""
    watched = observe or {}
    steppers = {
        name: Stepper(one, observe=watched.get(name), keep_segments=record_nodes, mates=prepared.groups[name])
        for name, one in prepared.domains.items()
    }
    offsets = clock_offsets(prepared)
    worlds = {name: stepper.world for name, stepper in steppers.items()}
    for name, world in worlds.items():
        world.suffer(prepared.trouble[name].anew())
    coupled = CoupledWorlds(worlds, prepared.link, prepared.scenario.seed, offsets)
    total = sum(len(one.rows) for one in prepared.domains.values())

    def tell(_: int) -> None:
        if progress is not None:
            progress(min(sum(world.starts for world in worlds.values()), total), total)

    coupled.run(None if progress is None else tell)
    results = {name: stepper.result() for name, stepper in steppers.items()}
    tables = {
        name: _with_mates(prepared, name, at, steppers[name], results[name][0])
        for at, name in enumerate(prepared.domains)
    }
    journals = {name: journal for name, (_, journal) in results.items()} if keep_journals else {}
    words = describe(coupled.deadlock, coupled.reports()[0])
    return CoupledRun(tables, prepared.ties, tuple(coupled.deadlock), coupled.messages, words, journals)


def _with_mates(prepared: PreparedDomains, name: str, place: int, stepper: Stepper, table: RunTable) -> RunTable:
    """Return the table of a domain with the costs of mates as additional columns."""
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
        "domain": np.full(total, name, object),
        "group": group,
        "first_ready_s": ready_s,
        "held_s": held_s,
        "yields": yields,
    }
    workload = replace(table.workload, extra=table.workload.extra | mates)
    whole = msgspec.to_builtins(prepared.scenario)
    for data in whole["domain"]:
        data["cluster"]["nodes"] = prepared.domains[data["name"]].cluster.nodes if not data["cluster"]["group"] else 0
    return replace(
        table,
        workload=workload,
        seed=prepared.scenario.seed,
        settings=whole,
        scenario_hash=_hash(prepared, whole, table.scenario_hash),
    )


def _hash(prepared: PreparedDomains, whole: dict[str, object], own: str) -> str:
    """Return a digest of a domain's settings and jobs, the coupling, and which jobs are mates."""
    digest = hashlib.blake2b(own.encode(), digest_size=16)
    for part in (
        whole["coupling"],
        [msgspec.to_builtins(scheme_of(one, one.policy)) for one in prepared.scenario.domain],
    ):
        digest.update(msgspec.json.encode(part, order="deterministic"))
    digest.update(msgspec.json.encode([tie.rows for tie in prepared.ties]))
    return digest.hexdigest()
