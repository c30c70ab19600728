"""The routes that are not about single jobs: nodes, accounting, slowdowns, events, audit, tokens, metrics."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from cohabit.backend.protocol import BackendError
from cohabit.live.api import accounting
from cohabit.live.api.credentials import Caller
from cohabit.live.api.node_shapes import FAR, NodeList, NodeView
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import PROBLEMS, Identified, Service, find_caller, operator, reply
from cohabit.live.api.shapes import (
    AuditList,
    Overlap,
    Ping,
    Pruned,
    Slowdowns,
    TokenList,
    TokenView,
    TokenWish,
    UserName,
)
from cohabit.live.api.start_shapes import StartList
from cohabit.live.api.tokens import Made, Token
from cohabit.live.api.views import job_view, node_views, slowdown_points, window_views
from cohabit.live.controller.records import Record
from cohabit.live.controller.retention import removed_before
from cohabit.live.controller.standing import Standing
from cohabit.model.units import SECOND

router = APIRouter(responses=PROBLEMS)
Instant = Annotated[float, Query(ge=0, le=1e11, allow_inf_nan=False)]
Node = Annotated[str, Field(max_length=256)]  # its number or its name
TokenId = Annotated[str, Field(max_length=40, pattern="^[0-9a-f]+$")]
POINTS_MOST = 20  # pages of ended jobs searched for slowdowns
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {}, "text/csv": {}, "text/plain": {}}, "description": "Ended jobs"}
}
_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}, "description": "Events"}}


@router.get("/v1/ping", responses={200: {"model": Ping}}, tags=["site"])
async def ping(parts: Service, caller: Identified) -> Response:
    """Describe the server, and name the caller and its role."""
    living = parts.living
    return reply(
        {
            "version": parts.version,
            "domain": living.domain or None,
            "policy": living.policy,
            "user": caller.user,
            "role": caller.role,
            "controller_uid": living.runs_as.own,
            "launcher_uid": living.runs_as.launcher,
            "store": "" if living.store is None else living.store.where,
            "store_away": "" if living.store is None else living.store.away,
        }
    )


@router.get("/v1/openapi.json", include_in_schema=False)
async def description(request: Request, caller: Identified) -> Response:
    """Return the OpenAPI description."""
    return reply(request.app.openapi())


# ---- nodes --------------------------------------------------------------------------------------------------------


@router.get("/v1/nodes", responses={200: {"model": NodeList}}, tags=["nodes"])
async def nodes(parts: Service, caller: Identified) -> Response:
    """List every node; a job is named only if the caller may see it."""
    return reply({"nodes": await _nodes(parts, caller), "windows": await parts.controller.ask(window_views)})


def _number(parts: Parts, node: str) -> int:
    """Return the number of a node that is given by its name or its number."""
    names = parts.living.cluster.names
    if node in names:
        return names.index(node)
    if not re.fullmatch("[0-9]{1,9}", node):
        raise Refusal(404, "there is no such node", f"node {node}", "cohabit nodes lists them")
    return int(node)


async def _nodes(parts: Parts, caller: Caller) -> list[dict[str, Any]]:
    owner = None if caller.operates else caller.number
    return await parts.controller.ask(lambda core: node_views(core, owner))


@router.post("/v1/nodes/{node}/drain", responses={200: {"model": NodeView}}, tags=["nodes"])
async def drain(node: Node, parts: Service, caller: Identified) -> Response:
    """Start no more jobs on the node; running jobs continue."""
    operator(caller, f"node {node}")
    number = _number(parts, node)
    await parts.change(caller, "drain", f"node {node}", parts.controller.drain(number))
    return reply((await _nodes(parts, caller))[number])


@router.post("/v1/nodes/{node}/resume", responses={200: {"model": NodeView}}, tags=["nodes"])
async def resume(node: Node, parts: Service, caller: Identified) -> Response:
    """Use the node again."""
    operator(caller, f"node {node}")
    number = _number(parts, node)
    await parts.change(caller, "resume", f"node {node}", parts.controller.resume(number))
    return reply((await _nodes(parts, caller))[number])


# ---- records ------------------------------------------------------------------------------------------------------


@router.get("/v1/accounting", responses=_TEXT, response_class=StreamingResponse, tags=["records"])
async def account(
    parts: Service,
    caller: Identified,
    since: Instant = 0.0,
    until: Instant = FAR,
    user: UserName = "",
    format: Literal["json", "csv", "sacct"] = "json",
) -> Response:
    """List the jobs that ended in [since, until), by their end; sacct: the format of `sacct --parsable2`."""
    owner = await parts.looking.listed_user(caller, user)
    kinds = {"json": "application/json", "csv": "text/csv", "sacct": "text/plain; charset=utf-8"}
    pages = parts.looking.ended(round(since * SECOND), round(until * SECOND), owner)
    first = await anext(pages)  # an unreadable journal must be refused before streaming
    gone = await parts.controller.read(removed_before)
    return StreamingResponse(_accounts(parts, first, pages, format, gone), media_type=kinds[format])


async def _accounts(
    parts: Parts, found: list[Record], later: AsyncIterator[list[Record]], form: str, gone: float | None
) -> AsyncIterator[bytes]:
    if form == "json":
        yield b"{" + (b"" if gone is None else b'"removed_before": %a, ' % gone) + b'"jobs": ['
    else:
        yield (accounting.as_csv([]) if form == "csv" else accounting.as_sacct([])).encode()
    wrote = False
    while found:
        views = [
            job_view(Standing(one, _word(one), "", None), await parts.accounts.name_of(one.user), False, "", "")
            for one in found
        ]
        if form == "json":
            yield (b", " if wrote else b"") + msgspec.json.encode(views)[1:-1]
        else:
            text = accounting.as_csv(views) if form == "csv" else accounting.as_sacct(views)
            yield text.partition("\n")[2].encode()
        wrote, found = True, await anext(later, [])
    if form == "json":
        yield b"]}"


def _word(record: Record) -> str:
    return "cancelled" if record.status in ("rejected", "") else record.status


@router.get("/v1/expected", responses={200: {"model": StartList}}, tags=["jobs"])
async def expected(parts: Service, caller: Identified) -> Response:
    """Return when and where the waiting jobs of the caller start, if every job takes its requested time."""
    owner = await parts.looking.listed_user(caller, "")
    found, called = await parts.ahead.expected_starts(caller.number), parts.living.cluster.called
    starts = [
        {
            "job": name,
            "start_at": start.start_us / SECOND,
            "nodes": start.nodes,
            "node_names": [called(node) for node in start.nodes],
        }
        for name, start in found.starts.items()
        if owner in (None, start.user)
    ]
    return reply({"at": found.at_us / SECOND, "starts": starts, "why": found.why})


@router.get("/v1/slowdowns", responses={200: {"model": Slowdowns}}, tags=["records"])
async def slowdowns(parts: Service, caller: Identified, since: Instant = 0.0) -> Response:
    """Compare the predicted and the actual slowdowns of jobs that shared nodes."""
    owner, found = await parts.looking.listed_user(caller, ""), list[Record]()
    pages = parts.looking.ended(round(since * SECOND), round(FAR * SECOND), owner)
    for _ in range(POINTS_MOST):
        found += await anext(pages, [])
    return reply(slowdown_points(found))


@router.get("/v1/audit", responses={200: {"model": AuditList}}, tags=["records"])
async def audit(parts: Service, caller: Identified, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> Response:
    """List audit entries, newest first: user, action, time, origin and outcome."""
    operator(caller, "audit")
    return reply({"entries": await parts.audit.newest(limit)})


@router.post("/v1/prune", responses={200: {"model": Pruned}}, tags=["records"])
async def prune(parts: Service, caller: Identified, dry_run: Annotated[bool, Query()] = False) -> Response:
    """Remove data past its retention; answer when that is done. As a dry run: return what would be removed."""
    operator(caller, "prune")

    async def remove() -> dict[str, Any]:
        try:
            return (await parts.living.retention.prune(dry_run)).document(dry_run)
        except BackendError as error:
            raise Refusal(503, f"outputs cannot be removed now: {error}", "prune", "try again later") from error

    return reply(await (remove() if dry_run else parts.change(caller, "prune", "", remove())))


@router.get("/v1/events", responses=_EVENTS, response_class=StreamingResponse, tags=["records"])
async def events(parts: Service, caller: Identified) -> Response:
    """Stream Server-Sent Events: one for every change of a job or a node."""
    listener = parts.feed.listen(caller.number, caller.operates)
    if listener is None:
        raise Refusal(429, "too many listen to events, or too many of yours", "events", "close some, or try later")
    return StreamingResponse(
        parts.streams.events(listener, caller), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


@router.get("/metrics", responses={200: {"content": {"text/plain": {}}, "description": "Prometheus"}}, tags=["site"])
async def metrics(request: Request, parts: Service) -> Response:
    """Return metrics for Prometheus; over TCP a token is required."""
    if "peer" not in request.scope["state"]:
        await find_caller(request)
    busy = Counter(one["state"] for one in await parts.controller.ask(lambda core: node_views(core, -1)))
    queued, held, running = parts.limits.counts()
    for word, count in (("queued", queued - held), ("held", held), ("running", running)):
        parts.metrics.jobs.labels(word).set(count)
    for word in ("idle", "busy", "shared", "drained", "down"):
        parts.metrics.nodes.labels(word).set(busy[word])
    parts.metrics.audit_failures.set(parts.audit.failed)
    parts.metrics.left_out.set(parts.controller.left_out)
    parts.metrics.listeners.set(parts.feed.listeners)
    return Response(parts.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


# ---- tokens -------------------------------------------------------------------------------------------------------


@router.post("/v1/tokens", status_code=201, responses={201: {"model": TokenView}}, tags=["tokens"])
async def add_token(wish: TokenWish, parts: Service, caller: Identified) -> Response:
    """Make a token; it is shown only once. Over TCP only an admin may make one, and it ends with the admin's."""
    user = wish.user or caller.user

    async def add() -> Made:
        _may_make(caller, f"token for {user}")
        if user != caller.user and not caller.administers:
            raise Refusal(403, "only an admin may make tokens for others", f"token for {user}", "ask one")
        most, held = parts.settings.limits_of(user).max_tokens, parts.tokens.held_by(user)
        if most is not None and held >= most:
            raise Refusal(429, f"{user} has {held} valid tokens and may have {most}", "max_tokens", "revoke some")
        return parts.tokens.add(user, wish.label, wish.expires_in_s, parts.tokens.get(caller.token))

    made = await parts.change(caller, "add token", f"for {user}", add(), 201)
    return reply(_token_view(made.kept) | {"token": made.secret}, 201)


@router.get("/v1/tokens", responses={200: {"model": TokenList}}, tags=["tokens"])
async def tokens(parts: Service, caller: Identified) -> Response:
    """List the caller's tokens; an admin sees all."""
    shown = [one for one in parts.tokens.all() if caller.administers or one.user == caller.user]
    return reply({"tokens": [_token_view(one) for one in shown]})


@router.post("/v1/tokens/{token}/rotate", status_code=201, responses={201: {"model": TokenView}}, tags=["tokens"])
async def rotate_token(token: TokenId, overlap: Overlap, parts: Service, caller: Identified) -> Response:
    """Replace a token: the old one stays valid for a while; the new one ends when the old one would have ended."""

    async def rotate() -> Made:
        _own(parts, token, caller)
        _may_make(caller, f"token {token}")
        made = parts.tokens.rotate(token, overlap.overlap_s, parts.tokens.get(caller.token))
        if made is None:
            raise Refusal(409, "it has expired or was revoked", f"token {token}", "make a new one")
        return made

    made = await parts.change(caller, "rotate token", token, rotate(), 201)
    return reply(_token_view(made.kept) | {"token": made.secret}, 201)


@router.delete("/v1/tokens/{token}", responses={200: {"model": TokenView}}, tags=["tokens"])
async def revoke_token(token: TokenId, parts: Service, caller: Identified) -> Response:
    """Revoke a token and all tokens that were rotated from it or made with it."""

    async def revoke() -> Token | None:
        _own(parts, token, caller)
        return parts.tokens.revoke(token)

    gone = await parts.change(caller, "revoke token", token, revoke())
    assert gone is not None
    return reply(_token_view(gone))


def _may_make(caller: Caller, where: str) -> None:
    """Refuse pages, and over TCP all but admins: a leaked token could make others that outlive its own discovery."""
    if caller.page:
        raise Refusal(403, "a page makes no tokens", where, "use the command: cohabit token")
    if not caller.local and not caller.administers:
        raise Refusal(403, "over TCP only an admin makes or rotates tokens", where, "use the socket, or ask an admin")


def _own(parts: Parts, token: str, caller: Caller) -> None:
    found = parts.tokens.get(token)
    if found is None or not (caller.administers or found.user == caller.user):
        raise Refusal(404, "there is no such token, or it is not yours", f"token {token}", "cohabit token list")


def _token_view(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "user": token.user,
        "label": token.label,
        "made_at": token.made_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "valid": token.valid(time.time()),
        "parents": list(token.parents),
        "page": token.page,
    }
