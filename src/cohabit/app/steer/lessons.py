"""What a run on the nodes of a manager teaches about its program: one set of rules for the daemon of a node, which has
its own store, and for the controller, which hears of runs from the daemons.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cohabit.agent.node.keeper import NodeRun
from cohabit.model.profile import Profile, ScaleProfile

LEAST_S = 1.0  # shorter runs are mostly startup and shutdown and are not learned from


@dataclass(frozen=True)
class Ran:
    """A run as its first node saw it."""

    program: str
    tasks: int
    nodes: int
    node_cores: int  # of one node
    whole: bool  # it had all cores of its nodes
    alone: bool  # no other job was on its first node
    seconds: float
    ended_us: int
    means: dict[str, float] = field(default_factory=dict)


def unfit(ran: Ran) -> str:
    """Return why a run is not to be learned from; empty: it teaches.

    Only jobs that had all their nodes to themselves teach: on one node that is seen there, on several it follows from
    having all cores.
    """
    if not ran.program:
        return "its program has no name"
    if ran.nodes < 1 or ran.tasks < 1:
        return "its environment does not say how many tasks it had, and on how many nodes"
    if ran.seconds < LEAST_S:
        return f"it took {ran.seconds:.2f} s; runs below {LEAST_S:g} s are mostly startup"
    if not (ran.whole or (ran.nodes == 1 and ran.alone)):
        one = "other jobs were on its node, and it had not all of the node's cores"
        return one if ran.nodes == 1 else f"it had not all {ran.node_cores} cores of each of its {ran.nodes} nodes"
    scale, rest = divmod(ran.nodes, -(-ran.tasks // ran.node_cores))
    return (
        f"{ran.tasks} tasks on {ran.nodes} nodes of {ran.node_cores} cores: not a multiple of the fewest nodes"
        if rest or not scale
        else ""
    )


def taught_by(ran: Ran, hardware: str) -> Profile | None:
    """Return the profile of a run; None if it is not to be learned from (`unfit`)."""
    if unfit(ran):
        return None
    scale = ran.nodes // -(-ran.tasks // ran.node_cores)
    measured = ScaleProfile(scale, ran.seconds, counters=ran.means, measured_at_us=ran.ended_us)
    return Profile(ran.program, ran.tasks, (measured,), hardware=hardware)


def lesson(run: NodeRun, hardware: str, cores: int) -> tuple[Profile | None, str]:
    """Return the profile of a run by the words of its environment, or why there is none; only the first node of a job
    tells. `cores`: what Slurm gives out on the node."""
    words = run.words
    nodes = _whole(words.get("SLURM_JOB_NUM_NODES"))
    here = _whole(words.get("SLURM_CPUS_ON_NODE"))
    tasks = _whole(words.get("SLURM_NTASKS")) or here * nodes
    if words.get("SLURM_NODEID") != "0":
        return None, "" if words.get("SLURM_NODEID") else "no process of it was seen"
    program, ended_us = words.get("SLURM_JOB_NAME", ""), round(run.notice.ended_s * 1e6)
    ran = Ran(program, tasks, nodes, cores, here >= cores, run.alone, run.seconds, ended_us, run.means)
    return taught_by(ran, hardware), unfit(ran)


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
