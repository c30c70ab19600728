"""Documents for the page: profiles of programs, predicted slowdowns between them, and the machine's variability.

It asks the policies for their predictions; it decides nothing and keeps no state.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.core.known_programs import all_known
from cohabit.core.mates.state import GroupState
from cohabit.live.api.page.documents import (
    Counters,
    Coupling,
    Mate,
    MateGroup,
    Mates,
    Matrix,
    PassedOver,
    Predictions,
    Program,
    Programs,
    Verdict,
)
from cohabit.live.api.page.documents import VariabilityGate as GateDocument
from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.job import WORKLOAD_TYPES, Job
from cohabit.model.peer import NEVER, RUNNING
from cohabit.model.profile import SHARED, Profile, Tenant, classify
from cohabit.model.telemetry import Window
from cohabit.model.units import FOREVER, SECOND
from cohabit.policy.degradation import Degradations, ProfiledPairs
from cohabit.policy.exploration import Trials
from cohabit.policy.gate.variability import ModelJudge, VariabilityGate
from cohabit.predict.variability_data import CLASSES, TYPE_COLUMNS

MOST_PROGRAMS = 40  # rows and columns of the matrix
MOST_COUNTERS = 60


# ---- programs -------------------------------------------------------------------------------------------------------


def programs(core: SchedulerCore, owner: str | None) -> Programs:
    """Return every program with its measurements and the progress of its exploration; owners by number.

    `owner`: only the shared profiles and those of this user; None: of all users.
    """
    view = core.view(0)
    group = core.state.cluster.groups[0]
    trials = getattr(core.policies.placer, "trials", None)
    found: list[Program] = []
    for (name, profile_owner), known in visible(core, owner).items():
        under_way = sorted(view.trials_of(name, profile_owner))
        found += [program_view(one, group, trials, under_way) for _, one in sorted(known.items())]
    return {"programs": found, "learns": trials is not None, "ways": group.ways, "variation": []}


def visible(core: SchedulerCore, owner: str | None) -> dict[tuple[str, str], Mapping[int, Profile]]:
    """Return the profiles that this owner may see, by program and owner; None: all."""
    found = sorted(all_known(core.state).items(), key=lambda one: one[0])
    return {key: known for key, known in found if known and (owner is None or key[1] in (SHARED, owner))}


def program_view(profile: Profile, group: NodeGroup, trials: Trials | None, under_way: Iterable[Any]) -> Program:
    """Return one profile as a document."""
    kind = classify(profile, group)
    due = None
    if trials is not None:
        job = Job(profile.program or "program", SECOND, program=profile.program, processes=profile.processes)
        due = trials.next_for(job, profile, group.cores, ())
    return {
        "program": profile.program,
        "owner": profile.owner,
        "processes": profile.processes,
        "class": kind.kind,
        "why": kind.why,
        "ideal_scale": kind.ideal_scale,
        "constraint": kind.constraint,
        "provenance": profile.provenance,
        "complete_scales": profile.usable_scales,
        "under_way": [list(one) for one in under_way],
        "planned_scales": list(trials.scales) if trials is not None else [],
        "next_trial": None if due is None else {"scale": due.scale, "purpose": due.purpose},
        "scales": [
            {
                "scale": one.scale,
                "time_s": one.time_s or None,
                "samples": one.samples,
                "ipc": _curve(one.ipc),
                "bandwidth_gbs": _curve(one.bandwidth_gbs),
                "miss_rate": _curve(one.miss_rate),
                "communication": one.communication if one.communication >= 0 else None,
            }
            for one in profile.scales
        ],
    }


def _curve(curve: Curve | None) -> list[list[float]] | None:
    return None if curve is None else [list(curve.ways), list(curve.values)]


# ---- predictions ----------------------------------------------------------------------------------------------------


def predictions(core: SchedulerCore, now_us: int, owner: str | None) -> Predictions:
    """Return the predicted slowdowns, the variability gates and the counters; `owner` as in `programs`."""
    known = visible(core, owner)
    judge = getattr(core.policies.placer, "degradations", None)
    gates = [variability(gate, core) for gate in core.policies.gates if isinstance(gate, VariabilityGate)]
    looked_at = {name for gate in gates for name in gate["looks_at"]}
    return {
        "matrix": matrix(known, core.state.cluster.groups[0], judge),
        "gates": gates,
        "counters": counters(core.state.window, now_us, looked_at),
    }


def matrix(
    known: Mapping[tuple[str, str], Mapping[int, Profile]], group: NodeGroup, judge: Degradations | None
) -> Matrix | None:
    """Return by how many percent each program slows beside each other one; None: fewer than two are known."""
    names = sorted(known)[:MOST_PROGRAMS]
    if len(names) < 2:
        return None
    tenants = []
    for name in names:
        profile = known[name][min(known[name], key=lambda count: (-known[name][count].usable_scales, count))]
        cores = max(min(profile.processes, group.cores // 2), 1)
        tenants.append(Tenant(name[0], cores, 1, 0, 0.0, cores / max(profile.processes, 1), profile))
    asked = judge if judge is not None else ProfiledPairs()
    percent = np.asarray(asked.between(tenants, group), float)
    rows = [[None if not np.isfinite(cell) else round(float(cell), 2) for cell in row] for row in percent]
    return {
        "programs": [program for program, _ in names],
        "owners": [owner for _, owner in names],
        "percent": rows,
        "by": type(asked).__name__,
        "left_out": len(known) - len(names),
    }


def variability(gate: VariabilityGate, core: SchedulerCore) -> GateDocument:
    """Return a gate's current verdict on each workload type, and its tallies so far."""
    memory: dict[str, Any] = core.state.memory.get(gate.name, {})
    tallies = {key: value for key, value in memory.items() if isinstance(value, int)}
    window, now, looks_at, missing = core.state.window, list[Verdict](), list[str](), list[str]()
    if isinstance(gate.judge, ModelJudge):
        kept = [name for name in gate.judge.model.kept if name not in TYPE_COLUMNS]
        looks_at = list(dict.fromkeys(name.rpartition(".")[0] for name in kept))
    if isinstance(gate.judge, ModelJudge) and window is not None:
        binding = gate.judge.model.bind(window.feature_names)
        for kind in WORKLOAD_TYPES:
            verdict = binding.judge(window.of_all_nodes, kind)
            if verdict.missing:
                missing = list(verdict.missing)
                continue
            now.append(
                {
                    "workload_type": kind,
                    "label": CLASSES[verdict.label],
                    "probability": float(verdict.probability[verdict.label]),
                    "slowdown": float(verdict.slowdown),
                }
            )
    waiting: list[PassedOver] = [
        {"job": name, "skips": about["skips"]} for name, about in memory.get("jobs", {}).items() if about.get("skips")
    ]
    return {
        "gate": gate.name,
        "labels": list(gate.labels),
        "skip_threshold": gate.skip_threshold,
        "tallies": tallies,
        "without_data": memory.get("why_without_data", ""),
        "now": now,
        "passed_over": waiting[:100],
        "looks_at": looks_at,
        "missing": missing,
    }


def counters(window: Window | None, now_us: int, looked_at: Container[str]) -> Counters | None:
    """Return the newest counters over all nodes, first those a gate reads; None: there is no telemetry."""
    if window is None:
        return None
    features, names = window.of_all_nodes, window.feature_names
    value = dict(zip(names, features.tolist(), strict=True))
    rows: list[list[str | float | bool | None]] = []
    for name in sorted(window.counters, key=lambda name: name not in looked_at)[:MOST_COUNTERS]:
        cells = [value.get(f"{name}.{stat}") for stat in ("min", "mean", "max")]
        known = [None if cell is None or not np.isfinite(cell) else cell for cell in cells]
        rows.append([name, *known, name in looked_at])
    return {
        "at": window.end_us / SECOND,
        "age_s": (now_us - window.end_us) / SECOND,
        "rows": rows,
        "left_out": max(len(window.counters) - MOST_COUNTERS, 0),
    }


# ---- domains --------------------------------------------------------------------------------------------------------


def domains(core: SchedulerCore, owner: int | None, now_us: int) -> Coupling | None:
    """Return the jobs with mates in other domains: holds, leases and mates; None: this domain has no peers."""
    about, state = core.state.coupled, core.state
    if about is None:
        return None
    groups: list[MateGroup] = []
    for name, one in about.protocol.groups.items():
        job_id = one.group.job(about.protocol.domain)
        row = state.rows.get(job_id)
        if owner is not None and (row is None or state.spec(row).user != owner):
            continue
        mate, record = about.jobs.get(job_id), one.record
        stands = columns.STATE_NAMES[state.jobs[columns.STATE, row]] if row is not None else "over"
        groups.append(
            {
                "group": name,
                "job": job_id,
                "state": stands,
                "phase": record.phase,
                "attempt": record.attempt,
                "coordinator": record.coordinator,
                "lease_end_at": _at(record.fuse_us if record.phase == RUNNING else record.lease_end_us),
                "start_at": _at(record.start_at_us),
                "ready_since": _at(one.ready_since_us),
                "failures": one.failures,
                "holds_since": None if mate is None else _at(mate.first_hold_us),
                "yields": 0 if mate is None else mate.yields,
                "nodes": sum(count for _, count in state.ranges_of(row)) if row is not None else 0,
                "mates": _mates(one, now_us),
            }
        )
    scheme = about.scheme
    return {
        "domain": about.protocol.domain,
        "peers": list(about.protocol.peers),
        "scheme": scheme.scheme,
        "enabled": scheme.enabled,
        "deadlock": about.deadlock,
        "release_s": scheme.release_us / SECOND,
        "most_held": scheme.most_held,
        "groups": sorted(groups, key=lambda one: one["group"]),
    }


def mates_of(core: SchedulerCore, job_id: str, now_us: int) -> Mates | None:
    """Return the group of a job and the state of its mates; None: it has none, or ended long ago."""
    about = core.state.coupled
    job = None if about is None else about.jobs.get(job_id)
    one = None if about is None or job is None else about.protocol.groups.get(job.group)
    return None if one is None or job is None else {"group": job.group, "mates": _mates(one, now_us)}


def _mates(one: GroupState, now_us: int) -> list[Mate]:
    return [
        {
            "domain": domain,
            "job": one.group.job(domain),
            "phase": view.phase,
            "heard_s": None if view.heard_us == NEVER else (now_us - view.heard_us) / SECOND,
        }
        for domain, view in one.views.items()
    ]


def _at(us: int) -> float | None:
    return None if us in (NEVER, FOREVER) else us / SECOND
