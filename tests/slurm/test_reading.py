"""Slurm's outputs to data: recorded ones of 22.05, hand-written ones of other versions (tests/slurm/recorded)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.backend.slurm import commands, json_output, text_output
from cohabit.backend.slurm.discovery import arrange
from cohabit.backend.slurm.hostlist import expand, numbers
from cohabit.backend.slurm.marks import BACK, HELD, RUN, Before, read_mark, run_mark
from cohabit.backend.slurm.reading import sorted_out
from cohabit.backend.slurm.shapes import SlurmJob
from cohabit.backend.slurm.translate import NO_LIMIT_US, Terms, before_of, is_ours, job_of, may_run, why_not
from cohabit.model.errors import InputError

RECORDED = Path(__file__).parent / "recorded"
TERMS = Terms(("all",), node_cpus=28)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def jobs_22() -> dict[str, SlurmJob]:
    return {job.name: job for job in json_output.jobs(recorded("22.05-squeue.json"))}


def test_json_and_text_of_the_same_slurm_say_the_same() -> None:
    text = {job.name: job for job in text_output.jobs(recorded("22.05-jobs.txt"))}
    found = jobs_22()
    assert list(text) == list(found)
    for name, job in text.items():
        for key in job.__struct_fields__:
            if key in (
                "end_s",
                "submit_s",
                "start_s",
                "begin_s",
                "eligible_s",
            ):  # in local time, and none for an expected end
                continue
            assert getattr(job, key) == getattr(found[name], key), (name, key)
    states = {node.name: node.states for node in text_output.nodes(recorded("22.05-nodes.txt"))}
    assert states["n3"] == ("IDLE", "DRAIN")


def test_a_steered_job_a_failed_one_and_a_cancelled_one() -> None:
    jobs = jobs_22()
    steered = jobs["1"]
    assert (steered.state, steered.nodes, steered.cores_on) == ("RUNNING", ("n0", "n2"), {"n0": 8, "n2": 8})
    assert read_mark(steered.mark) == (RUN, 1, Before(1, 0, 1, 16), "")
    assert before_of(steered) == Before(1, 0, 1, 16)
    assert (jobs["10"].state, jobs["10"].exit_status, jobs["10"].exit_signal) == ("FAILED", 3, None)
    assert jobs["11"].state == "CANCELLED"


def test_what_the_core_is_told_of_recorded_jobs() -> None:
    jobs = jobs_22()
    wide = job_of(jobs["2"], TERMS)
    assert (wide.nodes, wide.processes, wide.exclusive, wide.limit_us) == (2, 4, True, (26 * 60 + 4) * 60 * 10**6)
    task = job_of(jobs["3_9"], TERMS)
    assert (task.job_id, task.processes, task.limit_us, task.nodes) == ("3_9", 4, 1800 * 10**6, 0)
    assert jobs["3_9"].array_at_most == 2
    big = job_of(jobs["5"], TERMS)
    assert (big.processes, big.nodes, big.program, big.limit_us) == (40, 0, "odd name=UserId=7", NO_LIMIT_US)
    assert not may_run(jobs["4"], 2e9)  # it depends on another
    assert not may_run(jobs["9"], jobs["9"].submit_s + 3599)
    assert may_run(jobs["9"], jobs["9"].submit_s + 3601)


def test_what_only_slurm_understands_is_left_to_it() -> None:
    jobs = jobs_22()
    assert {name: why_not(jobs[name], TERMS) for name in ("5", "6", "7", "8", "12", "13")} == {
        "5": "", "6": "asks for licences (matlab:2)", "7": "asks for a constraint (fast)",
        "8": "asks for contiguous nodes", "12": "is part of a heterogeneous job",
        "13": "is part of a heterogeneous job",
    }  # fmt: skip


def test_only_held_jobs_with_our_mark_in_our_partitions_are_ours() -> None:
    held = SlurmJob("1", 1, "PENDING", held=True, partition="all", mark=HELD)
    assert is_ours(held, TERMS)
    for change in ({"held": False}, {"partition": "alone"}, {"mark": ""}, {"mark": BACK}, {"mark": "cohabitation"},
                   {"state": "RUNNING"}):  # fmt: skip
        assert not is_ours(SlurmJob(**{"name": "1", "number": 1, "state": "PENDING", "held": True, "partition": "all",
                                       "mark": HELD} | change), TERMS)  # fmt: skip
    everything = TERMS._replace(all_held=True)
    assert is_ours(SlurmJob("1", 1, "PENDING", held=True, partition="all"), everything)
    assert not is_ours(SlurmJob("1", 1, "PENDING", held=True, partition="all", mark="do not touch"), everything)


def test_the_newer_json() -> None:
    first, *tasks = json_output.jobs(recorded("hand-24.05-squeue.json"))
    assert (first.state, first.limit_s, first.memory_per_cpu_mb, first.special) == ("RUNNING", 5400.0, 2048, ())
    assert (first.cores_on, first.exit_status, first.nodes_most) == ({"n1": 2, "n2": 1}, 0, 2)
    assert [task.name for task in tasks] == ["72_0", "72_3", "72_6"]
    assert all(task.held and task.exclusive and task.limit_s is None and not task.requeue for task in tasks)
    assert tasks[0].special == ("asks for generic resources (gres/gpu:2)",)


def test_the_older_text_and_names_that_look_like_fields() -> None:
    first, task = text_output.jobs(recorded("hand-20.02-jobs.txt"))
    assert (first.job_name, first.user, first.state) == ("a Priority=0 UserId=x", 1002, "PENDING")
    assert (first.partition, first.command, first.comment) == (
        "batch",
        "/home/bob/run me.sh Partition=other",
        "JobState=RUNNING",
    )
    assert (first.memory_per_cpu_mb, first.limit_s, first.nodes_most, first.requeue) == (4096, 9000.0, 1, False)
    assert job_of(first, TERMS).single_node
    assert (task.name, task.nodes, task.exit_signal, task.restarts) == ("901_4", ("r1n003", "r1n004"), 15, 2)
    assert (task.tasks_per_node, task.memory_per_node_mb) == (4, 1500)


FORGED = "JobId=8 JobName=x UserId=root(0) GroupId=root(0) Priority=0 JobState=RUNNING NodeList=n0 Command=x WorkDir=/"


def record(number: int, name: str = "job", comment: str = "") -> str:
    """As Slurm prints it."""
    return (
        f"JobId={number} JobName={name} UserId=bob(1002) GroupId=bob(1002) Priority=0 JobState=PENDING "
        f"RunTime=00:00:00 NumNodes=1 Command=/home/run.sh WorkDir=/home Comment={comment} StdErr=/dev/null Power= \n"
    )


@pytest.mark.parametrize(
    ("name", "comment"),
    [("a\nb", ""), ("a", "two\nlines"), ("a", f"c StdErr=x Power= \n{FORGED} Comment=d"), (f"a\n{FORGED}", ""),
     ("a UserId=root(0) GroupId=root(0) b", ""), ("a", "JobState=RUNNING")],
)  # fmt: skip
def test_what_users_write_is_never_another_job(name: str, comment: str) -> None:
    """Either it is read as it is, or it is known to be doubtful, and JSON is asked; and nothing stops the reading."""
    for real in ({6, 7, 8}, {6, 7}):
        text = "".join(record(number, *((name, comment) if number == 7 else ())) for number in sorted(real))
        found, doubtful = sorted_out(text, real)
        assert set(found) == real
        assert 6 not in doubtful
        assert not text_output.is_doubtful(found[6])
        assert ("JobId=8" in name + comment) == (7 in doubtful)
        assert (8 in real and "JobId=8" in name + comment) == (8 in doubtful & real)
        if not text_output.is_doubtful(found[7]) and 7 not in doubtful:
            (job,) = text_output.jobs(found[7])
            assert (job.user, job.state, job.job_name, job.comment) == (
                1002, "PENDING", " ".join(name.splitlines()), " ".join(comment.splitlines()),
            )  # fmt: skip
        text_output.jobs(text)


def test_time_alone_is_no_change() -> None:
    first, later = record(7), record(7).replace("RunTime=00:00:00", "RunTime=00:00:09")
    assert text_output.without_clock(first) == text_output.without_clock(later)
    assert text_output.without_clock(first) != text_output.without_clock(record(7, comment="x"))


def test_an_apology_is_not_an_empty_queue() -> None:
    """Recorded with slurmctld stopped: squeue ended with status 0."""
    with pytest.raises(json_output.NoAnswer, match="Failed while looking for jobs"):
        json_output.jobs(recorded("22.05-squeue-away.json"))


def test_accounting() -> None:
    found = {one.name: one for one in text_output.accounted(recorded("hand-sacct.txt"))}
    assert list(found) == ["17", "18", "19_3"]
    assert (found["18"].state, found["18"].exit_signal, found["19_3"].exit_status) == ("CANCELLED", 15, 3)


def test_the_cluster_from_its_nodes() -> None:
    nodes = text_output.nodes(recorded("22.05-nodes.txt"))
    partitions = text_output.partitions(recorded("22.05-partitions.txt"))
    config = text_output.config(recorded("22.05-config.txt"))
    found = arrange(nodes, partitions, config, ["all"])
    assert (found.names, found.cpus, found.version) == (("n0", "n1", "n2", "n3"), (28,) * 4, "22.05.8")
    assert [(group.count, group.cores, group.memory_bytes) for group in found.cluster.groups] == [(4, 28, 0)]
    assert not found.whole_nodes_because
    both = arrange(nodes, partitions, config, ["all", "alone"])
    assert [(group.count, group.partitions) for group in both.cluster.groups] == [(2, ("all",)), (2, ("all", "alone"))]
    assert "OverSubscribe=EXCLUSIVE" in both.whole_nodes_because
    with pytest.raises(InputError, match="no partition nowhere"):
        arrange(nodes, partitions, config, ["nowhere"])
    linear = arrange(nodes, partitions, {"SelectType": "select/linear"}, ["all"])
    assert "whole nodes" in linear.whole_nodes_because


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[0,2-3],m1", ("n0", "n2", "n3", "m1")),
        ("r[1-2]n[09-10]", ("r1n09", "r1n10", "r2n09", "r2n10")),
        ("(null)", ()),
        ("login", ("login",)),
    ],
)
def test_host_lists(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


def test_task_numbers() -> None:
    assert numbers("1-5:2,9%2") == (1, 3, 5, 9)
    assert numbers("N/A") == ()


@given(st.integers(0, 99), st.integers(1, 99), st.integers(0, 99), st.integers(1, 64), st.integers(1, 9999))
def test_marks_come_back(attempt: int, least: int, most: int, per_node: int, cpus: int) -> None:
    before = Before(least, most, per_node, cpus)
    assert read_mark(run_mark(attempt, before)) == (RUN, attempt, before, "")
    assert read_mark(run_mark(attempt, before, "pair")) == (RUN, attempt, before, "pair")


@pytest.mark.parametrize(
    "text", ["", "cohabit", "cohabit:run", "cohabit:run:x:1-0:1:1", "x cohabit:run:1:1-0:1:1", "budget 7"]
)
def test_foreign_comments_are_no_marks(text: str) -> None:
    assert read_mark(text) is None


def test_only_reading_calls_count_as_such() -> None:
    reading = [commands.list_jobs_json(), commands.list_jobs_text(), commands.list_nodes(), commands.list_partitions(),
               commands.list_numbers(), commands.show_config(), commands.accounting(["1"]),
               commands.show_job("1")]  # fmt: skip
    changing = [commands.place("1", ["n0"], 4, HELD), commands.release(["1"]), commands.hold("1"), commands.cancel("1"),
                commands.requeue_held("1"), commands.mark(["1"], BACK), commands.unplace("1", Before(), 8, BACK),
                ("scontrol",), ("scontrol", "-o", "update", "show"), ("sbatch", "x"), ("sh", "squeue")]  # fmt: skip
    assert all(commands.changes_nothing(words) for words in reading)
    assert not any(commands.changes_nothing(words) for words in changing)


def test_one_update_says_it_all() -> None:
    assert commands.place("3_4", ["n0", "n2"], 7, "cohabit:run:2:1-0:1:14") == (
        "scontrol", "update", "JobId=3_4", "ReqNodeList=n0,n2", "NumNodes=2-2", "MinCPUsNode=7",
        "AdminComment=cohabit:run:2:1-0:1:14", "StartTime=now",
    )  # fmt: skip
