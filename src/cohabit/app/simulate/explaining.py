"""Explain why a job of a finished run waited: simulate the run again, ask the core about the job at every decision."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app.simulate.coupling import CoupledRun, PreparedDomains, run_domains
from cohabit.app.simulate.finished import ONLY, Finished, FinishedDomain, load_run
from cohabit.app.simulate.simulation import Progress, public, run
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.explain_running import how_it_runs
from cohabit.model.command import Command, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobStarted
from cohabit.model.group import Group
from cohabit.model.records import NEVER, STATUS_NAMES
from cohabit.model.units import SECOND, counted, duration, span, without_durations


class _Found(Exception):
    """The job has started: the rest of the run is irrelevant."""


def explain_job(folder: Path, job: str, progress: Progress | None = None) -> dict[str, Any]:
    """Return the reasons of one job over time, each with the instant from which it held.

    In a run of several domains a job is called DOMAIN:JOB; its id alone will do if no other domain has it."""
    finished = load_run(folder)
    name, row = _find(finished, job, folder)
    domain = finished.domains[name]
    story = _begun(domain, row, name)
    where = np.flatnonzero(domain.prepared.rows == row)
    if len(where) == 0:
        story["summary"] = f"job {story['job_id']} was rejected: {domain.table.reasons[domain.table.reason[row]]}"
        return story
    number, coupled = int(where[0]), finished.coupled
    watch = _Watch(domain, str(number), story, lambda text: public(text, domain.prepared))
    again: CoupledRun | None = None
    with contextlib.suppress(_Found):
        if coupled is None:
            run(domain.prepared, observe=watch, progress=progress)
        else:
            watch.reword = lambda text: _public_mates(text, coupled, name)
            again = run_domains(coupled, record_nodes=False, progress=progress, observe={name: watch})
    _conclude(story, domain, row)
    if finished.coupled is not None:
        _add_mates(story, finished, domain.groups.get(number), name, row)
        if story["start_s"] is None and again is not None and again.deadlock:
            story["deadlock"] = again.deadlock_words
            story["summary"] += f"; in the end groups waited for each other's nodes: {again.deadlock_words}"
    return story


def _find(finished: Finished, job: str, folder: Path) -> tuple[str, int]:
    """Return the domain of a job and its row there; refuse a name that is unknown or ambiguous."""
    names = list(finished.domains)
    rows = {name: _row_of(finished.domains[name], job) for name in names}
    found = [(name, row) for name, row in rows.items() if row is not None]
    if len(found) == 1:
        return found[0]
    if found:
        choices = [f"{name}:{job}" for name, _ in found]
        raise InputError(f"several domains have a job {job!r}", str(folder), f"say {' or '.join(choices)}")
    if finished.coupled is None:
        raise InputError(f"there is no job {job!r} in this run", str(folder), "see the first column of jobs.csv")
    name, colon, own = job.partition(":")
    if colon and name not in names:
        raise InputError(f"there is no domain {name!r} in this run", str(folder), f"it has {', '.join(names)}")
    row = _row_of(finished.domains[name], own) if colon else None
    if row is None:
        what = f"there is no job {own!r} in domain {name}" if colon else f"there is no job {job!r} in this run"
        fix = f"call it DOMAIN:JOB, as in jobs.csv; the domains are {', '.join(names)}"
        raise InputError(what, str(folder), fix)
    return name, row


def _row_of(domain: FinishedDomain, job: str) -> int | None:
    matches = np.flatnonzero(domain.table.workload.job_id.astype(str) == job)
    return int(matches[0]) if len(matches) else None


def _begun(domain: FinishedDomain, row: int, name: str) -> dict[str, Any]:
    table = domain.table
    job_id = str(table.workload.job_id[row])
    return {
        "job_id": job_id if name == ONLY else f"{name}:{job_id}",
        "policy": table.policy,
        "status": STATUS_NAMES[table.status[row]],
        "submit_s": int(table.workload.submit_us[row]) / SECOND,
        "start_s": None,
        "wait_s": None,
        "reasons": [],
        "how": "",  # how it ran, when it started
        "overtaken_by": 0,
    }


@dataclass
class _Watch:
    """Asks about one job after every step of its core."""

    domain: FinishedDomain
    name: str
    story: dict[str, Any]
    reword: Callable[[str], str]
    _kinds: list[str] = field(default_factory=list, init=False)

    def __call__(self, now_us: int, events: list[Event], commands: list[Command], core: SchedulerCore) -> None:
        """Note the reason if it is another one than before; of several at one instant the last."""
        if not commands and all(isinstance(event, JobStarted) for event in events):
            return
        policies, at_s, reasons = self.domain.prepared.policies, now_us / SECOND, self.story["reasons"]
        reason = why_waiting(core.state, policies, self.name, now_us + self.domain.clock_offset_us, names_all=True)
        if reasons and reasons[-1]["at_s"] == at_s:
            reasons.pop()
            self._kinds.pop()
        kind = without_durations(reason) if "mates" in reason else reason
        if reason and self._kinds[-1:] != [kind]:
            reasons.append({"at_s": at_s, "reason": self.reword(reason)})
            self._kinds.append(kind)
        started = any(isinstance(command, StartJob) and command.job_id == self.name for command in commands)
        if started:
            how = how_it_runs(core.state, policies, self.name, now_us + self.domain.clock_offset_us, names_all=True)
            self.story["how"] = self.reword(how)
        if started and policies.guarantor is None:
            raise _Found  # otherwise actions during its run would be reported as well


def _public_mates(text: str, coupled: PreparedDomains, name: str) -> str:
    """Return a sentence of a domain's core with the job ids of the tables, its mates' as well."""

    def called(found: re.Match[str]) -> str:
        mate = coupled.domains[found[1]]
        return f"{found[1]}:{mate.workload.job_id[mate.rows[int(found[2])]]}"

    names = "|".join(re.escape(one) for one in coupled.domains)
    # names of groups may have the form DOMAIN:JOB, too, but their state is never said
    return re.sub(rf"(?<![\w+:-])({names}):(\d+)(?= (?:is|could) )", called, public(text, coupled.domains[name]))


def _conclude(story: dict[str, Any], domain: FinishedDomain, row: int) -> None:
    """Add how long the job waited."""
    table, workload = domain.table, domain.table.workload
    submit_us, start_us = int(workload.submit_us[row]), int(table.start_us[row])
    if start_us == NEVER:
        story["summary"] = f"job {story['job_id']} never ran: {table.reasons[table.reason[row]]}"
        return
    later = (workload.submit_us > submit_us) & (table.start_us != NEVER) & (table.start_us < start_us)
    waited = (start_us - submit_us) / SECOND
    story |= {"start_s": start_us / SECOND, "wait_s": waited, "overtaken_by": int(later.sum())}
    asked = f"{counted(int(table.nodes[row]), 'node')}, {span(int(workload.limit_us[row]))} requested"
    at_once = "" if waited else ": it started at once"
    story["summary"] = f"job {story['job_id']} ({asked}) waited {duration(waited)} under {table.policy}{at_once}"


def _add_mates(story: dict[str, Any], finished: Finished, group: Group | None, name: str, row: int) -> None:
    """Add what the job did while its mates were not ready, and when they started."""
    table = finished.domains[name].table
    extra = table.workload.extra
    story |= {"domain": name, "group": None if group is None else group.name, "mates": []}
    if group is None:
        return
    for member in group.members:
        if member.domain != name:
            story["mates"].append(_mate(finished.domains[member.domain], member.domain, int(member.job)))
    ready_s, start_s = float(extra["first_ready_s"][row]), story["start_s"]
    story["sync_s"] = None if start_s is None or not np.isfinite(ready_s) else start_s - ready_s
    story["held_s"], story["yields"] = float(extra["held_s"][row]), int(extra["yields"][row])
    words = [_started(mate, start_s) for mate in story["mates"]]
    if story["sync_s"]:
        words.append(f"nodes for it were first free {duration(story['sync_s'])} before its start")
    if story["held_s"]:
        words.append(f"it held nodes for {duration(story['held_s'])}")
    if story["yields"]:
        words.append(f"it gave nodes back {'once' if story['yields'] == 1 else str(story['yields']) + ' times'}")
    story["summary"] += "".join(f"; {word}" for word in words)


def _mate(domain: FinishedDomain, name: str, number: int) -> dict[str, Any]:
    table, row = domain.table, int(domain.prepared.rows[number])
    start_us = int(table.start_us[row])
    return {
        "job_id": f"{name}:{table.workload.job_id[row]}",
        "status": STATUS_NAMES[table.status[row]],
        "submit_s": int(table.workload.submit_us[row]) / SECOND,
        "start_s": None if start_us == NEVER else start_us / SECOND,
    }


def _started(mate: dict[str, Any], start_s: float | None) -> str:
    if mate["start_s"] is None:
        return f"its mate {mate['job_id']} never ran"
    if start_s is None:
        return f"its mate {mate['job_id']} started at {duration(mate['start_s'])}"
    apart = mate["start_s"] - start_s
    if not apart:
        return f"its mate {mate['job_id']} started at the same instant"
    return f"its mate {mate['job_id']} started {abs(apart):,.3g} s {'later' if apart > 0 else 'before it'}"
