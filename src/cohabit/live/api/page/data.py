"""The routes by which the page reads a live controller. Only operators see jobs of other users, as in the whole API.

These routes serve the page and may change with it; programs use docs/api.md. The types of the answers are those of a
finished run (documents.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import numpy as np
from fastapi import APIRouter, Query, Response
from pydantic import Field

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.live.api.credentials import Caller
from cohabit.live.api.dry_run import ExpectedStart, ExpectedStarts
from cohabit.live.api.limits import KEPT_BACK
from cohabit.live.api.looking import PAGE
from cohabit.live.api.page import learning as page_learning
from cohabit.live.api.page import views as page_views
from cohabit.live.api.page.beside import shared_nodes
from cohabit.live.api.page.charts import KIND, packed, series
from cohabit.live.api.page.documents import About, Domains, JobLine, JobList, OneJob
from cohabit.live.api.page.gantt_documents import GanttColumns, GanttHeader
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import Identified, Job, Service, reply
from cohabit.live.api.views import history
from cohabit.live.controller.records import Record
from cohabit.live.controller.refusals import Busy
from cohabit.model.profile import owner_of
from cohabit.model.records import NEVER
from cohabit.model.units import SECOND
from cohabit.report.variation import Variation, live_runs, variation_of

router = APIRouter(prefix="/v1/page", include_in_schema=False)
Views = Literal["queued", "running", "waiting", "finished", "all"]
Sorts = Literal["job", "user", "program", "state", "processes", "submitted_at", "ran", "limit_s", "waited"]
SERIES_S = 6 * 3600.0
SERIES_MOST = 5_000  # ended jobs read for one chart
VARIATION_MOST = 5_000  # ended jobs whose run times are compared
GANTT_MOST = 100_000
PLANNED_MOST = 2_000
FIRST_SPAN_S = 3600
STATES = ("running", "done", "failed", "killed", "cancelled", "lost", "other")


@router.get("/about")
async def about(parts: Service, caller: Identified) -> Response:
    """Describe the controller and the caller."""
    cluster = parts.living.cluster
    names = parts.living.policies.names
    found: About = {
        "source": "live",
        "version": parts.version,
        "title": parts.living.domain or "this machine",
        "user": caller.user,
        "role": caller.role,
        "nodes": cluster.nodes,
        "cores": cluster.cores,
        "policy": " + ".join(value for value in names.values() if isinstance(value, str)),
        "runs": [],
        "from": None,
        "until": None,
        "coupled": parts.living.policies.mates is not None,
    }
    if cluster.names:
        found["node_names"] = list(cluster.names)
    return reply(found)


@router.get("/overview")
async def overview(parts: Service, caller: Identified) -> Response:
    """Return every node in columns, and counts of jobs."""
    now_us = parts.living.clock.now_us()
    return reply(await parts.controller.ask(lambda core: page_views.overview(core, now_us)))


@router.get("/series")
async def over_time(parts: Service, caller: Identified) -> Response:
    """Return the last hours: jobs started, ended and waiting, cores in use; of all users, without names."""
    now_us = parts.living.clock.now_us()
    from_us = now_us - round(SERIES_S * SECOND)
    ended = await _ended(parts, from_us, now_us, None, SERIES_MOST)
    living = await parts.controller.ask(_living_columns)
    if len(ended) == SERIES_MOST:
        from_us = max(from_us, int(ended[0].end_us or from_us))
    first = min([*living[0].tolist(), *(one.submit_us or now_us for one in ended)], default=now_us)
    from_us = max(from_us, min(first, now_us - 600 * SECOND))
    rows = [(one.submit_us or 0, _or_never(one.start_us), _or_never(one.end_us), one.cores) for one in ended]
    past = np.array(rows, np.int64).reshape(-1, 4).T
    joined = [np.concatenate(pair) for pair in zip(past, living, strict=True)]
    return reply(series(joined[0], joined[1], joined[2], joined[3], from_us, now_us))


def _or_never(at_us: int | None) -> int:
    return NEVER if at_us is None else at_us


def _living_columns(core: SchedulerCore) -> list[np.ndarray[Any, Any]]:
    state = core.state
    rows = np.fromiter(state.rows.values(), np.int64, len(state.rows))
    jobs = state.jobs[:, rows]
    runs = np.isin(jobs[columns.STATE], (columns.STARTING, columns.RUNNING))
    start = np.where(runs, jobs[columns.START], NEVER)
    return [jobs[columns.SUBMIT], start, np.full(len(rows), NEVER), jobs[columns.CORES]]


async def _ended(parts: Parts, since_us: int, now_us: int, owner: int | None, most: int) -> list[Record]:
    """Return the latest jobs that ended since then, by their end; search in growing spans, not in all records."""
    span_us = FIRST_SPAN_S * SECOND
    while True:
        begin_us = max(since_us, now_us - span_us)
        found = [one async for page in parts.looking.ended(begin_us, 2**62, owner) for one in page]
        if begin_us == since_us or len(found) >= most:
            return found[-most:]
        span_us *= 6


# ---- jobs -----------------------------------------------------------------------------------------------------------


@router.get("/jobs")
async def jobs(
    parts: Service,
    caller: Identified,
    view: Views = "all",
    find: Annotated[str, Query(max_length=100)] = "",
    sort: Sorts = "submitted_at",
    down: bool = False,
    first: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    most: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Return a part of the jobs, sorted; of the finished jobs, the latest."""
    owner = _owner(caller)
    if view == "finished":
        return reply(await _finished(parts, caller, find, first, most))
    wanted = "queued" if view == "waiting" else view
    now_us = parts.living.clock.now_us()
    found = await parts.controller.ask(
        lambda core: page_views.living_jobs(core, owner, wanted, find, sort, down, first, most, now_us)
    )
    for one in found["jobs"]:
        one["user"] = await parts.accounts.name_of(int(one["user"]))
        one["why"] = KEPT_BACK if parts.limits.keeps_back(one["job"]) else one["why"]
    return reply(found)


async def _finished(parts: Parts, caller: Caller, find: str, first: int, most: int) -> JobList:
    """Return finished jobs, the latest first; a search covers the latest thousand."""
    page = await parts.looking.page("finished", _owner(caller), PAGE, None)
    views: list[JobLine] = []
    for one in page.jobs:
        found = await parts.looking.view(one, caller)
        if not find or find.lower() in f"{found['job']} {found['program']}".lower():
            views.append(cast(JobLine, {**found, "nodes": len(found["nodes"])}))
    return {"jobs": views[first : first + most], "total": len(views), "more": page.before is not None}


@router.get("/jobs/{job}")
async def one_job(job: Job, parts: Service, caller: Identified) -> Response:
    """Return one job: its document in the API, its placement, and why it waited."""
    view = await parts.looking.full_view(job, caller)
    owner, now_us = _owner(caller), parts.living.clock.now_us()
    placement, mates = await parts.controller.ask(
        lambda core: (page_views.placement_of(core, job, owner), page_learning.mates_of(core, job, now_us))
    )
    explained = await parts.controller.why(job)
    why = view["why"] or explained.why
    if view["state"] == "queued":
        parts.waits.note(job, now_us, why)
    found: OneJob = {
        "job": view,
        "placement": placement,
        "why": why,
        "mates": mates,
        "history": history(parts.waits.with_those_of(job, explained.history)),
        "actions": _actions(view["state"]),
        "at": now_us / SECOND,
    }
    if view["state"] == "queued" and view["started_at"] is None:
        start = await _expected_start(parts, caller, job)
        found["expected_start_at"] = None if start is None else start.start_us / SECOND
        found["expected_nodes"] = [] if start is None else start.nodes
    return reply(found)


async def _expected_start(parts: Parts, caller: Caller, job: str) -> ExpectedStart | None:
    """Return the start of a job that waits; None: it does not start by itself, or the server is busy."""
    try:
        return (await parts.ahead.expected_starts(caller.number)).starts.get(job)
    except Busy:
        return None


def _actions(state: str) -> list[str]:
    """Return the actions allowed in this state; every caller that may see a job may use them."""
    return {
        "queued": ["hold", "cancel"],
        "held": ["release", "cancel"],
        "starting": ["cancel"],
        "running": ["requeue", "cancel"],
    }.get(state, [])


@router.get("/nodes/{node}")
async def one_node(node: Annotated[int, Field(ge=0, le=2**31)], parts: Service, caller: Identified) -> Response:
    """Return the jobs on a node and their shares."""
    if node >= parts.living.cluster.nodes:
        raise Refusal(404, "there is no such node", f"node {node}", "cohabit nodes lists them")
    owner, now_us = _owner(caller), parts.living.clock.now_us()
    found = await parts.controller.ask(lambda core: page_views.node_view(core, node, owner, now_us))
    if caller.operates:
        found["actions"] = ["drain" if found["state"] == "up" else "resume"]
    return reply(found)


# ---- profiles and predictions ---------------------------------------------------------------------------------------


@router.get("/programs")
async def programs(parts: Service, caller: Identified) -> Response:
    """Return curves, classes and exploration of shared profiles and the caller's own; operators see all users'."""
    found = await parts.controller.ask(lambda core: page_learning.programs(core, _profile_owner(caller)))
    for one in found["programs"]:
        one["owner"] = await _owner_name(parts, one["owner"])
    found["variation"] = await _variation(parts, caller)
    return reply(found)


async def _variation(parts: Parts, caller: Caller) -> list[Variation]:
    """Return how far the latest runs of every program vary."""
    ended = await _ended(parts, 0, parts.living.clock.now_us(), _owner(caller), VARIATION_MOST)
    runs = [
        (one.program, one.processes, one.end_us - one.start_us)
        for one in ended
        if one.program and one.status == "done" and not one.members
        if one.start_us is not None and one.end_us is not None and one.end_us > one.start_us
    ]
    return variation_of(live_runs(runs))


@router.get("/predictions")
async def predictions(parts: Service, caller: Identified) -> Response:
    """Return the predicted slowdowns between programs and the state of the variability gates."""
    now_us = parts.living.clock.now_us()
    found = await parts.controller.ask(lambda core: page_learning.predictions(core, now_us, _profile_owner(caller)))
    if (matrix := found["matrix"]) is not None:
        owners = [await _owner_name(parts, owner) for owner in matrix.pop("owners")]
        named = zip(matrix["programs"], owners, strict=True)
        matrix["programs"] = [f"{program} ({owner})" if owner else program for program, owner in named]
    found["together"] = await parts.controller.ask(lambda core: shared_nodes(core, _owner(caller), now_us))
    for gate in found["gates"]:
        if not caller.operates:
            gate["passed_over"] = []
    return reply(found)


@router.get("/domains")
async def domains(parts: Service, caller: Identified) -> Response:
    """Return the jobs with mates in other domains."""
    owner, now_us = _owner(caller), parts.living.clock.now_us()
    coupling = await parts.controller.ask(lambda core: page_learning.domains(core, owner, now_us))
    found: Domains = {"coupling": coupling, "at": now_us / SECOND}
    return reply(found)


@router.get("/gantt")
async def gantt(
    parts: Service, caller: Identified, most: Annotated[int, Query(ge=1, le=GANTT_MOST)] = 20_000
) -> Response:
    """Return which job had which nodes when, in packed columns: the latest jobs that ended, and the running ones."""
    owner, now_us = _owner(caller), parts.living.clock.now_us()
    running = await parts.looking.page("running", owner, PAGE, None)
    records = [*await _ended(parts, 0, now_us, owner, most), *(one.record for one in running.jobs)]
    records = [one for one in records if one.start_us is not None and one.nodes]
    records.sort(key=lambda one: one.start_us or 0)  # the page draws them in this order
    programs_seen: dict[str, int] = {}
    users_seen: dict[int, int] = {}
    for one in records:
        programs_seen.setdefault(one.program, len(programs_seen))
        users_seen.setdefault(one.user, len(users_seen))
    bars = [(index, first, count) for index, one in enumerate(records) for first, count in one.nodes]
    job, first, count = np.array(bars, np.int32).reshape(-1, 3).T
    times = np.array([[one.submit_us or 0, one.start_us or 0, one.end_us or now_us] for one in records], float)
    submit, start, end = times.reshape(-1, 3).T / SECOND
    header: GanttHeader = {
        "ids": [one.job_id for one in records],
        "programs": list(programs_seen),
        "users": [await parts.accounts.name_of(number) for number in users_seen],
        "states": list(STATES),
        "nodes": parts.living.cluster.nodes,
        "until": now_us / SECOND,
        "shared": not parts.living.policies.placer.exclusive,
        "from": float(start.min()) if len(records) else now_us / SECOND - 600,
    }
    program = np.array([programs_seen[one.program] for one in records], np.int32)
    user = np.array([users_seen[one.user] for one in records], np.int32)
    cluster = parts.living.cluster
    size = np.array([sum(count for _, count in one.nodes) for one in records], np.int32)
    share = np.array([one.cores for one in records]) / size * (cluster.nodes / cluster.cores)
    state = np.array([_state_code(one.status or "running") for one in records], np.int32)
    arrays = GanttColumns(submit, start, end, program, user, size, share, state, job, first, count)
    return Response(packed(header, arrays._asdict()), media_type=KIND)


@router.get("/gantt/planned")
async def gantt_planned(parts: Service, caller: Identified) -> Response:
    """Return the expected ends of jobs that run and the expected starts of those that wait; the earliest of many."""
    owner, now_us = _owner(caller), parts.living.clock.now_us()
    try:
        ahead = await parts.ahead.expected_starts(caller.number)
    except Busy:
        ahead = ExpectedStarts(now_us, {}, "the server is busy with other questions of this kind")
    found = await parts.controller.ask(lambda core: page_views.planned(core, ahead, owner, PLANNED_MOST))
    for one in found["planned"]:
        one["user"] = await parts.accounts.name_of(int(one["user"]))
    return reply(found)


def _state_code(state: str) -> int:
    return STATES.index(state if state in STATES else "other")


def _profile_owner(caller: Caller) -> str | None:
    return None if caller.operates else owner_of(caller.number)


async def _owner_name(parts: Parts, owner: str) -> str:
    """Return the name of a profile's owner; empty: it is shared."""
    return await parts.accounts.name_of(int(owner)) if owner.isdigit() else owner


def _owner(caller: Caller) -> int | None:
    return None if caller.operates else caller.number
