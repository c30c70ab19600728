"""What users, operators and Slurm itself do meanwhile: cancel, change, release, hold, drain, lose a node, depend."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.event import Event
from tests.backend.slurm.steering import attached, jobs_of, log_of, runs_noted, submit, until, write_site
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-8")]


def facts(folder: Path) -> list[Event]:
    """All the core was told, in order."""
    journal = open_journal(Place(folder / "state").journal)
    try:
        return [event for batch in journal.batches(after=0) for event in codec.decode_events(batch.events)]
    finally:
        journal.close()


def told(folder: Path, kind: str, job: str) -> list[Event]:
    return [one for one in facts(folder) if type(one).__name__ == kind and getattr(one, "job_id", "") == job]


def fill(slurm: SlurmCluster, folder: Path, go: Path) -> list[str]:
    """Every node taken until they may go."""
    names = [submit(slurm, folder, go, "-n28") for _ in range(8)]
    until(lambda: all(jobs_of(slurm)[name].state == "RUNNING" for name in names), 60, log_of(folder))
    return names


def test_users_and_operators(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "ce")
    with attached(site):
        running = fill(empty, tmp_path, tmp_path / "go")
        cancelled, changed, released, grown, plain = (submit(empty, tmp_path, 1, "-n28", "--time=10") for _ in range(5))
        until(lambda: sum(type(one).__name__ == "JobSubmitted" for one in facts(tmp_path)) == 13, 60, log_of(tmp_path))
        empty.run("scancel", cancelled)
        empty.run("scontrol", "update", f"JobId={changed}", "TimeLimit=7")
        empty.run("scontrol", "update", f"JobId={grown}", "NumTasks=40")
        empty.run("scontrol", "release", released)  # by the administrator: it is Slurm's own now
        empty.run("scancel", running[0])
        until(lambda: told(tmp_path, "JobCancelled", cancelled), 60, log_of(tmp_path))
        until(lambda: told(tmp_path, "JobChanged", changed), 60, log_of(tmp_path))
        assert told(tmp_path, "JobChanged", changed)[0].limit_us == 7 * 60 * 1_000_000  # type: ignore[union-attr]
        until(lambda: told(tmp_path, "JobFinished", running[0]), 60, log_of(tmp_path))
        assert told(tmp_path, "JobFinished", running[0])[0].status == "cancelled"  # type: ignore[union-attr]
        until(lambda: told(tmp_path, "JobCancelled", released), 60, log_of(tmp_path))
        empty.run("scontrol", "requeuehold", running[1])
        until(lambda: told(tmp_path, "JobHeld", running[1]), 60, log_of(tmp_path))
        (tmp_path / "go").touch()
        rest = [*running[2:], changed, released, grown, plain]
        until(lambda: all(jobs_of(empty)[name].state == "COMPLETED" for name in rest), 120, log_of(tmp_path))
        assert jobs_of(empty)[running[1]].held  # as the operator wants
        empty.run("scontrol", "release", running[1])  # and now not any more: decided upon again
        until(lambda: jobs_of(empty)[running[1]].state == "COMPLETED", 90, log_of(tmp_path))
    assert jobs_of(empty)[running[1]].mark.startswith("cohabit:run:2:")
    assert f"job {released} was released elsewhere" in log_of(tmp_path)()
    assert f"job {grown} was changed by its owner: left to Slurm" in log_of(tmp_path)()
    assert sorted(runs_noted(tmp_path)) == sorted([*running, running[1], *rest[6:]])


def test_nodes_drain_and_die(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "ce")
    try:
        with attached(site):
            empty.run("scontrol", "update", "NodeName=n0", "State=DRAIN", "Reason=test")
            until(lambda: any(type(one).__name__ == "NodeDrained" for one in facts(tmp_path)), 60, log_of(tmp_path))
            names = [submit(empty, tmp_path, tmp_path / "go", "-n28") for _ in range(8)]
            until(lambda: sum(jobs_of(empty)[name].runs for name in names) == 7, 60, log_of(tmp_path))
            assert all("n0" not in jobs_of(empty)[name].nodes for name in names)
            lost = next(name for name in names if jobs_of(empty)[name].nodes == ("n3",))
            empty.stop("n3")  # or it is back before anybody has looked

            def is_down() -> bool:  # said again: a late answer of its slurmd takes it back into service
                empty.run("scontrol", "update", "NodeName=n3", "State=DOWN", "Reason=test")
                return any(type(one).__name__ == "NodeDown" for one in facts(tmp_path))

            until(is_down, 60, log_of(tmp_path))
            empty.start("n3")
            (tmp_path / "go").touch()
            until(lambda: all(jobs_of(empty)[name].state == "COMPLETED" for name in names), 120, log_of(tmp_path))
            assert jobs_of(empty)[lost].mark.startswith("cohabit:run:2:")
            empty.run("scontrol", "update", "NodeName=n0", "State=RESUME")
            empty.run("scontrol", "update", "NodeName=n3", "State=RESUME", check=False)  # it may be back by itself
            last = [submit(empty, tmp_path, tmp_path / "off", "-n28") for _ in range(8)]
            until(lambda: all(jobs_of(empty)[name].runs for name in last), 60, log_of(tmp_path))  # all at once
            assert {jobs_of(empty)[name].nodes for name in last} == {(f"n{number}",) for number in range(8)}
            (tmp_path / "off").touch()
            until(lambda: all(jobs_of(empty)[name].state == "COMPLETED" for name in last), 60, log_of(tmp_path))
    finally:
        if "n3" not in empty.daemons:
            empty.start("n3")
        empty.run("scontrol", "update", "NodeName=n[0-7]", "State=RESUME", check=False)
    assert sorted(runs_noted(tmp_path)) == sorted([*names, lost, *last])


def test_dependencies_arrays_and_begin_times_are_slurms(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "cs")
    with attached(site):
        first = submit(empty, tmp_path, 3, "-n4")
        after = submit(empty, tmp_path, 1, "-n4", f"--dependency=afterok:{first}")
        array = submit(empty, tmp_path, 2, "-n4", "--array=1-5%2")
        later = submit(empty, tmp_path, 1, "-n4", "--begin=now+6")
        tasks = [f"{array}_{number}" for number in range(1, 6)]
        most = 0

        def over() -> bool:
            nonlocal most
            jobs = jobs_of(empty)
            most = max(most, sum(jobs[name].runs for name in tasks if name in jobs))
            return all(name in jobs and jobs[name].state == "COMPLETED" for name in (first, after, later, *tasks))

        until(over, 120, log_of(tmp_path))
    jobs = jobs_of(empty)
    assert jobs[after].start_s >= jobs[first].end_s
    assert most == 2
    assert jobs[later].start_s >= jobs[later].submit_s + 6
    assert all(jobs[name].mark.startswith("cohabit:run:") for name in (first, after, later, *tasks))
    assert len(runs_noted(tmp_path)) == 8


def test_what_is_not_understood_goes_to_slurm_untouched(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "cs")
    with attached(site):
        odd = {
            submit(empty, tmp_path, 1, "-n4", "--nodelist=n5"): "names nodes of its own",
            submit(empty, tmp_path, 1, "-n4", "--contiguous"): "asks for contiguous nodes",
            submit(empty, tmp_path, 1, "-n4", "-N1-2"): "takes between 1 and 2 nodes",
            submit(empty, tmp_path, 1, "-n4", "--mincpus=4"): "wants at least 4 CPUs on each node",
        }
        until(lambda: all(jobs_of(empty)[name].state == "COMPLETED" for name in odd), 60, log_of(tmp_path))
    for name, why in odd.items():
        assert f"job {name} {why}: left to Slurm" in log_of(tmp_path)()
        assert jobs_of(empty)[name].mark == "cohabit:back"
    assert sorted(runs_noted(tmp_path)) == sorted(odd)


def test_a_job_of_slurms_own_keeps_its_node_to_itself(empty: SlurmCluster, tmp_path: Path) -> None:
    foreign = submit(empty, tmp_path, 600, "-n2", "--nodelist=n0")  # before anybody holds jobs
    until(lambda: jobs_of(empty)[foreign].state == "RUNNING")
    site = write_site(empty, tmp_path, "cs")
    with attached(site):
        names = [submit(empty, tmp_path, 1, "-n28") for _ in range(8)]
        until(lambda: all(jobs_of(empty)[name].state == "COMPLETED" for name in names), 60, log_of(tmp_path))
        assert all(jobs_of(empty)[name].nodes != ("n0",) for name in names)
        empty.run("scancel", foreign)
        until(lambda: not jobs_of(empty)[foreign].runs, 60)
        last = [submit(empty, tmp_path, tmp_path / "go", "-n28") for _ in range(8)]
        until(lambda: all(jobs_of(empty)[name].runs for name in last), 60, log_of(tmp_path))  # all at once
        assert ("n0",) in {jobs_of(empty)[name].nodes for name in last}
