"""The routes of profiles: what the controller's store has of programs, sharing and forgetting.

An ordinary user sees the shared profiles and his own, and forgets only his own. Nothing but `share` and an operator
changes a shared profile: runs and `reprofile` change their owner's (core/known_programs.py).
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from cohabit.live.api.credentials import Caller
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import PROBLEMS, Identified, Service, operator, reply
from cohabit.live.api.shapes import Short, UserName
from cohabit.live.controller.refusals import UnknownProfile
from cohabit.live.controller.store_link import StoreLink
from cohabit.model.profile import SHARED, key_parts, owner_of
from cohabit.model.units import SECOND
from cohabit.policy.degradation import PredictedPairs
from cohabit.policy.neighbours import of_program
from cohabit.store.json_form import CoRunSample

router = APIRouter(responses=PROBLEMS)
Owner = Annotated[str, Field(max_length=20, pattern="^[0-9]*$")]  # a user's number; empty: shared


class StoredProfiles(BaseModel):
    """The store, why it is away (empty: it is not), and its profiles as `cohabit profiles export` writes them."""

    store: str
    away: str
    profiles: list[dict[str, Any]]


class ProfileSample(BaseModel):
    """One measurement as it came."""

    owner: str
    processes: int
    hardware: str
    provenance: str
    measured: dict[str, Any]


class ProfileHistory(BaseModel):
    """All measurements of a program, in order of arrival."""

    store: str
    samples: list[ProfileSample]


class ProfileNeighbours(BaseModel):
    """Every run of a program beside others that the store keeps, and what the controller's model makes of all of them:
    sensitivity and intensity by counters (`prior`) and after co-runs (`own`); null: no model can judge it."""

    store: str
    co_runs: list[dict[str, Any]]
    judged: dict[str, Any] | None


class StoredCoRuns(BaseModel):
    """The store and its runs beside others as they came."""

    store: str
    co_runs: list[dict[str, Any]]


class ProfileForget(BaseModel):
    """The program, the owner of the profile, and the instant (Unix time) from which on measurements are forgotten."""

    model_config = ConfigDict(extra="forbid", strict=True)
    program: Annotated[Short, Field(min_length=1)]
    owner: Owner
    since: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] | None = None


class ProfileForgetting(BaseModel):
    """The number of profiles that were forgotten, or of measurements if an instant was given."""

    program: str
    owner: str
    forgotten: int


@router.get("/v1/profiles", responses={200: {"model": StoredProfiles}}, tags=["profiles"])
async def profiles(parts: Service, caller: Identified) -> Response:
    """List the profiles of the controller's store; while it is away, those that it plans by."""
    store = _store(parts)
    found = [msgspec.to_builtins(one) for one in await store.profiles() if _sees(caller, one.owner)]
    return reply({"store": store.where, "away": store.away, "profiles": found})


@router.get("/v1/profiles/{program}/history", responses={200: {"model": ProfileHistory}}, tags=["profiles"])
async def history(program: Short, parts: Service, caller: Identified) -> Response:
    """List every measurement of a program in the controller's store."""
    store = _store(parts)
    samples = [
        {
            "owner": one.key.owner,
            "processes": one.key.processes,
            "hardware": one.key.hardware,
            "provenance": one.provenance,
            "measured": msgspec.to_builtins(one.measured),
        }
        for one in await store.history(program)
        if _sees(caller, one.key.owner)
    ]
    return reply({"store": store.where, "samples": samples})


@router.get("/v1/profiles/{program}/neighbours", responses={200: {"model": ProfileNeighbours}}, tags=["profiles"])
async def neighbours(program: Short, owner: Owner, parts: Service, caller: Identified) -> Response:
    """Tell what runs beside others taught of a program."""
    store, key = _store(parts), program if owner == SHARED else f"{program}@{owner}"
    if not _sees(caller, owner):
        raise Refusal(403, "only operators see profiles of others", f"profile {program} of {owner}", "ask an operator")
    seen = [one for one in await store.co_runs() if key in (one.program, *one.beside) and _sees_all(caller, one)]
    pairs: object = getattr(parts.living.policies.placer, "degradations", None)
    judged = None
    if isinstance(pairs, PredictedPairs) and pairs.learns:
        profiles = await store.profiles()
        co_runs = dict(await parts.controller.ask(lambda core: core.view(0).co_runs))
        judged = await asyncio.to_thread(of_program, PredictedPairs(pairs.model, pairs.name), profiles, co_runs, key)
    return reply({"store": store.where, "co_runs": [one._asdict() for one in seen], "judged": judged})


@router.get("/v1/co-runs", responses={200: {"model": StoredCoRuns}}, tags=["profiles"])
async def co_runs(parts: Service, caller: Identified) -> Response:
    """List the runs beside others in the controller's store, of programs whose profiles the caller may see."""
    store = _store(parts)
    seen = [one._asdict() for one in await store.co_runs() if _sees_all(caller, one)]
    return reply({"store": store.where, "co_runs": seen})


@router.post("/v1/profiles/forget", responses={200: {"model": ProfileForgetting}}, tags=["profiles"])
async def forget(wish: ProfileForget, parts: Service, caller: Identified) -> Response:
    """Forget a user's profile of a program, or what was measured from an instant on; it holds at once."""
    about = f"{wish.program} of {wish.owner or 'all users'}"

    async def work() -> int:
        if not caller.operates and wish.owner != owner_of(caller.number):
            what = "only operators forget profiles of others, or shared ones"
            raise Refusal(403, what, f"profile {about}", "forget your own, or ask an operator")
        since_us = None if wish.since is None else round(wish.since * SECOND)
        if since_us is None and not any(
            (one.program, one.owner) == (wish.program, wish.owner) for one in await _store(parts).profiles()
        ):
            raise UnknownProfile(wish.program, wish.owner)
        return await _store(parts).forget(wish.program, wish.owner, since_us)

    count = await parts.change(caller, "forget profile", about, work())
    return reply({"program": wish.program, "owner": wish.owner, "forgotten": count})


def _store(parts: Parts) -> StoreLink:
    store = parts.living.store
    if store is None:
        raise Refusal(404, "this controller has no profile store", "profiles", "name a store: --store FILE")
    return store


def _sees(caller: Caller, owner: str) -> bool:
    return caller.operates or owner in (SHARED, owner_of(caller.number))


def _sees_all(caller: Caller, run: CoRunSample) -> bool:
    return all(_sees(caller, key_parts(each)[1]) for each in (run.program, *run.beside))


class ProfileShare(BaseModel):
    """The program and the user of the profile to share."""

    model_config = ConfigDict(extra="forbid", strict=True)
    program: Annotated[Short, Field(min_length=1)]
    user: Annotated[UserName, Field(min_length=1)]


class ProfileSharing(BaseModel):
    """The shared program, its user and the number of profiles."""

    program: str
    user: str
    profiles: int


@router.post("/v1/profiles/share", responses={200: {"model": ProfileSharing}}, tags=["profiles"])
async def share(wish: ProfileShare, parts: Service, caller: Identified) -> Response:
    """Make a user's profile of a program the one for all users without a profile of it."""
    about = f"{wish.program} of {wish.user}"
    operator(caller, f"profile {about}")
    number = await parts.accounts.number_of(wish.user)
    if number is None:
        raise Refusal(404, "there is no such user", f"user {wish.user}", "check the name")
    owner = owner_of(number)
    await parts.change(caller, "share profile", about, parts.controller.share_profile(wish.program, owner))
    count = await parts.controller.ask(lambda core: len(core.state.profiles.get(wish.program, {})))
    return reply({"program": wish.program, "user": await parts.accounts.name_of(number), "profiles": count})
