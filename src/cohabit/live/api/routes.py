"""The common parts of all routes: the identity of a caller, the form of an answer, the description of refusals."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
from fastapi import Depends, Request, Response

from cohabit.live.api.credentials import Caller
from cohabit.live.api.page.sessions import Asked
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal
from cohabit.live.api.shapes import JobId, Problem

# By reference except for one: a model for each status of each route takes a tenth of a second of every start.
_PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "It cannot be done as asked"},
    401: {"content": _PROBLEM, "description": "No token, or a wrong one"},
    403: {"content": _PROBLEM, "description": "Not yours, or not your role"},
    404: {"content": _PROBLEM, "description": "There is no such thing"},
    409: {"content": _PROBLEM, "description": "Its state does not allow it"},
    413: {"content": _PROBLEM, "description": "The request is too large"},
    422: {"content": _PROBLEM, "description": "The request is not understood"},
    429: {"content": _PROBLEM, "description": "Too much at once, or a limit of yours"},
    500: {"content": _PROBLEM, "description": "The scheduler failed on this request and left it out"},
    503: {"content": _PROBLEM, "description": "Not now: the journal cannot be written, or the server is stopping"},
}


async def parts_of(request: Request) -> Parts:  # async, because FastAPI calls plain functions in threads
    """Return the service that received a request."""
    return cast(Parts, request.app.state.parts)


async def find_caller(request: Request) -> Caller:
    """Return the caller, or refuse."""
    parts, state = await parts_of(request), request.scope["state"]
    caller = await parts.door.caller(state, request.headers, asked_for(request))
    state["user"], state["caller"] = caller.user, caller  # for the logs
    if "connection" in state and not state["connection"].is_of(caller):
        raise Refusal(429, "you have too many connections", "connection", "close some of them")
    return caller


def asked_for(request: Request) -> Asked:
    """Return the parts of a request that a page's signature must cover."""
    scope, query = request.scope, request.scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    return Asked(request.method, target.decode("latin-1"), scope.get("state", {}).get("body", b""))


def operator(caller: Caller, where: str) -> None:
    """Refuse callers that are not operators."""
    if not caller.operates:
        raise Refusal(403, "only operators may do this", where, "ask one")


def reply(document: Any, status: int = 200) -> Response:
    """Return a document of plain data as JSON."""
    return Response(msgspec.json.encode(document), status, media_type="application/json")


Service = Annotated[Parts, Depends(parts_of)]
Identified = Annotated[Caller, Depends(find_caller)]
Job = JobId
