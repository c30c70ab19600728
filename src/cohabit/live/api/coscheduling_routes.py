"""The routes about jobs with mates in other domains: which scheme is used, and changing it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from cohabit.core.core import SchedulerCore
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import PROBLEMS, Identified, Service, operator, reply
from cohabit.live.api.shapes import Seconds, Shape, Short
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND, microseconds

router = APIRouter(prefix="/v1/coscheduling", tags=["coscheduling"], responses=PROBLEMS)
_SECONDS = {"release_s": "release_us", "min_hold_s": "least_hold_us", "bounded_hold_s": "bounded_hold_us"}
_OTHERS = {"max_held": "most_held", "max_yields": "most_yields"}


class SchemeChange(Shape):
    """Changes to how jobs with mates in other domains are treated: all, or one job."""

    job: Short = ""
    enabled: bool | None = None
    scheme: Literal["hold", "yield", "agree"] | None = None
    release_s: Seconds | None = None
    min_hold_s: Seconds | None = None
    max_held: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    max_yields: Annotated[int, Field(ge=0, le=2**31)] | None = None
    raise_per_yield: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    bounded_hold_s: Seconds | None = None
    on_deadlock: Literal["release", "report", "ignore"] | None = None


class SchemeView(BaseModel):
    """The treatment of jobs with mates in other domains, or of one of them; see docs/coscheduling.md."""

    domain: str
    job: str | None
    enabled: bool
    scheme: Literal["hold", "yield", "agree"]
    release_s: float
    min_hold_s: float
    max_held: float
    max_yields: int
    raise_per_yield: float
    bounded_hold_s: float
    on_deadlock: Literal["release", "report", "ignore"]
    deadlock: str  # groups that wait for each other's nodes; operators see it


@router.get("", responses={200: {"model": SchemeView}})
async def show(parts: Service, caller: Identified, job: Annotated[Short, Query()] = "") -> Response:
    """Return the scheme of this domain, or the one of a job; operators also see a deadlock between groups."""
    if job:
        await parts.looking.job(job, caller)
    return reply(await parts.controller.ask(lambda core: _view(core, job, caller.operates)))


@router.post("", responses={200: {"model": SchemeView}})
async def change(wanted: SchemeChange, parts: Service, caller: Identified) -> Response:
    """Change the scheme of this domain (operators), or of one job. Its owner may switch coscheduling off for it: it
    then starts without its mates, and they do not wait for it."""
    job = wanted.job
    fields = wanted.model_dump(exclude_none=True, exclude={"job"})
    if job:
        await parts.looking.job(job, caller)
    if not job or fields != {"enabled": False}:
        operator(caller, "coscheduling")
    before = await parts.controller.ask(lambda core: _scheme(core, job))
    changed = msgspec.structs.replace(before, **{_key(name): _value(name, value) for name, value in fields.items()})
    changed.check()
    words = " ".join(f"{name}={value}" for name, value in fields.items())
    about = f"job {job}: {words}" if job else words
    await parts.change(caller, "set coscheduling", about, parts.controller.set_scheme(changed, job))
    return reply(await parts.controller.ask(lambda core: _view(core, job, caller.operates)))


def _key(name: str) -> str:
    return _SECONDS.get(name) or _OTHERS.get(name, name)


def _value(name: str, value: Any) -> Any:
    return microseconds(value) if name in _SECONDS else value


def _scheme(core: SchedulerCore, job: str) -> Scheme:
    about = core.state.coupled
    if about is None:
        raise Refusal(409, "this controller has no other domains", "coscheduling", "name it and its peers: [domain]")
    if job and job not in about.jobs:
        raise Refusal(
            409, "it has no mates in other domains, or its group has ended", f"job {job}", "leave out the job"
        )
    return about.scheme_of(job)


def _view(core: SchedulerCore, job: str, operates: bool) -> dict[str, Any]:
    scheme, about = _scheme(core, job), core.state.coupled
    assert about is not None
    return {
        "domain": about.protocol.domain,
        "job": job or None,
        "enabled": scheme.enabled,
        "scheme": scheme.scheme,
        "release_s": scheme.release_us / SECOND,
        "min_hold_s": scheme.least_hold_us / SECOND,
        "max_held": scheme.most_held,
        "max_yields": scheme.most_yields,
        "raise_per_yield": scheme.raise_per_yield,
        "bounded_hold_s": scheme.bounded_hold_us / SECOND,
        "on_deadlock": scheme.on_deadlock,
        "deadlock": about.deadlock if operates else "",
    }
