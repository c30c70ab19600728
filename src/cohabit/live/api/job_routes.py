"""The routes about jobs: submit them, show them, change them, wait for them, read their output."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from cohabit.live.api.credentials import Caller
from cohabit.live.api.limits import KEPT_BACK
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import PROBLEMS, Identified, Job, Service, operator, reply
from cohabit.live.api.shapes import Change, JobList, JobView, Submission, Taken, UserName, Why
from cohabit.live.api.start_shapes import Foreseen
from cohabit.live.api.views import history
from cohabit.live.controller.records import Record
from cohabit.model.units import SECOND, microseconds

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses=PROBLEMS)
States = Literal["queued", "running", "finished", "all"]
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}, "description": "Output"}}


@router.post("", status_code=201, responses={201: {"model": Taken}, 200: {"model": Foreseen, "description": "Dry run"}})
async def submit(
    submission: Submission, parts: Service, caller: Identified, dry_run: Annotated[bool, Query()] = False
) -> Response:
    """Submit a job; answer when it is durable. As a dry run: return where and when it would start."""
    if dry_run:
        return reply(await _foresee(parts, submission, caller))
    taking = _take(parts, submission, caller)
    name, members = await parts.change(caller, "submit", submission.name or "", taking, 201, lambda done: done[0])
    parts.metrics.submissions.inc(members)
    return reply({"job": name, "members": members}, 201)


async def _take(parts: Parts, submission: Submission, caller: Caller) -> tuple[str, int]:
    await _check_after(parts, submission, caller)
    return await parts.taking.take(submission, caller)


async def _check_after(parts: Parts, submission: Submission, caller: Caller) -> None:
    """Refuse dependencies that do not exist, as the job would wait forever, and those the caller may not see."""
    for name in submission.after:
        await parts.looking.job(name, caller)


async def _foresee(parts: Parts, submission: Submission, caller: Caller) -> dict[str, Any]:
    await _check_after(parts, submission, caller)
    wanted = (await parts.taking.wanted(submission, caller)).job
    job = msgspec.structs.replace(wanted, job_id=submission.name or "a dry run")
    job.check()
    found, now_us = await parts.ahead.foresee(job)
    if found.start_us is None:
        return {"job": None, "start_at": None, "start_in_s": None, "nodes": None, "node_names": None, "why": found.why}
    return {
        "job": None,
        "start_at": found.start_us / SECOND,
        "start_in_s": (found.start_us - now_us) / SECOND,
        "nodes": found.nodes,
        "node_names": [parts.living.cluster.called(node) for node in found.nodes],
        "why": found.why,
    }


@router.get("", responses={200: {"model": JobList}})
async def jobs(
    parts: Service,
    caller: Identified,
    state: States | None = None,
    user: UserName = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[str, Query(max_length=20, pattern="^[0-9]*$")] = "",
) -> Response:
    """List jobs, the latest first: queued and running ones unless another state is requested."""
    owner = await parts.looking.listed_user(caller, user)
    at = min(int(before), 2**62) if before else None
    page = await parts.looking.page(state or "", owner, limit, at)
    views = [await parts.looking.view(one, caller) for one in page.jobs]
    return reply({"jobs": views, "next": None if page.before is None else str(page.before)})


@router.get("/{job}", responses={200: {"model": JobView}})
async def show(job: Job, parts: Service, caller: Identified) -> Response:
    """Return one job."""
    return reply(await parts.looking.full_view(job, caller))


@router.patch("/{job}", responses={200: {"model": JobView}})
async def change(job: Job, wishes: Change, parts: Service, caller: Identified) -> Response:
    """Change the limit or the priority of a waiting job; more of either needs an operator."""
    record = (await parts.looking.job(job, caller)).record
    limit_us = None if wishes.limit_s is None else microseconds(wishes.limit_s)
    if (limit_us is not None and limit_us > record.limit_us) or (wishes.qos is not None and wishes.qos != record.qos):
        operator(caller, "a longer limit or another qos")
    await parts.change(caller, "change", job, parts.controller.change(job, limit_us, wishes.qos))
    return reply(await parts.looking.full_view(job, caller))


@router.get("/{job}/why", responses={200: {"model": Why}})
async def why(job: Job, parts: Service, caller: Identified) -> Response:
    """Explain why a job waits, and why it waited before."""
    found = await parts.looking.job(job, caller)
    explained = await parts.controller.why(job)
    text, short = explained.why, explained.short
    if parts.limits.keeps_back(job):
        text = short = KEPT_BACK
    if found.record.status:
        short = found.record.reason
        text = "; ".join(one for one in (short, text) if one)
    told = {"job": job, "state": explained.standing.state, "why": text, "short": short}
    return reply(told | {"profile": explained.profile, "history": history(explained.history)})


@router.post("/{job}/cancel", responses={200: {"model": JobView}})
async def cancel(job: Job, parts: Service, caller: Identified) -> Response:
    """Cancel a running or waiting job; of an array, all remaining members."""
    await parts.looking.job(job, caller)
    await parts.change(caller, "cancel", job, parts.controller.cancel(job))
    return reply(await parts.looking.full_view(job, caller))


@router.post("/{job}/hold", responses={200: {"model": JobView}})
async def hold(job: Job, parts: Service, caller: Identified) -> Response:
    """Keep a waiting job from starting."""
    record = (await parts.looking.job(job, caller)).record
    await parts.change(caller, "hold", job, _hold(parts, record))
    return reply(await parts.looking.full_view(job, caller))


async def _hold(parts: Parts, record: Record) -> None:
    if parts.limits.keeps_back(record.job_id):  # already held by a limit: from now on by its owner
        parts.limits.note_held(record.user, record.job_id)
        return
    await parts.controller.hold(record.job_id)
    for name in _members(record):
        parts.limits.note_held(record.user, name)


@router.post("/{job}/release", responses={200: {"model": JobView}})
async def release(job: Job, parts: Service, caller: Identified) -> Response:
    """Let a held job start when its turn comes."""
    record = (await parts.looking.job(job, caller)).record
    await parts.change(caller, "release", job, _release(parts, record, caller.operates))
    return reply(await parts.looking.full_view(job, caller))


async def _release(parts: Parts, record: Record, operates: bool) -> None:
    limits = parts.settings.limits_of(await parts.accounts.name_of(record.user))
    if limits.max_running is None:
        await parts.controller.release(record.job_id, operates)
        for name in _members(record):
            parts.limits.note_released(record.user, name)
        return
    free = [name for name in _members(record) if parts.limits.may_release(record.user, name, limits)]
    if not free:
        raise Refusal(
            409,
            f"at most {limits.max_running} jobs of its user may run",
            f"job {record.job_id}",
            "it is released when one of them ends",
        )
    for name in free:
        await parts.controller.release(name, operates)


@router.post("/{job}/requeue", responses={200: {"model": JobView}})
async def requeue(job: Job, parts: Service, caller: Identified) -> Response:
    """Stop a running job and put it back into the queue."""
    await parts.looking.job(job, caller)
    await parts.change(caller, "requeue", job, parts.controller.requeue(job))
    return reply(await parts.looking.full_view(job, caller))


@router.get("/{job}/wait", responses={200: {"model": JobView}, 202: {"model": JobView, "description": "Not over yet"}})
async def wait(
    job: Job,
    parts: Service,
    caller: Identified,
    timeout_s: Annotated[float, Query(ge=0, le=3600, allow_inf_nan=False)] = 60.0,
) -> Response:
    """Return the job as soon as it ends, or as it is at the timeout."""
    if not math.isfinite(timeout_s):
        raise Refusal(422, "is not a number of seconds", "timeout_s", "give 0 to 3600")
    over = await parts.streams.over(job, caller, timeout_s)
    return reply(await parts.looking.full_view(job, caller), 200 if over else 202)


@router.get("/{job}/output", responses=_TEXT, response_class=StreamingResponse)
async def output(
    job: Job,
    parts: Service,
    caller: Identified,
    stream: Literal["stdout", "stderr"] = "stdout",
    follow: bool = False,
    offset: Annotated[int, Query(ge=0, le=2**62)] = 0,
) -> Response:
    """Stream a job's output; with follow, continue until the job ends."""
    found = await parts.looking.job(job, caller)
    pieces = await parts.streams.output(found, caller, stream, follow, offset)
    return StreamingResponse(pieces, media_type="text/plain; charset=utf-8")


def _members(record: Record) -> list[str]:
    if not record.members:
        return [record.job_id]
    return [f"{record.job_id}_{number}" for number in range(record.array_first, record.array_first + record.members)]
