"""Slurm's outputs to data: what four versions really printed for the same jobs (tests/backend/slurm/recorded)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.backend.slurm import commands, json_output, text_output
from cohabit.backend.slurm.discovery import arrange
from cohabit.backend.slurm.hostlist import expand, numbers
from cohabit.backend.slurm.reading import sorted_out
from cohabit.backend.steered.dependencies import UNMET, Others
from cohabit.backend.steered.marks import BACK, HELD, OPEN, RUN, SHARED, WHOLE, Before, read_mark, run_mark
from cohabit.backend.steered.shapes import BY_CORES, BY_REQUEST, NOT_WHOLE, ManagerJob, Terms
from cohabit.backend.steered.translate import NO_LIMIT_US, asked_whole, before_of, has_come, is_ours, job_of, why_not
from cohabit.model.errors import InputError

RECORDED = Path(__file__).parent / "recorded"
TERMS = Terms(("all",), node_cpus=28)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


VERSIONS = ("20.11", "22.05", "24.11", "26.05")
WITH_JSON = VERSIONS[1:]
# In local time, none for an expected end; and reasons, of which text says more.
SAID_OTHERWISE = ("end_s", "submit_s", "start_s", "begin_s", "eligible_s", "reason")


def jobs_of(version: str) -> dict[str, ManagerJob]:
    return {job.name: job for job in text_output.jobs(recorded(f"{version}-jobs.txt"))}


@pytest.mark.parametrize("version", WITH_JSON)
def test_json_and_text_of_the_same_slurm_say_the_same(version: str) -> None:
    text = jobs_of(version)
    found = {job.name: job for job in json_output.jobs(recorded(f"{version}-squeue.json"))}
    assert list(text) == list(found)
    for name, job in text.items():
        for key in set(job.__struct_fields__) - set(SAID_OTHERWISE):
            assert getattr(job, key) == getattr(found[name], key), (name, key)


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_of_every_version(version: str) -> None:
    states = {node.name: node.states for node in text_output.nodes(recorded(f"{version}-nodes.txt"))}
    assert states == {
        "n0": ("MIXED",), "n1": ("ALLOCATED",), "n2": ("MIXED",), "n3": ("IDLE", "DRAIN"), "n4": ("DOWN",)
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_steered_failed_cancelled_and_queued_again(version: str) -> None:
    jobs = jobs_of(version)
    steered, least = jobs["101"], Before(1, 1 if version == "24.11" else 0, 1, 16)  # 24.11 says so of -n16
    assert (steered.state, steered.nodes, steered.cores_on) == ("RUNNING", ("n0", "n2"), {"n0": 8, "n2": 8})
    assert read_mark(steered.mark) == (RUN, 1, least, "", False, "")
    assert before_of(steered) == least
    assert (jobs["110"].state, jobs["110"].exit_status, jobs["110"].exit_signal) == ("FAILED", 3, None)
    assert jobs["111"].state == "CANCELLED"
    assert (jobs["118"].state, jobs["118"].held, jobs["118"].restarts) == ("PENDING", True, 1)
    task = jobs["120_4"]
    assert (task.state, task.exit_signal, task.tasks_per_node, task.memory_per_node_mb) == ("FAILED", 15, 4, 1500)
    assert sorted(task.cores_on.values()) == [4, 4]


def test_reservations_as_slurm_prints_them() -> None:
    text = (
        "ReservationName=cooling StartTime=2026-11-18T21:00:00 EndTime=2026-11-18T22:00:00 Duration=01:00:00 "
        "Nodes=n[0-1],n7 NodeCnt=3 CoreCnt=12 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=12 "
        "Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a\n"
        "ReservationName=licences StartTime=2026-11-18T21:00:00 EndTime=2026-11-18T22:00:00 Nodes=(null) NodeCnt=0\n"
    )
    (found,) = text_output.reservations(text)
    assert (found.name, found.nodes, found.end_s - found.begin_s) == ("cooling", ("n0", "n1", "n7"), 3600)
    assert text_output.reservations("No reservations in the system\n") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_who_wants_whole_nodes_and_who_was_given_them(version: str) -> None:
    """26.05 says OverSubscribe=NO of every job, and Exclusive=NODE of those that want nodes for themselves."""
    jobs = jobs_of(version)
    assert {name for name, job in jobs.items() if job.exclusive} == {"102", "109", "117"}
    given = jobs["117"]
    assert (given.cores_on, before_of(given).made) == ({"n1": 28}, "whole")
    assert {name for name, job in jobs.items() if asked_whole(job)} == {"102", "109"}
    assert not job_of(given, TERMS).exclusive


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_core_is_told_of_recorded_jobs(version: str) -> None:
    jobs = jobs_of(version)
    wide = job_of(jobs["102"], TERMS)
    assert (wide.nodes, wide.processes, wide.exclusive, wide.limit_us) == (2, 4, True, (26 * 60 + 4) * 60 * 10**6)
    task = job_of(jobs["103_9"], TERMS)
    assert (task.job_id, task.processes, task.limit_us, task.nodes) == ("103_9", 4, 1800 * 10**6, 0)
    assert jobs["103_9"].array_at_most == 2
    big = job_of(jobs["105"], TERMS)
    assert (big.processes, big.nodes, big.program, big.limit_us) == (40, 0, "odd name=UserId=7", NO_LIMIT_US)
    assert (jobs["114"].cpus_per_task, job_of(jobs["114"], TERMS).processes) == (3, 12)
    assert (jobs["115"].tasks, job_of(jobs["115"], TERMS).nodes) == (2, 2)
    assert Others(jobs.values()).standing(jobs["104"], 2e9) == UNMET  # it depends on another
    assert not has_come(jobs["109"], jobs["109"].submit_s + 3599)
    assert has_come(jobs["109"], jobs["109"].submit_s + 3601)


def test_the_account_of_a_job() -> None:
    text = "JobId=7 JobName=x UserId=bob(7) GroupId=bob(7) Account={} JobState=PENDING Partition=all Command=x"
    (named,), (unnamed,) = text_output.jobs(text.format("physics")), text_output.jobs(text.format("(null)"))
    assert (job_of(named, TERMS).account, job_of(unnamed, TERMS).account) == ("physics", "")
    document = {"jobs": [{"job_id": 7, "job_state": ["PENDING"], "account": "physics"}]}
    assert [one.account for one in json_output.jobs(json.dumps(document))] == ["physics"]


@pytest.mark.parametrize("version", VERSIONS)
def test_names_that_look_like_fields(version: str) -> None:
    odd = jobs_of(version)["119"]
    assert (odd.job_name, odd.user, odd.state) == ("a Priority=0 UserId=x", 0, "PENDING")
    assert (odd.partition, odd.comment) == ("all", "JobState=RUNNING")
    assert odd.command == "/cluster/run me.sh Partition=other"
    assert (odd.memory_per_cpu_mb, odd.limit_s, odd.nodes_most, odd.requeue) == (4096, 9000.0, 1, False)
    assert job_of(odd, TERMS).single_node


@pytest.mark.parametrize("version", VERSIONS)
def test_what_only_slurm_understands_is_left_to_it(version: str) -> None:
    left = {name: reason for name, job in jobs_of(version).items() if job.waits and (reason := why_not(job, TERMS))}
    assert left == {
        "106": "asks for licences (matlab:2)", "107": "asks for a constraint (fast)",
        "108": "asks for contiguous nodes", "112": "is part of a heterogeneous job",
        "113": "is part of a heterogeneous job", "116": "asks for nodes that only its own kind shares (user)",
    }  # fmt: skip


def test_what_24_11_does_not_tell_job_submit_lua_has_noted() -> None:
    """Of -n4 it says "one node at most", as of -n4 -N1."""
    job = jobs_of("24.11")["104"]
    assert (job.nodes_most, before_of(job).most) == (1, 1)
    assert before_of(msgspec.structs.replace(job, mark=OPEN)).most == 0
    assert before_of(msgspec.structs.replace(job, mark=f"{OPEN}@pair")).most == 0
    assert read_mark(f"{OPEN}@pair") == (HELD, 0, Before(), "pair", True, "")


def test_json_that_leaves_out_who_wants_whole_nodes_is_not_used() -> None:
    with pytest.raises(json_output.Incomplete, match=r"v0\.0\.45"):
        json_output.jobs(recorded("26.05-squeue-newest.json"))


def test_only_held_jobs_with_our_mark_in_our_partitions_are_ours() -> None:
    held = ManagerJob("1", 1, "PENDING", held=True, partition="all", mark=HELD)
    assert is_ours(held, TERMS)
    for change in ({"held": False}, {"partition": "alone"}, {"mark": ""}, {"mark": BACK}, {"mark": "cohabitation"},
                   {"state": "RUNNING"}):  # fmt: skip
        assert not is_ours(ManagerJob(**{"name": "1", "number": 1, "state": "PENDING", "held": True, "partition": "all",
                                       "mark": HELD} | change), TERMS)  # fmt: skip
    everything = TERMS._replace(all_held=True)
    assert is_ours(ManagerJob("1", 1, "PENDING", held=True, partition="all"), everything)
    assert not is_ours(ManagerJob("1", 1, "PENDING", held=True, partition="all", mark="do not touch"), everything)


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


@pytest.mark.parametrize("version", WITH_JSON)
def test_accounting(version: str) -> None:
    found = {one.name: one for one in text_output.accounted(recorded(f"{version}-sacct.txt"))}
    assert (found["101"].state, found["110"].exit_status, found["111"].state) == ("RUNNING", 3, "CANCELLED")
    assert (found["120_4"].state, found["120_4"].exit_signal) == ("FAILED", 15)
    assert not any("+" in name or "." in name for name in found)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cluster_from_its_nodes(version: str) -> None:
    nodes = text_output.nodes(recorded(f"{version}-nodes.txt"))
    partitions = text_output.partitions(recorded(f"{version}-partitions.txt"))
    config = text_output.config(recorded(f"{version}-config.txt"))
    found = arrange(nodes, partitions, config, ["all"])
    assert (found.names, found.cpus) == (("n0", "n1", "n2", "n3", "n4"), (28,) * 5)
    assert found.version.startswith(version)
    assert [(group.count, group.cores, group.memory_bytes) for group in found.cluster.groups] == [(5, 28, 0)]
    assert not found.whole_nodes_because
    assert found.whole_by == BY_REQUEST
    closed = arrange(nodes, partitions, config | {"AllowSpecResourcesUsage": "no"}, ["all"])
    assert closed.whole_by == (BY_CORES if version == "22.05" else NOT_WHOLE)
    both = arrange(nodes, partitions, config, ["all", "alone"])
    assert [(group.count, group.partitions) for group in both.cluster.groups] == [(3, ("all",)), (2, ("all", "alone"))]
    assert "EXCLUSIVE" in both.whole_nodes_because
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
    for made in ("", WHOLE, SHARED):
        before = Before(least, most, per_node, cpus, made)
        assert read_mark(run_mark(attempt, before)) == (RUN, attempt, before, "", False, "")
        assert read_mark(run_mark(attempt, before, "pair")) == (RUN, attempt, before, "pair", False, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cohabit",
        "cohabit:run",
        "cohabit:run:x:1-0:1:1",
        "x cohabit:run:1:1-0:1:1",
        "budget 7",
        "cohabit:run:1:1-0:1:1:half",
        "cohabit:held:x",
    ],
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
    assert commands.place("3", ["n0"], 7, "x", WHOLE)[-1:] == ("CoreSpec=0",)
    back = ("CoreSpec=*", "OverSubscribe=YES")
    assert commands.place("3", ["n0"], 7, "x", SHARED)[-2:] == back
    assert commands.unplace("3", Before(made=WHOLE), 8, BACK)[-2:] == back
    assert commands.unplace("3", Before(), 8, BACK)[-1] == f"AdminComment={BACK}"
