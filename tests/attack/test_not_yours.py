"""Jobs of others are answered like jobs that never were: the same status, the same words, the same time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attack.accounts import Account, act_as
from tests.attack.asking import fresh_controller, link_of
from tests.attack.controllers import RootController
from tests.live.api.page_visitor import visitor
from tests.live.api.serving import UnixConnection, ask

ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "", None), ("GET", "/why", None), ("GET", "/output", None),
    ("GET", "/output?stream=stderr&follow=true", None),
    ("GET", "/wait?timeout_s=0", None), ("POST", "/cancel", None), ("POST", "/hold", None), ("POST", "/release", None),
    ("POST", "/requeue", None), ("PATCH", "", {"limit_s": 1}), ("PATCH", "", {"qos": 5}),
]  # fmt: skip


@pytest.fixture(scope="module")
def up() -> Iterator[RootController]:
    """One for all."""
    with fresh_controller() as one:
        yield one


@pytest.fixture(scope="module")
def of_bob(up: RootController, bob: Account) -> list[str]:
    """Bob's jobs of every kind: over, running, held, an array and its members."""
    over, runs = up.submit(bob, "echo secret"), up.submit(bob, "sleep 120", limit_s=300)
    held, array = up.submit(bob, "true", hold=True), up.submit(bob, "true", hold=True, array="1-3")
    named = up.submit(bob, "true", name="bobs-secret-plan", hold=True)
    up.over(over)
    return [over, runs, held, array, f"{array}_2", named]


def asked(up: RootController, account: Account, calls: list[tuple[str, str, Any]]) -> list[tuple[int, Any, list[str]]]:
    """Status, body and headers of several requests of one account."""

    def work() -> list[Any]:
        found = []
        for method, path, body in calls:
            answer = ask(UnixConnection(str(up.socket)), method, path, body)
            found.append([answer.status, answer.body, sorted(f"{k}: {v}" for k, v in answer.headers.items()
                                                             if k not in ("date", "content-length"))])  # fmt: skip
        return found

    return [(status, body, headers) for status, body, headers in act_as(account, work)]


def test_no_route_tells_a_job_of_others_from_none(up: RootController, ann: Account, of_bob: list[str]) -> None:
    for job in of_bob:
        missing = f"{job[:-2]}99_2" if job.endswith("_2") else f"{job}99"
        for method, path, body in ROUTES:
            calls = [(method, f"/v1/jobs/{name}{path}", body) for name in (job, missing)]
            real, none = asked(up, ann, calls)
            assert real[0] == 404, (method, path, real)
            assert "secret" not in str(real[1]).replace(job, "")
            assert str(real[1]).replace(job, "X") == str(none[1]).replace(missing, "X"), (method, path)
            assert (real[0], real[2]) == (none[0], none[2])
            assert real[1]["fix"], "it says what to do"


def test_a_dependency_on_a_job_of_others_is_one_on_none(up: RootController, ann: Account, of_bob: list[str]) -> None:
    for job in of_bob:
        for query in ("", "?dry_run=true"):
            calls = [("POST", f"/v1/jobs{query}", {"command": ["true"], "after": [name]}) for name in (job, f"{job}99")]
            real, none = asked(up, ann, calls)
            assert (real[0], none[0]) == (404, 404)
            assert str(real[1]).replace(job, "X") == str(none[1]).replace(f"{job}99", "X")


def test_the_page_does_not_tell_either(up: RootController, ann: Account, of_bob: list[str]) -> None:
    page = visitor(link_of(up, ann))
    for job in of_bob:
        real, none = (page.ask("GET", f"/v1/page/jobs/{name}") for name in (job, f"{job}99"))
        assert (real.status, none.status) == (404, 404)
        assert str(real.body).replace(job, "X") == str(none.body).replace(f"{job}99", "X")


def test_time_does_not_tell(up: RootController, ann: Account, of_bob: list[str]) -> None:
    def work() -> list[list[float]]:
        took: list[list[float]] = [[], []]
        for _ in range(15):
            for times, name in zip(took, (of_bob[1], "no-such-job"), strict=True):
                begun = time.perf_counter()
                ask(UnixConnection(str(up.socket)), "GET", f"/v1/jobs/{name}")
                times.append(time.perf_counter() - begun)
        return took

    real, none = act_as(ann, work)
    assert min(*real, *none) >= 0.05, "refusals leave at fixed instants"
    assert abs(statistics.median(real) - statistics.median(none)) < 0.02


def test_owners_and_operators_see_them(up: RootController, bob: Account, of_bob: list[str]) -> None:
    for job in of_bob:
        assert up.ask(bob, "GET", f"/v1/jobs/{job}").status == 200
        assert up.ask(None, "GET", f"/v1/jobs/{job}").status == 200
