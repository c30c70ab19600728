"""A job of Grid Engine in the shape the steering back end knows, and what its owner asked for. Pure.

Its slots are CPUs, its queue is the partition, the mark stands in its context. What is not understood is named in
`special`, and such a job is left to Grid Engine untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cohabit.backend.gridengine.commands import ASKED, MARK
from cohabit.backend.gridengine.xml_output import Described, Host, Listed
from cohabit.backend.slurm.marks import RUN, read_mark
from cohabit.backend.slurm.shapes import PENDING, RUNNING, SUSPENDED, SlurmJob, SlurmNode

ROUND_ROBIN, ONE_HOST, FILL_UP = "$round_robin", "$pe_slots", "$fill_up"
MIB = 2**20
# Requests that limit a run or that Grid Engine itself checks when it starts one; others mean hosts we know nothing of.
UNDERSTOOD = (
    "h_rt", "s_rt", "h_cpu", "s_cpu", "h_vmem", "s_vmem", "h_rss", "s_rss", "h_data", "s_data", "h_stack", "s_stack",
    "h_core", "s_core", "h_fsize", "s_fsize", "mem_free", "virtual_free",
)  # fmt: skip


class Site(NamedTuple):
    """What decides how jobs are read."""

    queue: str  # the one that is steered
    slots: int  # of its smallest host
    rules: Mapping[str, str]  # parallel environment -> how it spreads slots over hosts
    exclusive: str = ""  # the complex by which a job gets hosts to itself; empty: there is none
    checkpoint: str = ""  # the environment by which a run can be stopped and queued again


def job_of(said: Described, stands: Listed, site: Site) -> SlurmJob:
    """Both answers about one job."""
    least, most, per_node, special = _spread(said, site)
    queues = [queue for queue in said.queues if queue not in (site.queue, "*")]
    hosts = tuple(queue.partition("@")[2] for queue in queues if queue.startswith(f"{site.queue}@"))
    foreign = [queue for queue in queues if not queue.startswith(f"{site.queue}@")]
    unknown = [name for name in said.requests if name not in UNDERSTOOD and name != site.exclusive]
    special += [f"names queues of its own ({foreign[0]})"] if foreign else []
    special += [f"asks for {unknown[0]}"] if unknown else []
    return SlurmJob(
        said.name, int(said.name), _state(stands), _reason(stands), "h" in stands.state, said.user, said.job_name,
        said.script, _comment(said), said.context.get(MARK, ""), site.queue, ",".join(said.waits_for),
        tasks=said.slots_least, cpus=said.slots_least, tasks_per_node=per_node, nodes_least=least, nodes_most=most,
        limit_s=said.limit_s, exclusive=asked_exclusive(said, site), requeue=bool(said.checkpoint == site.checkpoint),
        required_nodes=hosts, nodes=tuple(stands.slots_on) if stands.active else (),
        cores_on=stands.slots_on if stands.active else {}, submit_s=said.submit_s, begin_s=said.begin_s,
        start_s=stands.start_s,        special=(*said.special, *special),
    )  # fmt: skip


def asked_exclusive(said: Described, site: Site) -> bool:
    """Whether its owner wants hosts alone; written down when it is first steered, for that changes its requests."""
    if (mark := read_mark(said.context.get(MARK, ""))) is not None and mark.kind == RUN and ASKED in said.context:
        return said.context[ASKED] == "exclusive"
    return has_exclusive(said, site)


def has_exclusive(said: Described, site: Site) -> bool:
    """Whether it asks for hosts alone as it stands."""
    return bool(site.exclusive) and said.requests.get(site.exclusive, "0").lower() in ("true", "1")


def _spread(said: Described, site: Site) -> tuple[int, int, int, list[str]]:
    """Hosts at least, at most (0: any number), slots on each (0: any), and what stands in the way."""
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
    """Letters of qstat(1) to the words the back end knows."""
    letters = stands.state
    if stands.active:
        if "d" in letters:
            return "COMPLETING"
        return SUSPENDED if set("sST") & set(letters) else RUNNING
    if "E" in letters:
        return "FAILED"  # Grid Engine starts it no more until somebody clears that
    return "CANCELLED" if "d" in letters else PENDING


def _reason(stands: Listed) -> str:
    return f"it is {stands.state}" if stands.state else ""


def _comment(said: Described) -> str:
    """As users of Slurm name their mates."""
    return f"cohabit:mates={said.context['mates']}" if "mates" in said.context else ""


def node_of(host: Host, queue: str) -> SlurmNode:
    """A host that nobody hears of is not lost: Grid Engine itself says when jobs there are (reschedule_unknown)."""
    words = {"u": "NOT_RESPONDING"}
    unfit = tuple(words.get(letter, "DRAIN") for letter in host.state if letter in "uadsSCDEo")
    return SlurmNode(host.name, host.slots, 1, host.memory_bytes // MIB, (queue,), unfit or ("IDLE",))
