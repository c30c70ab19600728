"""The page's data has one shape: what a live controller answers and what a finished run answers are the same types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import msgspec
import pytest

from cohabit.app.view import jobs as view_jobs
from cohabit.app.view import learning as view_learning
from cohabit.app.view.run import FinishedRun
from cohabit.live.api.page import documents
from cohabit.live.api.settings import ApiSettings
from tests.live.api.serving import Server, served

Documents = dict[str, Any]  # by the name of their type
EVERY = (
    "About", "Overview", "Series", "JobList", "OneJob", "Node", "Programs", "Predictions", "Domains",
)  # fmt: skip


@pytest.fixture(scope="module")
def live() -> Iterator[Documents]:
    """The documents of a controller with a running, a waiting and an ended job."""
    with served(ApiSettings()) as server:
        server.over(server.submit("true", name="ended"))
        for name in ("first", "second", "third"):
            server.submit("sleep 600", name=name, nodes=1, limit_s=600)
        server.until(lambda: server.show("second")["state"] == "running")
        yield _live_documents(server)
        for name in ("third", "second", "first"):
            server.ask("POST", f"/v1/jobs/{name}/cancel")


def _live_documents(server: Server) -> Documents:
    def ask(path: str) -> Any:
        answer = server.ask("GET", f"/v1/page/{path}")
        assert answer.status == 200, answer
        return answer.body

    paths = {
        "About": "about", "Overview": "overview", "Series": "series", "JobList": "jobs", "OneJob": "jobs/first",
        "Node": "nodes/0", "Programs": "programs", "Predictions": "predictions", "Domains": "domains",
        "EndedList": "jobs?view=finished",
    }  # fmt: skip
    return {name: ask(path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def finished(runs: tuple[Path, Path, Path]) -> Documents:
    """The documents of a run on shared nodes; the domains are those of a run of two."""
    run, coupled = FinishedRun(runs[0]), FinishedRun(runs[2])
    middle = run.about([])["at"]
    made: Documents = {
        "About": run.about([{"name": run.name, "policy": run.table.policy}]),
        "Overview": run.overview(middle),
        "Series": run.whole_series,
        "JobList": view_jobs.listed(run, "all", "", "submitted_at", False, 0, 50, middle),
        "OneJob": view_jobs.one_job(run, "15"),
        "Node": view_jobs.one_node(run, 0, middle),
        "Programs": view_learning.programs(run),
        "Predictions": view_learning.predictions(run),
        "Domains": view_learning.domains(coupled),
    }
    return {name: msgspec.json.decode(msgspec.json.encode(one)) for name, one in made.items()}


def type_of(name: str) -> Any:
    return getattr(documents, name)


def keys(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The keys that each side must have, and those that it may have."""
    hints = get_type_hints(type_of(name), include_extras=True)
    allowed = frozenset(key for key, kind in hints.items() if get_origin(kind) is NotRequired)
    return frozenset(hints) - allowed, allowed


@pytest.mark.parametrize("name", EVERY)
def test_both_sides_have_the_same_keys(name: str, live: Documents, finished: Documents) -> None:
    needed, allowed = keys(name)
    for made in (live[name], finished[name]):
        assert needed <= made.keys() <= needed | allowed
    assert live[name].keys() - finished[name].keys() <= allowed
    assert finished[name].keys() - live[name].keys() <= allowed


@pytest.mark.parametrize("name", EVERY)
def test_both_sides_are_of_the_type_to_the_last_key(name: str, live: Documents, finished: Documents) -> None:
    for made in (live[name], finished[name]):
        assert as_typed(made, name) == made


def as_typed(made: Any, name: str) -> Any:
    """The document as its type has it: msgspec leaves out unknown keys, and refuses missing keys and wrong types."""
    return msgspec.convert(made, type_of(name))


def test_ended_jobs_of_a_controller_are_lines_with_details(live: Documents) -> None:
    (line,) = live["EndedList"]["jobs"]
    assert keys("JobLine")[0] <= line.keys()
    details = set().union(*keys("JobDetails"))
    assert line.keys() <= details
    assert line["nodes"] == 1


@pytest.mark.parametrize(
    "spoil",
    [lambda one: one.pop("counts"), lambda one: one.update(more=1), lambda one: one["nodes"].update(cores="many")],
)
def test_what_is_not_of_the_type_is_found(spoil: Callable[[Any], object], live: Documents) -> None:
    made = msgspec.json.decode(msgspec.json.encode(live["Overview"]))
    spoil(made)
    try:
        same = as_typed(made, "Overview") == made
    except msgspec.ValidationError:
        same = False
    assert not same
