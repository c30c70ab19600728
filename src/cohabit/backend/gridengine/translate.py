"""Translate a job of Grid Engine to the form the steering back end knows, with what its owner asked for. Pure.

Slots become CPUs, the queue becomes the partition, and the mark is in the job's context. What is not understood is
named in `special`, and such a job is left to Grid Engine untouched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from cohabit.backend.gridengine.commands import ANY, ASKED, MARK, QUEUE
from cohabit.backend.gridengine.text_output import amount
from cohabit.backend.gridengine.xml_output import Described, Host, Listed
from cohabit.backend.steered.marks import BACK, RUN, read_mark
from cohabit.backend.steered.shapes import PENDING, RUNNING, SUSPENDED, ManagerJob, ManagerNode

ROUND_ROBIN, ONE_HOST, FILL_UP = "$round_robin", "$pe_slots", "$fill_up"
MIB = 2**20
MEMORY = ("h_vmem", "mem_free", "virtual_free", "s_vmem", "h_rss", "s_rss")  # names by which jobs request memory
# Requests that limit a run or that Grid Engine itself checks when it starts one; others mean hosts we know nothing of.
UNDERSTOOD = (
    *MEMORY, "h_rt", "s_rt", "h_cpu", "s_cpu", "h_data", "s_data", "h_stack", "s_stack", "h_core", "s_core", "h_fsize",
    "s_fsize",
)  # fmt: skip


class Site(NamedTuple):
    """The settings for reading and submitting jobs."""

    queues: tuple[str, ...]  # the steered queues
    slots: int  # of the smallest host
    rules: Mapping[str, str]  # parallel environment -> how it spreads slots over hosts
    exclusive: str = ""  # the complex for exclusive use of hosts; empty: there is none
    checkpoint: str = ""  # the environment that can stop a run and queue it again
    memory: str = ""  # the complex for booking memory; empty: Grid Engine alone takes care of it
    memory_default: int = 0  # bytes for a job that does not ask
    memory_once: bool = False  # a job takes it once, not per slot
    most_slots: int = 0  # of the largest host
    spread: str = ""  # the parallel environment for submitted jobs on several hosts
    one_host: str = ""  # and for those on one host
    unguarded: tuple[str, ...] = ()  # queues without a starter or a prolog: programs there do not wait for their mates

    @property
    def anywhere(self) -> str:
        """The partition of a job that names no queue."""
        return self.queues[0] if len(self.queues) == 1 else ANY

    @property
    def partitions(self) -> tuple[str, ...]:
        """All partitions of jobs that can be ours."""
        return self.queues if len(self.queues) == 1 else (*self.queues, ANY)


def jobs_of(said: Described, rows: Sequence[Listed], site: Site) -> list[ManagerJob]:
    """Combine description and list rows. Tasks of an array that are on hosts are separate jobs of Grid Engine, each
    named JOB.TASK; the others are one waiting job."""
    if not said.array:
        return [job_of(said, row, site) for row in rows[:1]]
    waiting = [row for row in rows if not row.active]
    jobs = [msgspec.structs.replace(job_of(said, row, site), array=said.name) for row in waiting[:1]]
    return jobs + [
        msgspec.structs.replace(job_of(said, row, site), name=f"{said.name}.{row.task}", mark="")
        for row in rows
        if row.active
    ]


def job_of(said: Described, stands: Listed, site: Site) -> ManagerJob:
    """Combine both answers about one job."""
    least, most, per_node, special = _spread(said, site)
    queue, hosts, odd = _queue(said, site)
    unknown = [name for name in said.requests if name not in (*UNDERSTOOD, site.exclusive, site.memory)]
    special += odd + ([f"asks for {unknown[0]}"] if unknown else [])
    memory = _memory_mb(said, site)
    return ManagerJob(
        said.name,
        int(said.name),
        _state(stands),
        _reason(stands),
        "h" in stands.state,
        said.user,
        said.job_name,
        said.script,
        _comment(said),
        said.context.get(MARK, ""),
        queue,
        ",".join(said.waits_for),
        tasks=said.slots_least,
        cpus=said.slots_least,
        tasks_per_node=per_node,
        nodes_least=least,
        nodes_most=most,
        memory_per_cpu_mb=0 if site.memory_once else memory,
        memory_per_node_mb=memory if site.memory_once else 0,
        limit_s=said.limit_s,
        exclusive=asked_exclusive(said, site),
        requeue=bool(said.checkpoint == site.checkpoint),
        required_nodes=hosts,
        nodes=tuple(stands.slots_on) if stands.active else (),
        cores_on=stands.slots_on if stands.active else {},
        submit_s=said.submit_s,
        begin_s=said.begin_s,
        start_s=stands.start_s,
        special=(*said.special, *special),
        account=said.project,
    )


def asked_queue(said: Described, site: Site) -> str:
    """Return the queue its owner named, or any; it is recorded at the first steering, which changes it."""
    if _is_steered(said) and QUEUE in said.context:
        return said.context[QUEUE]
    named = [queue for queue in said.queues if queue != ANY]
    return named[0] if len(named) == 1 and named[0] in site.queues else ANY


def _queue(said: Described, site: Site) -> tuple[str, tuple[str, ...], list[str]]:
    """Return its partition, its hosts (none: any), and what prevents steering."""
    named = [queue for queue in said.queues if queue != ANY]
    hosts = tuple(dict.fromkeys(host for queue in named if (host := queue.partition("@")[2])))
    foreign = [queue for queue in named if queue.partition("@")[0] not in site.queues]
    asked = asked_queue(said, site)
    queue = site.anywhere if asked == ANY else asked
    if foreign:
        mark = read_mark(said.context.get(MARK, ""))
        ours = mark is not None and mark.kind != BACK  # it was held for us, so it must be given back
        return queue if ours else foreign[0], hosts, [f"names queues of its own ({foreign[0]})"]
    if len(named) > 1 and not _is_steered(said) and not hosts:
        return queue, hosts, [f"names several queues ({', '.join(named)})"]
    return queue, hosts, []


def _is_steered(said: Described) -> bool:
    return (mark := read_mark(said.context.get(MARK, ""))) is not None and mark.kind == RUN


def _memory_mb(said: Described, site: Site) -> int:
    """Return its amount of the complex for booking memory, in whole MiB."""
    if not site.memory:
        return 0
    asked = said.requests.get(site.memory)
    return -(-(site.memory_default if asked is None else amount(asked)) // MIB)


def asked_exclusive(said: Described, site: Site) -> bool:
    """Return whether its owner wants exclusive hosts; recorded at the first steering, which changes its requests."""
    if _is_steered(said) and ASKED in said.context:
        return said.context[ASKED] == "exclusive"
    return has_exclusive(said, site)


def has_exclusive(said: Described, site: Site) -> bool:
    """Return whether it currently asks for exclusive hosts."""
    return bool(site.exclusive) and said.requests.get(site.exclusive, "0").lower() in ("true", "1")


def _spread(said: Described, site: Site) -> tuple[int, int, int, list[str]]:
    """Return the fewest hosts, the most (0: any number), the slots on each (0: any), and what prevents steering."""
    if not said.environment:
        return 1, 1, 0, []
    slots, rule = said.slots_least, site.rules.get(said.environment, "")
    if said.slots_most != slots:
        return 1, 0, 0, [f"asks for {slots} to {said.slots_most} slots"]
    packed = -(-slots // site.slots)
    if rule == ONE_HOST:
        return 1, 1, 0, []
    if rule == FILL_UP:
        return packed, packed, 0, []
    if rule == ROUND_ROBIN:
        return 1, 0, 0, []
    if rule.isdigit() and int(rule) and slots % int(rule) == 0:
        return slots // int(rule), slots // int(rule), int(rule), []
    return 1, 0, 0, [f"uses the parallel environment {said.environment} ({rule or 'unknown'})"]


def _state(stands: Listed) -> str:
    """Map the letters of qstat(1) to the back end's words."""
    letters = stands.state
    if stands.active:
        if "d" in letters:
            return "COMPLETING"
        return SUSPENDED if set("sST") & set(letters) else RUNNING
    if "E" in letters:
        return "FAILED"  # Grid Engine does not start it until the error state is cleared
    return "CANCELLED" if "d" in letters else PENDING


def _reason(stands: Listed) -> str:
    return f"it is {stands.state}" if stands.state else ""


def _comment(said: Described) -> str:
    """Return its mates in the form that an owner's comment has (steered/marks.py)."""
    return f"cohabit:mates={said.context['mates']}" if "mates" in said.context else ""


def node_of(host: Host) -> ManagerNode:
    """Translate a host. An unreachable host is not lost: Grid Engine itself says when jobs there are
    (reschedule_unknown)."""
    words = {"u": "NOT_RESPONDING"}
    unfit = tuple(words.get(letter, "DRAIN") for letter in host.state if letter in "uadsSCDEo")
    return ManagerNode(host.name, host.slots, 1, host.memory_bytes // MIB, host.queues, unfit or ("IDLE",))
