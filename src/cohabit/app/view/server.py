"""The small server of `cohabit view`: the controller's page over finished runs, on loopback, for one user.

It answers the queries of live/api/page/data.py and accepts no changes. The key in the link signs requests as for a
running scheduler (live/api/page/sessions.py), so that other users of this machine see nothing. It writes no file.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from cohabit.app.view import jobs as view_jobs
from cohabit.app.view import learning as view_learning
from cohabit.app.view.run import FinishedRun
from cohabit.app.view.what_if import Asked, choices, what_if
from cohabit.live.api.page import files as page_files
from cohabit.live.api.page.charts import KIND
from cohabit.live.api.page.documents import RunName
from cohabit.live.api.page.door import Entry
from cohabit.live.api.page.origin import SameOrigin
from cohabit.live.api.page.sessions import Asked as Signed
from cohabit.live.api.page.sessions import PageSessions, enter, same, signature
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import asked_for, reply
from cohabit.model.errors import InputError
from cohabit.policy.registry import BUNDLES

MOST_TABS = 100  # one more closes the first session
At = Annotated[float | None, Query(allow_inf_nan=False)]


class Viewer:
    """The runs, the key of the link (NAME.SECRET), and its sessions."""

    def __init__(self, runs: Sequence[FinishedRun]) -> None:
        self.runs = list(runs)
        self._name, self._secret = secrets.token_hex(8), secrets.token_urlsafe(24)
        self._tabs: list[str] = []
        self._sessions = PageSessions(self._tabs.__contains__)
        self.key = f"{self._name}.{self._secret}"

    def enter(self, entry: Entry) -> dict[str, Any] | None:
        """Open a session for a caller with the key; None: the caller does not have it."""
        secret = self._secret.encode()
        if entry.key != self._name or not same(entry.proof, signature(secret, "enter", entry.nonce)):
            return None
        entered, name = enter(secret, entry.nonce), secrets.token_hex(6)
        self._tabs.append(name)
        del self._tabs[:-MOST_TABS]
        self._sessions.open(name, entered.secret)
        return {"id": name, "nonce": entered.nonce, "proof": entered.proof, "user": "", "at": time.time()}

    def knows(self, text: str, asked: Signed) -> bool:
        """Return whether a request is signed by one of the sessions."""
        return self._sessions.check(text, asked) is not None

    def run(self, number: int) -> FinishedRun:
        """Return one of the runs."""
        if not 0 <= number < len(self.runs):
            raise Refusal(404, "there is no such run", f"run {number}", "they are numbered from 0")
        return self.runs[number]


def make_app(viewer: Viewer) -> FastAPI:
    """Return the app over these runs."""
    app = FastAPI(title="cohabit view", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.viewer = viewer
    app.include_router(page_files.router)
    app.include_router(_pages(), dependencies=[Depends(_known)])
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(InputError, _not_there)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_middleware(SameOrigin)

    @app.post("/v1/page/enter")
    async def enter_page(entry: Entry) -> Response:
        """A session; the link stays good, for more tabs."""
        made = viewer.enter(entry)
        if made is None:
            raise Refusal(401, "this is not the link of this view", "key", "open the link `view` printed")
        return reply(made)

    return app


def _viewer(request: Request) -> Viewer:
    found: Viewer = request.app.state.viewer
    return found


async def _known(request: Request) -> None:
    """Refuse a request that is not signed by a session of the link."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "page" or not _viewer(request).knows(text.strip(), asked_for(request)):
        raise Refusal(401, "the link was not used, or is an old one", "Authorization", "open the link `view` printed")


def _pages() -> APIRouter:
    router = APIRouter(prefix="/v1/page")
    viewer_busy = threading.Lock()  # one simulation at a time

    @router.get("/about")
    def about(request: Request, run: int = 0) -> Response:
        viewer = _viewer(request)
        runs: list[RunName] = [{"name": one.name, "policy": one.table.policy} for one in viewer.runs]
        return reply(viewer.run(run).about(runs))

    @router.get("/jobs")
    def jobs(
        request: Request,
        run: int = 0,
        at: At = None,
        view: Literal["queued", "running", "waiting", "finished", "all"] = "all",
        find: Annotated[str, Query(max_length=100)] = "",
        sort: Annotated[str, Query(max_length=20)] = "submitted_at",
        down: bool = False,
        first: Annotated[int, Query(ge=0)] = 0,
        most: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> Response:
        return reply(view_jobs.listed(_viewer(request).run(run), view, find, sort, down, first, most, at))

    @router.get("/jobs/{job:path}/why")
    def why(job: str, request: Request, run: int = 0) -> Response:
        from cohabit.app.simulate.explaining import explain_job

        chosen = _viewer(request).run(run)
        story = explain_job(chosen.folder, job)
        origin = chosen.origin_us / 1e6
        history = [{"at": one["at_s"] - origin, "why": one["reason"]} for one in story["reasons"]]
        return reply({"summary": story["summary"], "history": history})

    @router.get("/gantt")
    def gantt(request: Request, run: int = 0) -> Response:
        return Response(_viewer(request).run(run).gantt, media_type=KIND)

    @router.get("/compare")
    def compare(request: Request) -> Response:
        viewer = _viewer(request)
        if len(viewer.runs) < 2:
            raise Refusal(404, "there is only one run", "compare", "cohabit view RUN1 RUN2")
        return reply(view_learning.compare(viewer.runs))

    @router.get("/whatif")
    def asked(
        request: Request,
        run: int = 0,
        nodes: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
        alpha: Annotated[float | None, Query(gt=0, le=1, allow_inf_nan=False)] = None,
        policy: Annotated[str, Query(max_length=40)] = "",
    ) -> Response:
        if policy and policy not in BUNDLES:
            raise Refusal(422, f"there is no policy {policy!r}", "policy", "cohabit policies lists them")
        with viewer_busy:
            return reply(what_if(_viewer(request).run(run), Asked(nodes, alpha, policy)))

    _one_run(router, "/whatif/choices", lambda run, _: choices(run))
    _one_run(router, "/overview", lambda run, at: run.overview(at))
    _one_run(router, "/series", lambda run, _: run.whole_series)
    _one_run(router, "/programs", lambda run, _: view_learning.programs(run))
    _one_run(router, "/predictions", lambda run, _: view_learning.predictions(run))
    _one_run(router, "/domains", lambda run, _: view_learning.domains(run))

    @router.get("/jobs/{job:path}")  # job names of a trace may contain slashes
    def one_job(job: str, request: Request, run: int = 0) -> Response:
        return reply(view_jobs.one_job(_viewer(request).run(run), job))

    @router.get("/nodes/{node}")
    def one_node(node: int, request: Request, run: int = 0, at: At = None) -> Response:
        return reply(view_jobs.one_node(_viewer(request).run(run), node, at))

    return router


def _one_run(router: APIRouter, path: str, document: Callable[[FinishedRun, float | None], Any]) -> None:
    """Add a route that returns one document of one run at one instant."""

    @router.get(path)
    def look(request: Request, run: int = 0, at: At = None) -> Response:
        return reply(document(_viewer(request).run(run), at))


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return reply({"error": error.error, "where": error.where, "fix": error.fix}, error.status)


async def _not_there(_: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return reply({"error": error.what, "where": error.where, "fix": error.fix}, 404)


async def _not_understood(_: Request, error: Exception) -> Response:
    return reply({"error": "the question is not understood", "where": "address", "fix": "use the page"}, 422)


def listen(port: int) -> socket.socket:
    """Return a socket on loopback; 0: any free port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # at once: the user may open the link before the server is ready
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot be listened on: {(error.strerror or str(error)).lower()}",
            f"127.0.0.1:{port}",
            "choose another --port",
        ) from error
    return listener


def serve(viewer: Viewer, listener: socket.socket) -> None:
    """Answer until Ctrl-C."""
    import uvicorn

    config = uvicorn.Config(
        make_app(viewer),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run([listener])
