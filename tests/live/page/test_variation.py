"""How run times vary, on the page: of a live controller from its latest records, of a finished run from its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cohabit.app.view import learning
from cohabit.app.view.run import FinishedRun
from cohabit.live.api.settings import ApiSettings
from cohabit.report.variation import by_program
from tests.live.api.serving import Server, served
from tests.live.page.browsing import Tab
from tests.live.page.conftest import link_of

SLEEPS = ("0.2", "0.2", "0.2", "0.2", "0.2", "2.5")  # the last varies: 2.1 deviations above the mean


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A controller with six ended runs of one program, and two of another."""
    with served(ApiSettings()) as one:
        for seconds in SLEEPS:
            one.over(one.submit(f"sleep {seconds}", program="nap"))
        for _ in range(2):
            one.over(one.submit("true", program="short"))
        one.over(one.submit("exit 1", program="nap"))
        yield one


def test_a_living_controller_tells_it_of_programs_with_five_runs(server: Server) -> None:
    (row,) = server.ask("GET", "/v1/page/programs").body["variation"]
    assert (row["program"], row["runs"], row["varying_runs"]) == ("nap", len(SLEEPS), 1)
    assert row["longest_run_ratio"] > 2
    assert row["run_variation"] > 0.5


def test_a_finished_run_tells_it_as_its_report(runs: tuple[Path, Path, Path]) -> None:
    run = FinishedRun(runs[0])
    assert learning.programs(run)["variation"] == by_program(run.table)


@pytest.mark.system
def test_the_panel_shows_it(server: Server, tab: Callable[..., Tab]) -> None:
    one = tab().open(link_of(server))
    one.view("programs", "#card-variation")
    one.see("1 of 6 runs vary")
    assert not one.cut()
