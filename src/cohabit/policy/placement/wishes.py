"""Common parts of placements: wishes (scale, cores, ways, bandwidth) become asks for units on a node of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cohabit.model.job import GAIN, NEVER, Job
from cohabit.model.plan import Ask
from cohabit.model.profile import SCALING, Profile, classify, footprint
from cohabit.model.resources import BANDWIDTH, WAYS, Dimension, Wish

if TYPE_CHECKING:
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.view import View
    from cohabit.policy.exploration import Trials


class SharedNodes:
    """A placement on shared nodes that takes the idlest ones (S28 to S30)."""

    exclusive = False

    def find(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Return the idlest nodes."""
        return ledger.find(takes, ask.nodes)


def possible(job: Job, nodes: int, scale: int, view: View) -> bool:
    """Return whether such a footprint is possible: every node has a process, and there are that many nodes."""
    return scale == 1 or nodes <= min(job.processes, view.cluster_nodes)


def stays_together(job: Job, profile: Profile | None) -> bool:
    """Return whether the job runs on as few nodes as hold it only: as its owner says, or as nothing is known of a gain
    from more."""
    if job.single_node or job.spread == NEVER or (profile is not None and profile.single_node):
        return True
    return job.spread == GAIN and (profile is None or classify(profile).kind != SCALING)


def ask_for(wish: Wish, dimensions: Sequence[Dimension], view: View, row: int) -> Ask:
    """Return a shared footprint: what it takes on a node of every kind the job may use, by dimension."""
    booked = {dimension.name: dimension.need(wish) for dimension in dimensions}
    takes = tuple(tuple(booked.values()) if usable else () for usable in view.usable(row))
    ways, mbs = booked.get(WAYS.name, 0), booked.get(BANDWIDTH.name, 0)
    return Ask(wish.scale, wish.nodes, wish.cores, ways, mbs, False, "run", takes)


def wants_whole_nodes(job: Job) -> bool:
    """Return whether the job must run alone on its nodes: requested so, or nodes without stating processes."""
    return job.exclusive or job.nodes > job.processes or (job.nodes > 0 and job.processes == 1)


def alone(row: int, view: View, dimensions: Sequence[Dimension], scale: int = 1, purpose: str = "run") -> list[Ask]:
    """Return an exclusive footprint: it takes all of a node, so that only empty nodes fit."""
    job = view.job(row)
    spread = footprint(job.processes, view.smallest_node(row), scale, view.need(row))
    if not possible(job, spread.nodes, scale, view):
        return []
    takes = tuple(
        tuple(dimension.capacity(group) for dimension in dimensions) if usable else ()
        for group, usable in zip(view.kinds.groups, view.usable(row), strict=True)
    )
    return [Ask(scale, spread.nodes, spread.cores, 0, 0, True, purpose, takes)]


def trial_run(trials: Trials | None, row: int, view: View, cores: int, dimensions: Sequence[Dimension]) -> list[Ask]:
    """Return the exclusive run by which the job's program is to be measured next, if there is one."""
    job = view.job(row)
    if trials is None or not job.program:
        return []
    about = (job.program, job.profile_owner)
    trial = trials.due(job, view.profiles_of(*about), cores, view.trials_of(*about))
    return [] if trial is None else alone(row, view, dimensions, trial.scale, trial.purpose)
