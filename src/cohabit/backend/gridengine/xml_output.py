"""Parse the output of `qstat -xml` and `qhost -xml`. Pure: text in, data out.

Two forms of qstat are needed: `-j` has what a job asked for and its context, but not where it is nor whether it is
held; the list has those and nothing else. Elements of lists have different names before and after a `qalter`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from datetime import datetime

import msgspec

from cohabit.backend.gridengine.text_output import amount

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")  # users' environments may contain anything


class Described(msgspec.Struct, frozen=True):
    """The request of a job."""

    name: str
    user: int = -1
    job_name: str = ""
    script: str = ""
    context: dict[str, str] = {}
    requests: dict[str, str] = {}  # hard requests, as written
    limit_s: float | None = None
    queues: tuple[str, ...] = ()  # hard requests
    environment: str = ""  # the parallel environment
    slots_least: int = 1
    slots_most: int = 1
    checkpoint: str = ""
    waits_for: tuple[str, ...] = ()
    begin_s: float = 0.0
    submit_s: float = 0.0
    special: tuple[str, ...] = ()  # what it asks for that only Grid Engine understands
    array: bool = False
    project: str = ""


class Listed(msgspec.Struct, frozen=True):
    """The state of a job."""

    name: str
    state: str  # letters of qstat(1)
    active: bool  # it is on hosts
    slots_on: dict[str, int] = {}  # host -> slots
    task: str = ""
    start_s: float = 0.0  # of a job on hosts; whole seconds


class Host(msgspec.Struct, frozen=True):
    """An execution host with instances of queues that are asked for."""

    name: str
    slots: int  # of the largest instance
    memory_bytes: int
    state: str  # letters of the instances, if none is fit; u: unknown, no report from the host
    queues: tuple[str, ...] = ()  # with an instance there


def described(text: str) -> list[Described]:
    """Parse `qstat -xml -j`; no jobs is an empty list."""
    root = _tree(text)
    return [_job(one) for one in root.iterfind("djob_info/element")]


def _job(said: ElementTree.Element) -> Described:
    requests = {
        one.findtext("CE_name", ""): one.findtext("CE_stringval", "")
        for one in said.iterfind("JB_hard_resource_list/*")
    }
    limits = [
        float(one.findtext("CE_doubleval", "0"))
        for one in said.iterfind("JB_hard_resource_list/*")
        if one.findtext("CE_name") == "h_rt"
    ]
    slots = said.find("JB_pe_range/*")
    context = {one.findtext("VA_variable", ""): one.findtext("VA_value", "") for one in said.iterfind("JB_context/*")}
    return Described(
        said.findtext("JB_job_number", ""),
        int(said.findtext("JB_uid", "-1")),
        said.findtext("JB_job_name", ""),
        said.findtext("JB_script_file", ""),
        context,
        requests,
        limits[0] if limits else None,
        tuple(one.text or "" for one in said.iterfind("JB_hard_queue_list/*/QR_name")),
        said.findtext("JB_pe", ""),
        1 if slots is None else int(slots.findtext("RN_min", "1")),
        1 if slots is None else int(slots.findtext("RN_max", "1")),
        said.findtext("JB_checkpoint_name", ""),
        tuple(one.text or "" for one in said.iterfind("JB_jid_predecessor_list//JRE_job_number")),
        float(said.findtext("JB_execution_time", "0")),
        float(said.findtext("JB_submission_time", "0")),
        _special(said),
        _is_array(said),
        said.findtext("JB_project", ""),
    )


def _is_array(said: ElementTree.Element) -> bool:
    """Return whether it is an array, including one of a single task: `qsub -t 5`."""
    tasks = said.find("JB_ja_structure/*")
    return tasks is not None and (tasks.findtext("RN_min", "1"), tasks.findtext("RN_max", "1")) != ("1", "1")


def _special(said: ElementTree.Element) -> tuple[str, ...]:
    found = ["is an array"] if _is_array(said) else []
    for tag, words in (
        ("JB_master_hard_queue_list", "a queue for its first task"),
        ("JB_soft_queue_list", "queues it would like"),
        ("JB_soft_resource_list", "resources it would like"),
    ):
        if len(said.find(tag) or ()):
            found.append(f"asks for {words}")
    if said.findtext("JB_ar", "0") != "0":
        found.append("belongs to an advance reservation")
    return tuple(found)


def listed(text: str) -> list[Listed]:
    """Parse `qstat -xml -u '*' -g t`; tasks of an array are one row each."""
    rows: dict[tuple[str, str], list[ElementTree.Element]] = {}
    for one in _tree(text).iter("job_list"):
        rows.setdefault((one.findtext("JB_job_number", ""), one.findtext("tasks", "")), []).append(one)
    return [_row(name, task, them) for (name, task), them in rows.items()]


def _row(name: str, task: str, rows: list[ElementTree.Element]) -> Listed:
    """Combine the rows of a job: a parallel job has a row MASTER, and a row SLAVE for every slot."""
    slots: dict[str, int] = {}
    slaves = [one for one in rows if one.findtext("master") == "SLAVE"]
    for one in slaves or rows:
        host = one.findtext("queue_name", "").partition("@")[2]
        if host:
            slots[host] = slots.get(host, 0) + 1
    active = any(one.get("state") == "running" for one in rows)
    return Listed(
        name, rows[0].findtext("state", ""), active, slots, task, _instant(rows[0].findtext("JAT_start_time"))
    )


def _instant(text: str | None) -> float:
    """Parse local time without a zone, as in the list."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0


def hosts(text: str, queues: Sequence[str]) -> list[Host]:
    """Parse `qhost -q -xml`: the hosts on which these queues have instances."""
    found = []
    for host in _tree(text).iterfind("host"):
        values = {one.get("name"): one.text or "" for one in host.iterfind("hostvalue")}
        said = {
            one.get("name", ""): {value.get("name"): value.text or "" for value in one.iterfind("queuevalue")}
            for one in host.iterfind("queue")
        }
        there = {queue: said[queue] for queue in queues if queue in said}
        if there:
            states = [one.get("state_string", "") for one in there.values()]
            slots = max(int(one.get("slots") or 0) for one in there.values())
            found.append(
                Host(
                    host.get("name", ""),
                    slots,
                    amount(values.get("mem_total", "-")),
                    "" if "" in states else states[0],
                    tuple(there),
                )
            )
    return found


def _tree(text: str) -> ElementTree.Element:
    """Parse a document; raise ValueError if it is not one."""
    try:
        return ElementTree.fromstring(_FORBIDDEN.sub("?", text))
    except ElementTree.ParseError as error:
        raise ValueError(f"Grid Engine answered with something that is not XML ({error})") from error
