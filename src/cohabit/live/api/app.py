"""The app: all routes, and one form for all refusals. It decides nothing."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from cohabit.live.api import job_routes, profile_routes, site_routes
from cohabit.live.api.guard import Guard
from cohabit.live.api.noting import Refusals
from cohabit.live.api.page import page
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal, problem_of
from cohabit.live.api.routes import reply
from cohabit.live.controller.journal import JournalError
from cohabit.live.controller.refusals import Busy
from cohabit.model.errors import InputError

_WORDS = {404: "there is nothing at this address", 405: "this address does not take such a request"}


def make_app(parts: Parts) -> FastAPI:
    """Return the app of one service."""
    app = FastAPI(
        title="cohabit", version=parts.version, description="A living scheduler. docs/api.md explains it.",
        openapi_url=None, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.parts = parts
    app.include_router(job_routes.router)
    app.include_router(site_routes.router)
    app.include_router(profile_routes.router)
    page.install(app)
    for kind in (Refusal, InputError, Busy, JournalError):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(HTTPException, _plain)
    app.add_middleware(Guard, answered=parts.metrics.answered, refused=Refusals(parts).note)
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
