"""The app: all routes, and one form for all refusals. It decides nothing."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from cohabit.live.api import coscheduling_routes, job_routes, profile_routes, reload_routes, site_routes, window_routes
from cohabit.live.api.audit import Refused
from cohabit.live.api.credentials import Caller
from cohabit.live.api.guard import Guard
from cohabit.live.api.page import data as page_data
from cohabit.live.api.page import door as page_door
from cohabit.live.api.page import files as page_files
from cohabit.live.api.page.origin import SameOrigin
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal, problem_of
from cohabit.live.api.routes import reply
from cohabit.live.controller.journal import JournalError
from cohabit.live.controller.refusals import Busy
from cohabit.live.peers.origins import Origin, Peer
from cohabit.model.errors import InputError

PATH_MOST = 200  # characters of a refused path in the audit log
_WORDS = {404: "there is nothing at this address", 405: "this address does not take such a request"}


def make_app(parts: Parts) -> FastAPI:
    """Return the app of one service; the server sets the page's address for browsers later (PageDoor.address)."""
    app = FastAPI(
        title="cohabit",
        version=parts.version,
        description="A running scheduler. docs/api.md explains it.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.parts, app.state.page_door = parts, page_door.PageDoor()
    for routes in (
        job_routes,
        coscheduling_routes,
        profile_routes,
        reload_routes,
        site_routes,
        window_routes,
        page_files,
        page_door,
        page_data,
    ):
        app.include_router(routes.router)
    for kind in (Refusal, InputError, Busy, JournalError):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(HTTPException, _plain)
    app.add_middleware(SameOrigin)
    app.add_middleware(Guard, answered=parts.metrics.answered, refused=partial(_note_refused, parts))
    return app


async def _refused(request: Request, error: Exception) -> Response:
    said = problem_of(error)
    request.scope["state"]["refused"] = "" if getattr(error, "is_noted", False) else said.noted
    answer = reply({"error": said.error, "where": said.where, "fix": said.fix}, said.status)
    if said.status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    if said.status in (429, 503):
        answer.headers["retry-after"] = "1"
    return answer


async def _not_understood(request: Request, error: Exception) -> Response:
    """Report the first error only; the others usually follow from it."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(next(iter(error.errors()), {}))
    text = str(first.get("msg", "is not understood")).removeprefix("Value error, ")
    where = ".".join(str(step) for step in first.get("loc", ()) if step != "body") or "body"
    request.scope["state"]["refused"] = f"{where[:100]}: {text}"
    return reply({"error": text[:1].lower() + text[1:300], "where": where[:200], "fix": "see docs/api.md"}, 422)


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = _WORDS.get(error.status_code, str(error.detail))
    request.scope["state"]["refused"] = text
    answer = reply({"error": text[:1].lower() + text[1:], "where": "", "fix": "see docs/api.md"}, error.status_code)
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def _note_refused(parts: Parts, scope: MutableMapping[str, Any], status: int) -> None:
    """Write a refused request to the audit log, before the answer is sent.

    Requests are refused in many places; each stores its reason with the request (`refused` of its state). Refused
    changes are logged where they are refused, in more detail; their reason is empty here."""
    state: MutableMapping[str, Any] = scope.get("state", {})
    said = state.get("refused", "the request was refused")
    if not said:
        return
    caller, peer, origin = state.get("caller"), state.get("peer"), state.get("origin")
    counted = origin.counted if isinstance(origin, Origin) else "?"
    user, role, came_from = "", "", str(origin or "?")
    if isinstance(caller, Caller):
        user, role, came_from, counted = caller.user, caller.role, caller.origin, f"uid {caller.number}"
    elif isinstance(peer, Peer):
        user, came_from = await parts.accounts.name_of(peer.uid), f"socket, process {peer.pid}"
    path = scope["path"][:PATH_MOST]
    parts.audit.refuse(Refused(counted, scope["method"], path, status, said, user, role, came_from))
    await parts.audit.written()
