"""One running scheduler with two nodes for all tests that only look or add jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verbs.living import Scheduler


@pytest.fixture(scope="session")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    scheduler = Scheduler(tmp_path_factory.mktemp("up") / "place").start()
    yield scheduler
    scheduler.call("cancel", "--all")
    assert scheduler.stop() == 0, scheduler.errors()
    assert "Traceback" not in scheduler.errors()
