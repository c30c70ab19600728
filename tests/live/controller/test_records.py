"""Records of jobs: one row each, what people ask of them, and the same rows whatever a crash has lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.backend.protocol import Launch
from cohabit.core import checkpoint
from cohabit.core.protocols import PolicySet
from cohabit.live.controller import records
from cohabit.live.controller.journal import Checkpoint, _Owed, open_journal
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.records import ALL, FINISHED, NOTES_MOST, QUEUED, RUNNING, Record
from cohabit.live.controller.recovery import restore
from cohabit.model import codec
from cohabit.model.cluster import Cluster, uniform_cluster
from cohabit.model.command import StartJob
from cohabit.model.event import (
    Event,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStarted,
    JobSubmitted,
    NodeDown,
    NodeUp,
)
from cohabit.model.job import Job
from cohabit.model.units import SECOND

LAUNCH = Launch(("/bin/true",), {"A": "b"}, stdout="out")


class Tale:
    """A controller's worker without a clock or a back end: batches into a journal, a core and a recorder."""

    def __init__(self, where: Path | str, cluster: Cluster, policies: PolicySet) -> None:
        self.where, self.cluster, self.policies = where, cluster, policies
        self.journal = open_journal(where)
        restored = restore(self.journal, cluster, policies)
        self.core, self.recorder, self.now_us = restored.core, restored.recorder, restored.last_us

    def tell(self, *events: Event) -> list[StartJob]:
        """One batch."""
        self.now_us += SECOND
        launches = {one.job.job_id: LAUNCH for one in events if isinstance(one, JobSubmitted)}
        seq = self.journal.append(self.now_us, events, launches)
        commands = self.core.step(self.now_us, events)
        self.journal.note(seq, commands, self.recorder.observe(seq, self.now_us, events, commands, self.core))
        return [one for one in commands if isinstance(one, StartJob)]

    def keep(self) -> None:
        """A checkpoint."""
        seq = self.journal.next_seq - 1
        self.journal.checkpoint(Checkpoint(seq, self.now_us, checkpoint.save(self.core), codec.encode([])))

    def die_and_come_back(self) -> None:
        """As kill -9 would have it: nothing owed is written."""
        self.journal._owed = _Owed()
        self.journal.close()
        self.__init__(self.where, self.cluster, self.policies)  # type: ignore[misc]

    def rows(self) -> dict[str, Record]:
        """All there are, written down."""
        self.journal.flush()
        with self.journal.reader().connect() as connection:
            page = records.page(connection, ALL, limit=10_000)
        assert page.before is None
        return {one.job_id: one for one in page.records}


@pytest.fixture
def cluster() -> Cluster:
    return uniform_cluster(4, 2)


@pytest.fixture
def policies() -> PolicySet:
    return build(PolicyConfig())


def job(name: str, **others: object) -> Job:
    return Job(name, limit_us=100 * SECOND, **{"nodes": 1, **others})  # type: ignore[arg-type]


def adventures(seed: int, batches: int) -> list[list[Event]]:
    """Batches of facts that make sense together; ends refer to attempts, so some come too late and mean nothing."""
    rng, told, names = random.Random(seed), [], list[str]()
    for number in range(batches):
        events: list[Event] = []
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(names) if names else ""
            kind = rng.random()
            if kind < 0.35 or not names:
                fresh = f"j{number}-{len(events)}"
                others = {"array_count": 3, "array_at_most": 2} if kind < 0.05 else {}
                after = (rng.choice(names),) if names and kind > 0.25 else ()
                events.append(JobSubmitted(job(fresh, user=rng.randint(0, 2), after=after, **others)))
                names += [f"{fresh}_{n}" for n in range(3)] if others else [fresh]
            elif kind < 0.75:
                status = rng.choice(["done", "done", "failed", "lost", "killed", "stopped"])
                attempt, code = rng.randint(1, 2), rng.randint(0, 3)
                events += [JobStarted(name, attempt), JobFinished(name, attempt, status, exit_status=code)]
            elif kind < 0.95:
                verbs: list[Event] = [
                    JobCancelled(name),
                    JobHeld(name),
                    JobReleased(name),
                    JobChanged(name, 7 * SECOND, 3),
                ]
                events.append(rng.choice(verbs))
            else:
                nodes: list[Event] = [NodeDown(rng.randint(0, 3)), *(NodeUp(node) for node in range(4))]
                events.append(rng.choice(nodes))
        told.append(events)
    return told


@pytest.mark.parametrize("seed", range(8))
def test_whatever_a_crash_loses_comes_out_the_same(
    tmp_path: Path, cluster: Cluster, policies: PolicySet, seed: int
) -> None:
    calm, stormy = (Tale(tmp_path / name, cluster, policies) for name in ("calm", "stormy"))
    rng = random.Random(seed)
    for batch in adventures(seed, 60):
        calm.tell(*batch)
        stormy.tell(*batch)
        if rng.random() < 0.15:
            stormy.keep()
        if rng.random() < 0.3:
            stormy.die_and_come_back()
    assert stormy.rows() == calm.rows()
    assert stormy.recorder.living == calm.recorder.living
    over = {name: one.status for name, one in calm.rows().items() if one.status}
    known = {name: "failed" if status == "lost" else status for name, status in over.items()}
    assert known.items() <= calm.core.state.finished.items()
    assert set(calm.core.state.rows) == {name for name, one in calm.rows().items() if not one.status}


def test_a_row_has_what_people_ask_for(where: Path | str, cluster: Cluster, policies: PolicySet) -> None:
    tale = Tale(where, cluster, policies)
    (start,) = tale.tell(JobSubmitted(job("a", user=7, program="prog", processes=3, nodes=2)))
    tale.tell(JobStarted("a", 1))
    living = tale.rows()["a"]
    assert (living.status, living.end_us, living.start_us) == ("", None, SECOND)
    tale.tell(JobFinished("a", 1, "failed", exit_status=3))
    tale.die_and_come_back()
    a = tale.rows()["a"]
    assert (a.user, a.program, a.processes, a.nodes, a.cores) == (7, "prog", 3, start.nodes, 4)
    assert (a.submit_us, a.start_us, a.end_us, a.attempt) == (SECOND, SECOND, 3 * SECOND, 1)
    assert (a.status, a.exit_status, a.exit_signal) == ("failed", 3, None)
    small = tale.journal.launch_of("a")
    assert small is not None
    assert (small.command, small.environment, small.stdout) == (LAUNCH.command, {}, "out")
    tale.journal.close()


def test_pages_and_times(where: Path | str, cluster: Cluster, policies: PolicySet) -> None:
    tale = Tale(where, cluster, policies)
    for number in range(10):
        tale.tell(JobSubmitted(job(f"j{number}", user=number % 2)))
    for number in range(3):
        tale.tell(JobFinished(f"j{number}", 1))
    tale.journal.flush()
    with tale.journal.reader().connect() as connection:

        def names(state: str, user: int | None = None) -> list[str]:
            found, before = list[str](), None
            while True:
                page = records.page(connection, state, user, 2, before)
                found += [one.job_id for one in page.records]
                if page.before is None:
                    return found
                before = page.before

        assert names(FINISHED) == ["j2", "j1", "j0"]
        assert names(RUNNING) == ["j6", "j5", "j4", "j3"]
        assert names(QUEUED) == ["j9", "j8", "j7"]
        assert names("") == ["j9", "j8", "j7", "j6", "j5", "j4", "j3"]
        assert names(ALL, user=1) == ["j9", "j7", "j5", "j3", "j1"]
        first = records.between(connection, 0, 13 * SECOND, limit=1)
        assert [one.job_id for one in first] == ["j0"]
        assert first[0].end_us is not None
        rest = records.between(connection, 0, 13 * SECOND, behind=(first[0].end_us, "j0"))
        assert [one.job_id for one in rest] == ["j1"]
        assert [one.job_id for one in records.between(connection, 0, 99 * SECOND, user=0)] == ["j0", "j2"]
    tale.journal.close()


def test_the_history_of_waits_stays_small() -> None:
    record = Record("a", 1)
    for number in range(100):
        record.with_note(number, f"why {number}")
        record.with_note(number, f"why {number}")
    assert len(record.notes) == NOTES_MOST
    assert (record.notes[0].why, record.notes[-1].why) == ("why 0", "why 99")


def test_only_jobs_that_are_not_over_are_held_in_memory(tmp_path: Path, cluster: Cluster, policies: PolicySet) -> None:
    tale = Tale(tmp_path / "journal.db", cluster, policies)
    tale.tell(*(JobSubmitted(job(f"j{number}")) for number in range(20)))
    for _ in range(5):
        for name in [name for name, one in tale.recorder.living.items() if one.phase == records.RUNS]:
            tale.tell(JobFinished(name, 1))
    assert (tale.recorder.living, len(tale.rows())) == ({}, 20)
    assert Recorder(tale.journal.read(records.living)).living == {}
