"""What operators and users do to a steered Slurm besides: reservations, limits, changes, jobs nobody understands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.app.client.client import connect
from cohabit.backend.slurm.calls import ReadOnly
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.steered.shapes import ManagerJob
from cohabit.model.event import JobSubmitted, NodeUsed, StartRefused, WindowCleared, WindowSet
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, jobs_of, log_of, runs_noted, submit, until, write_site
from tests.backend.slurm.test_slurms_own_changes import facts, told
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-operators")]
MORE = "Licenses=solver:2\nGresTypes=card"
PARTITION = "PartitionName=all Nodes=ALL Default=YES OverSubscribe=NO State=UP MaxTime=60"


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Three nodes with a feature, cards, and licences for all."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rich")
    (folder / "gres.conf").write_text("Name=card Count=2\n")
    text = LUA.read_text().replace("/var/lib/cohabit/lease", str(folder / "lease"))
    with running_slurm(
        folder, nodes=3, cores=4, partitions=PARTITION, more=MORE, node="Feature=wide Gres=card:2", job_submit=text,
        name="rich", scheduler=",bf_interval=1",
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.fixture
def clear(rich: SlurmCluster) -> SlurmCluster:
    rich.run("scancel", "--user=root", check=False)
    until(lambda: not rich.run("squeue", "--noheader").strip(), 60)
    return rich


def over(slurm: SlurmCluster, names: list[str]) -> bool:
    jobs = jobs_of(slurm)
    return all(jobs[name].state == "COMPLETED" for name in names)


def test_what_only_slurm_understands_runs_untouched(clear: SlurmCluster, tmp_path: Path) -> None:
    with attached(write_site(clear, tmp_path, "cs")):
        odd = {
            submit(clear, tmp_path, 1, "-n2", "--licenses=solver:1"): "asks for licences",
            submit(clear, tmp_path, 1, "-n2", "--constraint=wide"): "asks for a constraint",
            submit(clear, tmp_path, 1, "-n2", "--gres=card:1"): "asks for generic resources",
            submit(clear, tmp_path, 1, "-n2", "--exclude=n0"): "names nodes of its own",
            submit(clear, tmp_path, 1, "-n1", ":", "-n1"): "is part of a heterogeneous job",
        }
        until(lambda: over(clear, list(odd)), 90, log_of(tmp_path))
        for name, why in odd.items():
            assert f"job {name} {why}" in log_of(tmp_path)()
            assert jobs_of(clear)[name].mark == "cohabit:back"
    assert sorted(runs_noted(tmp_path)) == sorted(odd)


def test_reservations_and_limits_are_slurms(clear: SlurmCluster, tmp_path: Path) -> None:
    with attached(write_site(clear, tmp_path, "ce", within_s=4)):
        clear.run("scontrol", "create", "reservation", "ReservationName=visit", "Nodes=n0", "StartTime=now",
                  "Duration=60", "Users=daemon")  # fmt: skip
        try:
            until(lambda: any(type(one).__name__ == "NodeUsed" for one in facts(tmp_path)), 30, log_of(tmp_path))
            too_long = submit(clear, tmp_path, 1, "-n4", "--time=120")  # longer than its partition allows
            others = [submit(clear, tmp_path, 1, "-n4", "--time=5") for _ in range(4)]
            until(lambda: over(clear, others), 90, log_of(tmp_path))
            assert all("n0" not in jobs_of(clear)[name].nodes for name in others)
            until(lambda: told(tmp_path, "StartRefused", too_long), 60, log_of(tmp_path))
            assert "PartitionTimeLimit" in told(tmp_path, "StartRefused", too_long)[0].reason  # type: ignore[union-attr]
        finally:
            clear.run("scontrol", "delete", "ReservationName=visit")
        until(lambda: any(type(one).__name__ == "NodeUp" for one in facts(tmp_path)), 30, log_of(tmp_path))
        clear.run("scontrol", "update", f"JobId={too_long}", "TimeLimit=5")  # its owner gives in
        until(lambda: over(clear, [too_long]), 120, log_of(tmp_path))
    assert runs_noted(tmp_path).count(too_long) == 1


def test_no_job_is_sent_to_nodes_that_a_reservation_takes_before_its_limit(clear: SlurmCluster, tmp_path: Path) -> None:
    """Slurm would refuse it there; short jobs start on those nodes until then, and all when the reservation is gone."""
    create = ("scontrol", "create", "reservation", "ReservationName=cooling", "Nodes=n0,n1", "StartTime=now+5minutes")
    with attached(write_site(clear, tmp_path, "ce-easy", within_s=4)):
        clear.run(*create, "Duration=60", "Users=root", "Flags=MAINT")
        try:
            until(lambda: windows_told(tmp_path), 30, log_of(tmp_path))
            (window,) = windows_told(tmp_path)
            assert (window.name, window.nodes) == ("slurm:cooling", ((0, 2),))
            assert 30 < window.begin_us / 1e6 - time.time() < 300 < 3600 < window.end_us / 1e6 - time.time() < 3900
            wide = submit(clear, tmp_path, 1, "--nodes=2", "--exclusive", "--time=10")
            long = submit(clear, tmp_path, 1, "-n4", "--time=10")
            short = submit(clear, tmp_path, 2, "--nodes=2", "--exclusive", "--time=2")
            until(lambda: over(clear, [long, short]), 60, log_of(tmp_path))
            jobs = jobs_of(clear)
            assert (jobs[long].nodes, jobs[short].nodes) == (("n2",), ("n0", "n1"))
            assert jobs[wide].held
        finally:
            clear.run("scontrol", "delete", "ReservationName=cooling")
        until(lambda: over(clear, [wide]), 60, log_of(tmp_path))
        assert any(one == WindowCleared("slurm:cooling") for one in facts(tmp_path))
    assert not [one for one in facts(tmp_path) if isinstance(one, StartRefused)]
    assert sorted(runs_noted(tmp_path)) == sorted([wide, long, short])


@pytest.mark.parametrize(("policy", "keys"), [("ce-easy", ""), ("cohabit", 'unknown = "cores"')])
def test_a_job_on_all_nodes_is_promised_a_start_behind_a_reservation_and_a_job_of_slurms_own(
    clear: SlurmCluster, tmp_path: Path, policy: str, keys: str
) -> None:
    """`why` names the promise, and no job that would run into it passes."""
    with attached(write_site(clear, tmp_path, policy, keys)):
        clear.run("scontrol", "create", "reservation", "ReservationName=upkeep", "Nodes=n0", "StartTime=now",
                  "Duration=1", "Users=root", "Flags=MAINT")  # fmt: skip
        ends_s = time.time() + 60
        own = submit(clear, tmp_path, 30, "-n1", "--gres=card:1", "--time=1")
        until(lambda: jobs_of(clear)[own].runs, 30, log_of(tmp_path))
        until(lambda: sum(isinstance(one, NodeUsed) and one.until_us > 0 for one in facts(tmp_path)) >= 2, 30,
              log_of(tmp_path))  # fmt: skip
        wide = submit(clear, tmp_path, 1, "-n12", "--time=2")
        asks = connect(str(tmp_path / "state" / "cohabit.sock"))
        until(lambda: any(isinstance(one, JobSubmitted) and one.job.job_id == wide for one in facts(tmp_path)), 30)
        long = submit(clear, tmp_path, 1, "-n4", "--time=30")
        said = asks.why(wide)["why"]
        assert "promised a start within" in said, said
        assert "on 3 nodes" in said
        until(lambda: over(clear, [wide, long]), 150, log_of(tmp_path))
        jobs = jobs_of(clear)
        assert ends_s - 2 <= jobs[wide].start_s <= ends_s + 15, "as promised, and Slurm did not refuse it"
        assert jobs[wide].start_s <= jobs[long].start_s
    assert not [one for one in facts(tmp_path) if isinstance(one, StartRefused)]
    assert sorted(runs_noted(tmp_path)) == sorted([own, wide, long])


def windows_told(folder: Path) -> list[WindowSet]:
    return [one for one in facts(folder) if isinstance(one, WindowSet)]


def test_a_waiting_job_that_is_changed(clear: SlurmCluster, tmp_path: Path) -> None:
    with attached(write_site(clear, tmp_path, "ce")):
        long = [submit(clear, tmp_path, 60, "-n4") for _ in range(3)]
        until(lambda: all(jobs_of(clear)[name].runs for name in long), 60, log_of(tmp_path))
        wider, moved, shorter = (submit(clear, tmp_path, 1, "-n4", "--time=9") for _ in range(3))
        until(lambda: sum(type(one).__name__ == "JobSubmitted" for one in facts(tmp_path)) == 6, 60, log_of(tmp_path))
        clear.run("scontrol", "update", f"JobId={wider}", "NumNodes=2-2")
        clear.run("scontrol", "update", f"JobId={moved}", "ReqNodeList=n2")
        clear.run("scontrol", "update", f"JobId={shorter}", "TimeLimit=3")
        until(lambda: told(tmp_path, "JobCancelled", wider) and told(tmp_path, "JobCancelled", moved), 60,
              log_of(tmp_path))  # fmt: skip
        until(lambda: told(tmp_path, "JobChanged", shorter), 60, log_of(tmp_path))
        clear.run("scancel", *long)
        until(lambda: over(clear, [wider, moved, shorter]), 120, log_of(tmp_path))
    jobs = jobs_of(clear)
    assert len(jobs[wider].nodes) == 2
    assert "n2" in jobs[moved].nodes  # where its owner wants it, and maybe beside that, as plain Slurm does
    assert jobs[shorter].mark.startswith("cohabit:run:1:")
    assert {jobs[name].mark for name in (wider, moved)} == {"cohabit:back"}


def test_names_and_comments_that_look_like_records(clear: SlurmCluster, tmp_path: Path) -> None:
    """Whatever their owners write, all are read as what they are, and steering goes on."""
    made_up = "JobId={} JobName=x UserId=root(0) GroupId=root(0) Priority=0 JobState=RUNNING NodeList=n0"
    with attached(write_site(clear, tmp_path, "ce")):
        first = submit(clear, tmp_path, 1, "-n4")
        odd = {
            submit(clear, tmp_path, 1, "-n4", f"--job-name={name}", f"--comment={comment}"): (name, comment)
            for name, comment in (
                ("two\nlines", ""), (f"a\n{made_up.format(first)}", ""), ("a", f"b StdErr=c\n{made_up.format(999)} d"),
                ("a UserId=nobody(65534) GroupId=nobody(65534) b", "JobState=RUNNING"),
            )
        }  # fmt: skip

        async def read(as_json: bool) -> dict[str, ManagerJob]:
            reader = JobReader(ReadOnly(str(clear.conf)))
            reader.forms = reader.forms if as_json else []
            return {job.name: job for job in await reader.all()}

        version = clear.run("scontrol", "version").split()[-1]
        for as_json in (True, False):  # and where there is no JSON; 26.05 prints the line of a submission, which hides
            found = asyncio.run(read(as_json))  # such a job then
            assert "999" not in found
            assert set(odd) <= set(found) or (version >= "26" and not as_json)
            assert {found[name].user for name in (first, *odd) if name in found} == {0}
        for name, written in odd.items() if version >= "21.08" else ():
            known = asyncio.run(read(True))[name]  # to the letter only in JSON
            assert (known.job_name.split(), known.comment.split()) == tuple(word.split() for word in written)
        until(lambda: over(clear, [first, *odd]), 120, log_of(tmp_path))
    assert all(jobs_of(clear)[name].mark.startswith("cohabit:run:1:") for name in (first, *odd))
    assert sorted(runs_noted(tmp_path)) == sorted([first, *odd])


def test_slurm_restarts_while_jobs_wait_and_run(clear: SlurmCluster, tmp_path: Path) -> None:
    with attached(write_site(clear, tmp_path, "ce")):
        names = [submit(clear, tmp_path, tmp_path / "go", "-n4") for _ in range(6)]
        until(lambda: sum(jobs_of(clear)[name].runs for name in names) == 3, 60, log_of(tmp_path))
        clear.stop("slurmctld")
        until(lambda: "does not answer" in log_of(tmp_path)(), 60, log_of(tmp_path))
        clear.start("slurmctld")
        clear.await_controller()
        (tmp_path / "go").touch()
        until(lambda: over(clear, names), 150, log_of(tmp_path))
    assert "Slurm answers again" in log_of(tmp_path)()
    assert sorted(runs_noted(tmp_path)) == sorted(names)
