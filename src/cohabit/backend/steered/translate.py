"""Translate a job of the manager for the core, or say why it is left to the manager. Pure.

What is not understood is not guessed: such a job is released untouched. A number of nodes its owner named is kept. The
core's processes are the manager's CPUs.
"""

from __future__ import annotations

from cohabit.backend.steered.holds import holder
from cohabit.backend.steered.marks import HELD, RUN, Before, is_back, mates_in, read_mark, stated_type
from cohabit.backend.steered.shapes import ManagerJob, Terms
from cohabit.model.job import GAIN, NEVER, Job
from cohabit.model.profile import owner_of
from cohabit.model.units import DAY, SECOND

NO_LIMIT_US = 365 * DAY  # of a job without a limit
MIB = 2**20
PROGRAMS = ("name", "command", "comment", "none")


def is_ours(job: ManagerJob, terms: Terms) -> bool:
    """Return whether the job is held for us."""
    if not (job.waits and job.held and job.partition in terms.partitions):
        return False
    mark = read_mark(job.mark)
    if mark is not None:
        return mark.kind in (HELD, RUN)
    return terms.all_held and not job.mark and job.submit_s >= terms.since_s and not holder(job)


def is_others(job: ManagerJob, terms: Terms) -> bool:
    """Return whether the job was held before every held job was ours, or it is an administrator's hold."""
    waits = terms.all_held and not job.mark and job.waits and job.held and job.partition in terms.partitions
    return waits and not is_ours(job, terms)


def goes_on_waiting(job: ManagerJob, terms: Terms) -> bool:
    """Return whether a job that we gave back is to be taken again: it waits as its owner asked for it, and is not held.
    One with mates is its owner's."""
    waits = job.waits and not job.held and is_back(job.mark)
    return waits and terms.takes_again and not (job.mates or mates_in(job.mark) or why_not(job, terms))


def has_come(job: ManagerJob, now_s: float) -> bool:
    """Return whether its begin time has passed; a delay after a requeue does not count."""
    return job.restarts > 0 or job.begin_s <= now_s


def why_not(job: ManagerJob, terms: Terms) -> str:
    """Return why it is left to the manager; empty: it is understood."""
    if job.special:
        return job.special[0]
    if "," in job.partition:
        return f"names several partitions ({job.partition})"
    steered = (mark := read_mark(job.mark)) is not None and mark.kind == RUN
    if not steered and (job.required_nodes or job.excluded_nodes):
        return "names nodes of its own"
    before = before_of(job)
    if before.most and before.most != before.least:
        return f"takes between {before.least} and {before.most} nodes"
    if not steered and before.per_node > max(job.cpus_per_task, job.tasks_per_node * job.cpus_per_task, 1):
        return f"wants at least {before.per_node} CPUs on each node"
    if job.cpus_per_task > terms.node_cpus:
        return f"has tasks of {job.cpus_per_task} CPUs"
    return ""


def before_of(job: ManagerJob) -> Before:
    """Return what its owner asked for, even if it has been steered."""
    mark = read_mark(job.mark)
    if mark is not None and mark.kind == RUN:
        return mark.before
    implied = job.nodes_least < job.nodes_most >= job.tasks  # 26.05: without its own bound, that of its tasks
    if implied or (mark is not None and mark.open):
        return Before(job.nodes_least, 0, job.cpus_per_node, job.cpus)
    return Before(job.nodes_least, job.nodes_most, job.cpus_per_node, job.cpus)


def asked_whole(job: ManagerJob) -> bool:
    """Return whether its owner wants exclusive nodes."""
    return job.exclusive and not before_of(job).made


def shape_of(job: ManagerJob) -> tuple[object, ...]:
    """Return what must not change while the job is in the core's queue."""
    return (
        job.tasks,
        job.cpus_per_task,
        job.partition,
        asked_whole(job),
        job.memory_per_cpu_mb,
        job.memory_per_node_mb,
        job.account,
    )


def job_of(job: ManagerJob, terms: Terms) -> Job:
    """Return the job for the core; `why_not` was empty."""
    before, per_task = before_of(job), job.cpus_per_task
    cpus = _whole_cores(max(job.tasks * per_task, 1), terms)
    needed = -(-cpus // terms.node_cpus)  # nodes, if packed
    nodes, single = 0, before.most == 1
    if per_task > 1 and needed > 1:
        nodes = -(-job.tasks // (terms.node_cpus // per_task))  # a task cannot be split between nodes
    elif per_task > 1:
        single = True
    if before.most > 1 and (before.most > needed or job.tasks_per_node):
        nodes = before.most
    elif job.tasks_per_node and not single:
        nodes = -(-job.tasks // job.tasks_per_node)
    if nodes:  # so many tasks on each, and at least one
        cpus = nodes * _whole_cores(max(-(-job.tasks // nodes) * per_task, 1), terms)
    single = single and not nodes
    return Job(
        job.name,
        limit_of(job),
        cpus,
        nodes,
        _memory(job, cpus // nodes if nodes else cpus, terms) if terms.memory else 0,
        job.user,
        _program(job, terms),
        job.partition,
        requeue=job.requeue,
        exclusive=asked_whole(job),
        single_node=single,
        mates=terms.group_of(job.mates) if job.mates else None,
        profile_owner=owner_of(job.user),
        account=job.account,
        workload_type=stated_type(job.comment),
        spread=NEVER if nodes or before.most else GAIN,
    )


def _whole_cores(cpus: int, terms: Terms) -> int:
    return -(-cpus // terms.threads) * terms.threads


def limit_of(job: ManagerJob) -> int:
    """Return its time limit."""
    return NO_LIMIT_US if job.limit_s is None else max(round(job.limit_s * SECOND), SECOND)


def _memory(job: ManagerJob, cpus: int, terms: Terms) -> int:
    """Return the memory per CPU; if stated per node, as if packed."""
    if job.memory_per_cpu_mb:
        return job.memory_per_cpu_mb * MIB
    return job.memory_per_node_mb * MIB // min(cpus, terms.node_cpus)


def _program(job: ManagerJob, terms: Terms) -> str:
    said = {"name": job.job_name, "command": job.command.split(" ")[0], "comment": job.comment}
    return said.get(terms.program, "")
