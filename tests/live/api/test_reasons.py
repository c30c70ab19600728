"""One reason everywhere: lists, `why`, the page and a dry run say the same of a job that waits."""

from __future__ import annotations

from cohabit.core.checkpoint import save
from cohabit.live.api.dry_run import expected_starts, foresee
from cohabit.live.api.page.views import living_jobs
from cohabit.model.units import SECOND
from tests.core.shared_story import must, story
from tests.live.api.serving import Server
from tests.support.builders import job
from tests.support.clusters import SHARED


def test_lists_and_why_say_the_same(server: Server) -> None:
    first = server.submit("exit 0", hold=True)
    after = server.submit("exit 0", after=[first])
    blocked = [server.submit("sleep 60", nodes=2, limit_s=100.0 + at) for at in range(3)]
    listed = {one["job"]: one for one in server.ask("GET", "/v1/jobs").body["jobs"]}
    waiting = [name for name in (first, after, *blocked) if listed[name]["started_at"] is None]
    assert len(waiting) >= 4
    for name in waiting:
        why = server.ask("GET", f"/v1/jobs/{name}/why").body
        assert why["short"] == listed[name]["why"] != ""
        assert why["why"].startswith(why["short"].partition(";")[0])
        assert server.show(name)["why"].startswith(why["short"].partition(";")[0])
    for name in (first, after, *blocked):
        server.ask("POST", f"/v1/jobs/{name}/cancel")


def test_a_dry_run_tells_the_start_that_why_tells() -> None:
    """By request the nodes are busy for 1000 s, by profile for 100 s: the promise tells both."""
    tell = story(placement="joint", backfill="easy")
    for number in range(3):
        must(tell.run(0, f"long{number}", "compact", limit_s=1000.0, processes=8, exclusive=True))
    saved, wide = save(tell.core), job("wide", program="compact", processes=32, exclusive=True, limit_s=1000.0)
    seen = foresee(saved, SHARED, tell.core.policies, wide, SECOND)
    assert tell.run(1, "wide", "compact", processes=32, exclusive=True, limit_s=1000.0) is None
    promise = tell.core.state.promises[tell.core.state.rows["wide"]]
    assert (seen.start_us, seen.nodes) == (promise.expected_us, [0, 1, 2, 3])
    what, expected = "needs 4 empty nodes; 1 is empty", "expected in 1 min 39 s"
    within = "promised a start within 16 min 39 s"
    assert seen.why == f"{what}; {within} on 4 nodes, {expected}"
    assert tell.why("wide", 1).startswith(what)
    assert tell.why("wide", 1).endswith(f"{within} on 4 nodes, {expected}")
    ahead = expected_starts(saved, SHARED, tell.core.policies, SECOND)
    assert (ahead.starts, ahead.why) == ({}, "")  # no job waited when the copy was made
    ahead = expected_starts(save(tell.core), SHARED, tell.core.policies, SECOND)
    assert ahead.starts["wide"][1:3] == (promise.expected_us, [0, 1, 2, 3])
    (line,) = living_jobs(tell.core, None, "queued", "", "seq", False, 0, 10, SECOND)["jobs"]
    assert line["why"] == seen.why


def test_starts_of_all_waiting_jobs_by_requested_times() -> None:
    """One node of the four for each: the fifth and sixth start when the first two end."""
    tell = story(placement="joint", backfill="easy")
    for number in range(6):
        tell.run(0, f"j{number}", "compact", limit_s=100.0 * (number + 1), processes=8, exclusive=True)
    tell.run(0, "held", "compact", limit_s=50.0, processes=8, exclusive=True, held=True)
    tell.run(0, "later", "compact", limit_s=50.0, processes=8, exclusive=True, after=("j5",))
    found = expected_starts(save(tell.core), SHARED, tell.core.policies, SECOND).starts
    promised = {row: tell.core.state.spec(row).job_id for row in tell.core.state.promises}
    assert set(found) == {"j4", "j5", "later"}
    assert found["later"].start_us == 800 * SECOND
    assert [found[name].start_us for name in ("j4", "j5") if name not in promised.values()] == [200 * SECOND]
