"""What qsub is asked for, and jobs of several queues, arrays and memory as the steering back end sees them."""

from __future__ import annotations

import msgspec
import pytest

from cohabit.backend.gridengine.discovery import arrange
from cohabit.backend.gridengine.submitting import VARIABLES, qsub_words
from cohabit.backend.gridengine.text_output import amount
from cohabit.backend.gridengine.translate import Site, asked_queue, job_of, jobs_of
from cohabit.backend.gridengine.watchdog import Settings, manager_of, watchdog_command
from cohabit.backend.gridengine.xml_output import Described, Host, Listed
from cohabit.backend.protocol import Launch
from cohabit.backend.steered.submitting import Extra, script_of
from cohabit.backend.steered.translate import is_ours, why_not
from cohabit.backend.steered.translate import job_of as core_job
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.units import SECOND

GIB = 2**30
SITE = Site(
    ("all.q", "long.q"), 4, {"mpi": "$round_robin", "smp": "$pe_slots"}, "exclusive", "cohabit", "h_vmem", GIB,
    most_slots=4, spread="mpi", one_host="smp",
)  # fmt: skip
WAITS = Listed("7", "hqw", False)
HELD = {"cohabit": "cohabit:held"}
HOSTS = [Host("a", 4, 8 * GIB, "", ("all.q",)), Host("b", 4, 8 * GIB, "", ("all.q", "long.q"))]


def words_of(job: Job, launch: Launch | None = None, extra: Extra | None = None, site: Site = SITE) -> dict[str, str]:
    """Options of qsub with what stands behind them."""
    words = qsub_words(job, launch or Launch(("true",)), extra or Extra(), site)
    return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("-")}


def job_for(**asked: object) -> Job:
    return msgspec.structs.replace(Job("0", 90 * SECOND), **asked)


def test_a_plain_job() -> None:
    found = words_of(job_for(), Launch(("true",), folder="/home/ann"), Extra("1 day", ("5", "6")))
    assert (found["-l"], found["-wd"], found["-N"]) == ("h_rt=90", "/home/ann", "J1_day")
    assert (found["-hold_jid"], found["-ckpt"], found["-r"]) == ("5,6", "cohabit", "y")
    assert (found["-o"], found["-ac"]) == ("gridengine-$JOB_ID.out", "cohabit=cohabit:held")
    assert not {"-pe", "-q", "-t", "-e"} & found.keys()
    assert words_of(job_for(requeue=False))["-r"] == "n"
    assert words_of(job_for(account="physics"))["-P"] == "physics"


@pytest.mark.parametrize(
    ("asked", "threads", "environment", "slots"),
    [({"processes": 8}, 0, "mpi", 8), ({"processes": 3, "single_node": True}, 0, "smp", 3),
     ({"processes": 2}, 2, "smp", 4), ({"nodes": 2}, 0, "mpi", 8), ({"nodes": 1}, 0, "smp", 4)],
)  # fmt: skip
def test_slots_and_their_environment(asked: dict[str, object], threads: int, environment: str, slots: int) -> None:
    words = qsub_words(job_for(**asked), Launch(("true",), threads=threads), Extra(), SITE)
    at = words.index("-pe")
    assert words[at + 1 : at + 3] == (environment, str(slots))
    assert ("exclusive=true" in words[words.index("-l") + 1]) == bool(asked.get("nodes"))


def test_memory_is_asked_for_as_the_site_books_it() -> None:
    asked = job_for(processes=4, memory_bytes=GIB)
    assert words_of(asked)["-l"] == f"h_rt=90,h_vmem={GIB}"
    assert (
        words_of(asked, site=SITE._replace(memory="mem_free", memory_once=True))["-l"] == f"h_rt=90,mem_free={4 * GIB}"
    )
    assert words_of(asked, site=SITE._replace(memory=""))["-l"] == f"h_rt=90,h_vmem={GIB}"
    assert words_of(asked, Launch(("x",), threads=2), site=SITE._replace(most_slots=8))["-l"].endswith(f"={GIB // 2}")


def test_arrays_and_their_files() -> None:
    array = job_for(array_first=2, array_count=3, array_at_most=2)
    found = words_of(array, Launch(("true",), stdout="/o/%%part-%j", stderr="/o/err"))
    assert (found["-t"], found["-tc"]) == ("2-4", "2")
    assert (found["-o"], found["-e"]) == ("/o/%part-$JOB_ID_$TASK_ID", "/o/err.$TASK_ID")
    assert "COHABIT_ARRAY_LAST=4 COHABIT_ARRAY_SIZE=3" in script_of(array, Launch(("true",)), VARIABLES, "#!", {})
    head = "#!/bin/sh\nexport PATH=/usr/local/bin:/usr/bin:/bin\n"
    assert script_of(job_for(), Launch(("echo", "it's")), VARIABLES, "#!", {}) == head + "exec echo 'it'\"'\"'s'\n"


@pytest.mark.parametrize(
    ("asked", "launch", "site", "said"),
    [({"array_first": 0, "array_count": 2}, {}, {}, "counts from 1"),
     ({"processes": 9, "single_node": True}, {}, {}, "no host has 9 slots"),
     ({"processes": 2}, {}, {"spread": ""}, "no parallel environment"),
     ({"nodes": 2}, {}, {"most_slots": 8}, "hosts of this cluster differ"),
     ({"nodes": 1, "processes": 5}, {}, {}, "do not fit"),
     ({"exclusive": True}, {}, {"exclusive": ""}, "no complex for exclusive hosts"),
     ({}, {"stdout": "/a:b"}, {}, "comma or a colon")],
)  # fmt: skip
def test_what_cannot_be_asked_for(
    asked: dict[str, object], launch: dict[str, str], site: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        words_of(job_for(**asked), msgspec.structs.replace(Launch(("true",)), **launch), site=SITE._replace(**site))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("queues", "context", "partition", "ours", "why"),
    [((), HELD, "*", True, ""), (("*",), HELD, "*", True, ""), (("long.q",), HELD, "long.q", True, ""),
     (("all.q", "long.q"), HELD, "*", True, "names several queues (all.q, long.q)"),
     (("other.q",), HELD, "*", True, "names queues of its own (other.q)"),  # it must be given back
     (("other.q",), {}, "other.q", False, "names queues of its own (other.q)"),
     (("long.q@b",), HELD, "*", True, "names nodes of its own")],
)  # fmt: skip
def test_queues(queues: tuple[str, ...], context: dict[str, str], partition: str, ours: bool, why: str) -> None:
    terms = arrange(HOSTS, SITE, "").terms
    job = job_of(Described("7", context=context, queues=queues), WAITS, SITE)
    assert (job.partition, is_ours(job, terms), why_not(job, terms)) == (partition, ours, why)


def test_a_steered_job_keeps_the_queue_of_its_owner() -> None:
    context = {"cohabit": "cohabit:run:1:1-1:1:1", "cohabit_queue": "long.q"}
    said = Described("7", context=context, queues=("long.q@b",))
    assert asked_queue(said, SITE) == job_of(said, WAITS, SITE).partition == "long.q"
    anywhere = msgspec.structs.replace(said, context=context | {"cohabit_queue": "*"}, queues=("all.q@b", "long.q@b"))
    job = job_of(anywhere, WAITS, SITE)
    assert (job.partition, job.required_nodes, job.special) == ("*", ("b",), ())


def test_hosts_by_queues_and_memory() -> None:
    found = arrange(HOSTS, SITE, "", has={"a": 2 * GIB, "b": 3 * GIB})
    assert [(one.partitions, one.memory_bytes) for one in found.cluster.groups] == [
        (("all.q", "*"), 2 * GIB), (("all.q", "long.q", "*"), 3 * GIB),
    ]  # fmt: skip
    assert found.terms.memory


@pytest.mark.parametrize(
    ("requests", "once", "bytes"),
    [({"h_vmem": "2G"}, False, 2 * GIB), ({}, False, GIB), ({"h_vmem": "2G"}, True, GIB // 2),
     ({"h_vmem": "1000m"}, False, 954 * 2**20)],
)  # fmt: skip
def test_memory_of_a_job(requests: dict[str, str], once: bool, bytes: int) -> None:
    """For each slot; 1000m are a thousand millions, in whole MiB above."""
    said = Described("7", context=HELD, requests=requests, environment="smp", slots_least=4, slots_most=4)
    job = job_of(said, WAITS, SITE._replace(memory_once=once))
    assert core_job(job, arrange(HOSTS, SITE, "").terms).memory_bytes == bytes
    assert [amount(text) for text in ("1.5K", "2k", "12", "-", "")] == [1536, 2000, 12, 0, 0]


def test_tasks_that_run_are_jobs_of_their_own() -> None:
    rows = [
        Listed("7", "r", True, {"a": 1}, "1"),
        Listed("7", "r", True, {"b": 1}, "2"),
        Listed("7", "qw", False, {}, "3"),
    ]
    found = jobs_of(Described("7", array=True, special=("is an array",), context=HELD), rows, SITE)
    assert [(job.name, job.nodes, job.mark) for job in found] == [
        ("7", (), "cohabit:held"), ("7.1", ("a",), ""), ("7.2", ("b",), ""),
    ]  # fmt: skip
    assert jobs_of(Described("7"), [], SITE) == []


def test_the_watchdog_is_told_all_it_needs() -> None:
    settings = Settings("/opt/ge/bin", "/opt/ge", "cell", True, SITE)
    read = msgspec.json.decode(watchdog_command(settings).arguments[0], type=Settings)
    assert read == settings
    assert manager_of(read).site == SITE
