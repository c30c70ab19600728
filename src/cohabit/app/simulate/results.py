"""The results of a simulation: columns in file order, the settings behind them and a digest of both."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario import policies as policy_names
from cohabit.app.simulate.preparation import Prepared
from cohabit.model.records import NEVER, REJECTED, NodeRanges, RunTable
from cohabit.model.workload import REJECTIONS
from cohabit.sim.journal import Journal
from cohabit.sim.machine.constants import calibration_hash


def ranges_of(owner: NDArray[np.int64], first: NDArray[np.int32], count: NDArray[np.int32], total: int) -> NodeRanges:
    by_job = np.argsort(owner, kind="stable")
    offsets = np.zeros(total + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=total), out=offsets[1:])
    return NodeRanges(offsets, first[by_job], count[by_job])


class ResultTable:
    """Result columns in file order, filled step by step."""

    def __init__(self, prepared: Prepared) -> None:
        total = len(prepared.workload)
        self.prepared = prepared
        self.start_us, self.end_us = np.full(total, NEVER), np.full(total, NEVER)
        self.nodes = np.zeros(total, np.int32)
        self.scale = np.zeros(total, np.int32)
        self.status = np.full(total, REJECTED, np.int8)
        self.reason = np.zeros(total, np.int32)
        self.reasons: list[str] = [""]
        for code, why in REJECTIONS.items():
            self.say(np.flatnonzero(prepared.rejection == code), why)

    def say(self, rows: NDArray[np.int64], reason: str) -> None:
        """Give these rows a reason."""
        if len(rows):
            if reason not in self.reasons:
                self.reasons.append(reason)
            self.reason[rows] = self.reasons.index(reason)

    def finish(self, journal: Journal, events: int, ranges: NodeRanges | None) -> RunTable:
        """Return the finished table."""
        prepared, ran = self.prepared, self.start_us != NEVER
        return RunTable(
            workload=prepared.workload,
            start_us=self.start_us,
            end_us=self.end_us,
            nodes=self.nodes,
            cores=np.where(ran, prepared.workload.processes, 0),
            scale=np.where(ran, np.maximum(self.scale, 1), 0).astype(np.int32),
            status=self.status,
            reason=self.reason,
            reasons=tuple(self.reasons),
            cluster_nodes=prepared.cluster.nodes,
            cluster_cores=prepared.cluster.cores,
            policy=policy_names.title(prepared.policies.names),
            seed=prepared.scenario.seed,
            events=events,
            node_ranges=ranges,
            settings=settings_of(prepared),
            journal_hash=journal.hash(),
            scenario_hash=scenario_hash(prepared),
        )


def settings_of(prepared: Prepared) -> dict[str, Any]:
    """Return the scenario as plain data, with the machine size; enough, with the jobs, to run it again."""
    data: dict[str, Any] = msgspec.to_builtins(prepared.scenario)
    if not prepared.scenario.cluster.group:
        data["cluster"]["nodes"] = prepared.cluster.nodes
    data["policy"] |= prepared.policies.names
    return data


def scenario_hash(prepared: Prepared) -> str:
    """Return a digest of everything that decides the outcome: the settings and the jobs, not their files."""
    settings = settings_of(prepared)
    settings["jobs"] = {}
    settings["programs"] = calibration_hash(prepared.programs.values()) if prepared.programs else ""
    digest = hashlib.blake2b(digest_size=16)
    for key in ("order", "backfill_order"):
        name = str(settings["policy"].get(key) or "")
        if name.endswith(".py"):
            settings["policy"][key] = "own"
            digest.update(Path(name).read_bytes())
    digest.update(msgspec.json.encode(settings, order="deterministic"))
    workload = prepared.workload
    columns = [workload.submit_us, workload.run_us, workload.limit_us, workload.processes, workload.user]
    if prepared.programs:
        columns.append(workload.program)
    for column in columns:
        digest.update(np.ascontiguousarray(column, "<i8").data)
    return digest.hexdigest()
