"""Recorded outputs of Grid Engine, and jobs as the steering back end sees them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cohabit.backend.gridengine import commands, text_output, xml_output
from cohabit.backend.gridengine.calls import Calls, ReadOnly
from cohabit.backend.gridengine.discovery import arrange
from cohabit.backend.gridengine.steering import ended_as, state_of
from cohabit.backend.gridengine.translate import Site, job_of, node_of
from cohabit.backend.gridengine.xml_output import Described, Host, Listed
from cohabit.backend.steered.contract import Forbidden, ManagerAway, ManagerRefused
from cohabit.backend.steered.shapes import ManagerJob
from cohabit.backend.steered.translate import is_ours, why_not
from cohabit.backend.steered.translate import job_of as core_job
from cohabit.model.errors import InputError

RECORDED = Path(__file__).parent / "recorded"
SITE = Site(
    ("all.q",), 4, {"mpi": "$round_robin", "smp": "$pe_slots", "fill": "$fill_up", "two": "2"}, "exclusive", "cohabit"
)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


@pytest.fixture
def jobs() -> dict[str, ManagerJob]:
    stands = {one.name: one for one in xml_output.listed(recorded("qstat-list-8.1.9.xml"))}
    found = xml_output.described(recorded("qstat-j-8.1.9.xml"))
    return {one.name: job_of(one, stands[one.name], SITE) for one in found}


def test_what_jobs_asked_for() -> None:
    found = {one.name: one for one in xml_output.described(recorded("qstat-j-8.1.9.xml"))}
    held = found["27"]
    assert (held.job_name, held.environment, held.slots_least, held.limit_s) == ("prog1", "mpi", 4, 600.0)
    assert held.requests == {"h_rt": "600", "exclusive": "true"}
    assert held.context == {"cohabit": "cohabit:held@pair", "mates": "pair"}
    assert held.checkpoint == "cohabit"
    assert found["28"].queues == ("all.q@ge1", "all.q@ge3")
    assert found["30"].special == ("is an array",)
    assert found["31"].waits_for == ("29",)
    assert found["31"].begin_s == 1893456000.0
    assert "asks for resources it would like" in found["31"].special
    text = recorded("qstat-j-8.1.9.xml").replace(
        "<JB_job_number>27<", "<JB_project>physics</JB_project><JB_job_number>27<"
    )
    named = {one.name: one for one in xml_output.described(text)}
    assert [named["27"].project, named["28"].project] == ["physics", ""]
    assert (found["32"].slots_least, found["32"].slots_most) == (2, 6)


def test_where_jobs_stand(jobs: dict[str, ManagerJob]) -> None:
    assert (jobs["27"].state, jobs["27"].held, jobs["27"].exclusive, jobs["27"].requeue) == (
        "PENDING",
        True,
        True,
        True,
    )
    assert (jobs["28"].state, jobs["28"].cores_on) == ("RUNNING", {"ge1": 2, "ge3": 2})
    assert jobs["29"].cores_on == {"ge0": 1}
    assert jobs["28"].start_s > 0
    assert not jobs["29"].requeue


def test_what_is_ours_and_what_is_left(jobs: dict[str, ManagerJob]) -> None:
    terms = arrange(xml_output.hosts(recorded("qhost-8.1.9.xml"), ["all.q"]), SITE, "8.1.9").terms
    assert [name for name, job in jobs.items() if is_ours(job, terms)] == ["27"]
    assert why_not(jobs["27"], terms) == ""
    assert why_not(jobs["30"], terms) == "is an array"
    assert why_not(jobs["32"], terms) == "asks for 2 to 6 slots"
    assert core_job(jobs["27"], terms).processes == 4
    assert core_job(jobs["27"], terms).exclusive


@pytest.mark.parametrize(
    ("environment", "slots", "nodes", "single", "special"),
    [
        ("", 1, (1, 1, 0), True, ""),
        ("mpi", 8, (1, 0, 0), False, ""),
        ("smp", 3, (1, 1, 0), True, ""),
        ("fill", 3, (1, 1, 0), True, ""),
        ("fill", 9, (3, 3, 0), False, ""),
        ("two", 6, (3, 3, 2), False, ""),
        ("two", 5, (1, 0, 0), False, "uses the parallel environment two (2)"),
        ("odd", 2, (1, 0, 0), False, "uses the parallel environment odd (unknown)"),
    ],
)
def test_how_slots_are_spread(
    environment: str, slots: int, nodes: tuple[int, int, int], single: bool, special: str
) -> None:
    said = Described("7", environment=environment, slots_least=slots, slots_most=slots)
    job = job_of(said, Listed("7", "hqw", False), SITE)
    assert (job.nodes_least, job.nodes_most, job.tasks_per_node) == nodes
    assert job.special == ((special,) if special else ())
    if not special:
        terms = arrange([Host("a", 4, 0, "")], SITE, "").terms
        assert core_job(job, terms).single_node == single


def test_a_steered_job_remembers_what_its_owner_asked_for() -> None:
    context = {"cohabit": "cohabit:run:1:1-1:1:1", "cohabit_asked": "shared"}
    said = Described("7", context=context, requests={"exclusive": "true"}, queues=("all.q@ge2",))
    job = job_of(said, Listed("7", "hqw", False), SITE)
    assert not job.exclusive
    assert job.required_nodes == ("ge2",)
    assert job_of(msgspec.structs.replace(said, context={}), Listed("7", "qw", False), SITE).exclusive


@pytest.mark.parametrize(
    ("letters", "active", "state", "held"),
    [("qw", False, "PENDING", False), ("hqw", False, "PENDING", True), ("hRq", False, "PENDING", True),
     ("r", True, "RUNNING", False), ("t", True, "RUNNING", False), ("Rr", True, "RUNNING", False),
     ("hs", True, "SUSPENDED", True), ("dr", True, "COMPLETING", False), ("Eqw", False, "FAILED", False),
     ("dqw", False, "CANCELLED", False)],
)  # fmt: skip
def test_states(letters: str, active: bool, state: str, held: bool) -> None:
    job = job_of(Described("7"), Listed("7", letters, active), SITE)
    assert (job.state, job.held) == (state, held)


@pytest.mark.parametrize(
    ("requests", "queues", "why"),
    [({"gpu": "1"}, (), "asks for gpu"), ({"h_vmem": "1G"}, (), ""), ({}, ("*",), ""), ({}, ("all.q",), ""),
     ({}, ("other.q",), "names queues of its own (other.q)")],
)  # fmt: skip
def test_what_is_not_understood(requests: dict[str, str], queues: tuple[str, ...], why: str) -> None:
    job = job_of(Described("7", requests=requests, queues=queues), Listed("7", "hqw", False), SITE)
    assert job.special == ((why,) if why else ())


def test_hosts_and_their_states() -> None:
    hosts = xml_output.hosts(recorded("qhost-8.1.9.xml"), ["all.q"])
    assert [(host.name, host.slots, host.state) for host in hosts] == [
        ("ge0", 4, ""), ("ge1", 4, ""), ("ge2", 4, "d"), ("ge3", 4, ""),
    ]  # fmt: skip
    assert hosts[0].memory_bytes > 2**30
    assert [node_of(host).states for host in hosts[1:3]] == [("IDLE",), ("DRAIN",)]
    assert node_of(Host("x", 4, 0, "au")).states == ("DRAIN", "NOT_RESPONDING")
    assert xml_output.hosts(recorded("qhost-8.1.9.xml"), ["other.q"]) == []
    with pytest.raises(InputError, match="has no slots"):
        arrange([], SITE, "8.1.9")


def test_the_accounting_of_a_rescheduled_job() -> None:
    records = text_output.accounted(recorded("qacct-8.1.9.txt"))
    assert [(one.failed, one.exit_status, one.over) for one in records] == [(25, 0, False), (100, 137, True)]
    assert [one.end_s - one.start_s for one in records] == [0.0, 58.0]


@pytest.mark.parametrize(
    ("failed", "status", "ran_s", "limit_s", "state"),
    [(0, 0, 5, 60, "COMPLETED"), (0, 3, 5, 60, "FAILED"), (100, 137, 5, 60, "FAILED"), (37, 137, 61, 60, "TIMEOUT"),
     (37, 137, 5, 60, "FAILED"), (37, 137, 5, None, "TIMEOUT"), (26, 0, 0, 60, "FAILED")],
)  # fmt: skip
def test_how_a_run_ended(failed: int, status: int, ran_s: float, limit_s: float | None, state: str) -> None:
    """One over a limit of memory or processor time has the record of one over its time."""
    record = text_output.Accounted("7", failed, status, 1000.0, 1000.0 + ran_s)
    assert state_of(record, limit_s) == state


@pytest.mark.parametrize(("start_s", "nodes"), [(1000.0, ("ge1",)), (0.0, ())])
def test_a_run_nobody_saw_was_where_it_was_sent(start_s: float, nodes: tuple[str, ...]) -> None:
    """It began and ended between two looks; or it never began."""
    last = ManagerJob("7", 7, "PENDING", required_nodes=("ge1",))
    found = ended_as(last, text_output.Accounted("7", 0, 0, start_s, start_s))
    assert (found.nodes, found.start_s) == (nodes, start_s)


def test_settings() -> None:
    assert text_output.settings(recorded("qconf-sp-8.1.9.txt"))["allocation_rule"] == "$round_robin"
    assert text_output.settings(recorded("qconf-sq-8.1.9.txt"))["ckpt_list"] == "cohabit"
    found = text_output.complexes(recorded("qconf-sc-8.1.9.txt"))
    assert [one.name for one in found.values() if one.exclusive] == ["exclusive"]
    assert (found["h_vmem"].kind, found["h_vmem"].consumable, found["slots"].consumable) == ("MEMORY", "NO", "YES")


def test_nobody_there_and_nonsense() -> None:
    assert xml_output.described("<?xml version='1.0'?>\n<unknown_jobs >\n<ST_name>*</ST_name>\n</unknown_jobs>") == []
    with pytest.raises(ValueError, match="not XML"):
        xml_output.listed("error: commlib")


def test_no_answer_and_a_refusal_are_told_apart() -> None:
    words = commands.cancel("7")
    with pytest.raises(ManagerAway):
        Calls().judged(
            words, 1, "", "error: commlib error: got select error (Connection refused)\nunable to contact qmaster"
        )
    with pytest.raises(ManagerRefused, match="denied"):
        Calls().judged(words, 1, 'denied: job "7" does not exist', "")


async def _call(words: commands.Words) -> None:
    await ReadOnly()(words)


@pytest.mark.parametrize(
    "words",
    [commands.hold("7"), commands.release("7"), commands.cancel("7"), commands.suspend("7"),
     commands.note("7", {"a": "b"}), commands.place("7", ["all.q@ge0"], {}, {}), ("qconf", "-Aq", "f"), ("qsub",)],
)  # fmt: skip
def test_who_only_watches_changes_nothing(words: commands.Words) -> None:
    import asyncio

    with pytest.raises(Forbidden):
        asyncio.run(_call(words))
    assert commands.changes_nothing(commands.describe_jobs())
    assert commands.changes_nothing(commands.show_queue("all.q"))


def test_requests_are_repeated_whole() -> None:
    words = commands.place("7", ["all.q@ge0", "all.q@ge1"], {"h_rt": "600", "exclusive": "true"}, {"cohabit": "x"})
    assert words == ("qalter", "-q", "all.q@ge0,all.q@ge1", "-l", "h_rt=600,exclusive=true", "-ac", "cohabit=x", "7")
