"""Explain why a job of a finished run waited: replay the run through the core, ask about the job at every decision."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app.serve.journals import load_run
from cohabit.app.simulate.simulation import Progress, public, run
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.protocols import Guarantor
from cohabit.model.command import Command, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event
from cohabit.model.records import NEVER, STATUS_NAMES


class _Found(Exception):
    """The job has started: the rest of the run is irrelevant."""


def explain_job(folder: Path, job_id: str, progress: Progress | None = None) -> dict[str, Any]:
    """Return the reasons of one job over time, each with the instant from which it held."""
    prepared, table = load_run(folder)
    matches = np.flatnonzero(table.workload.job_id.astype(str) == job_id)
    if len(matches) == 0:
        raise InputError(f"there is no job {job_id!r} in this run", str(folder), "see the first column of jobs.csv")
    row = int(matches[0])
    submit_us, start_us = int(table.workload.submit_us[row]), int(table.start_us[row])
    story: dict[str, Any] = {
        "job_id": job_id, "policy": table.policy, "status": STATUS_NAMES[table.status[row]],
        "submit_s": submit_us / 1e6, "start_s": None, "wait_s": None, "reasons": [], "overtaken_by": 0,
    }  # fmt: skip
    where = np.flatnonzero(prepared.rows == row)
    if len(where) == 0:
        story["summary"] = f"job {job_id} was rejected: {table.reasons[table.reason[row]]}"
        return story
    name = str(int(where[0]))

    def watch(now_us: int, events: list[Event], commands: list[Command], core: SchedulerCore) -> None:
        reason = why_waiting(core.state, prepared.policies, name, now_us)
        reason = public(reason, prepared)
        if reason and (not story["reasons"] or story["reasons"][-1]["reason"] != reason):
            story["reasons"].append({"at_s": now_us / 1e6, "reason": reason})
        started = any(isinstance(command, StartJob) and command.job_id == name for command in commands)
        if started and not isinstance(prepared.policies.partitioner, Guarantor):
            raise _Found  # otherwise actions during its run would be reported as well

    with contextlib.suppress(_Found):
        run(prepared, observe=watch, progress=progress)
    if start_us == NEVER:
        story["summary"] = f"job {job_id} never ran: {table.reasons[table.reason[row]]}"
        return story
    later = (table.workload.submit_us > submit_us) & (table.start_us != NEVER) & (table.start_us < start_us)
    story |= {"start_s": start_us / 1e6, "wait_s": (start_us - submit_us) / 1e6, "overtaken_by": int(later.sum())}
    waited = story["wait_s"]
    story["summary"] = (
        f"job {job_id} ({int(table.nodes[row])} nodes, {table.workload.limit_us[row] / 1e6:,.0f} s requested) waited "
        f"{waited:,.0f} s under {table.policy}" + ("" if waited else ": it started at once")
    )
    return story
