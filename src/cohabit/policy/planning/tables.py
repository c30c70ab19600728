"""The arrays of a plan: the queue and the machine as they are, and scratch space for one forecast after another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

IDLEST, FULLEST, PATIENT = (
    0,
    1,
    2,
)  # bits of a rule: which nodes first; whether nodes are kept for a job that finds none
ENDS, LAST_END, NODE_TIME = 0, 1, 2  # what a plan is judged by: weighted ends, the last end, node seconds


class Problem(NamedTuple):
    """The queue and the machine at one instant, times in seconds from then; waiting jobs first, then running ones."""

    kind: Any  # of every node
    free: Any  # node x dimension; -1: the node takes no job
    capacity: Any  # kind x dimension
    weights: Any  # of the dimensions, in the sum of occupied fractions
    ways: Any  # of a node, by kind; 0: the cache is not divided
    stream: Any  # kind x active cores: GB/s of a node
    windows: Any  # window x (kind, begin, end)
    jobs: int  # that wait
    first: Any  # of every waiting job: its first ask; one more at the end
    limit: Any  # of every waiting job
    weight: Any  # of every job, in the sum of ends
    user: Any  # of every job; -1: it shares nodes with no job, where users matter
    by_user: bool  # whether only jobs of one user share a node
    need: Any  # nodes, by ask
    take: Any  # ask x kind x dimension; -1: not that kind
    run: Any  # seconds at full speed, by ask
    share: Any  # the largest share of a node, by ask
    speed: Any  # ask x ways: of the speed with all ways
    draw: Any  # ask x ways: GB/s on each node
    booked: Any  # ways, by ask
    waits: Any  # share of its time that it waits for memory, by ask
    alone: Any  # how slow memory is when it runs alone, by ask
    running_ask: Any
    running_left: Any  # seconds at full speed
    running_nodes: Any  # running job x nodes; -1: no more
    holder: Any  # of every promise: the waiting job it is made to
    due: Any
    marked: Any  # promise x node
    spare: Any  # promise x node x dimension: left when it begins
    goal: int
    window: int  # of the greedy form: so many jobs at the front are weighed against each other
    slack: float  # a way that costs more than this many times the cheapest is not worth a start
    own: float  # what a second of a job costs,
    each: Any  # what a second of a whole node costs for every other waiting job, by job,
    flat: float  # and in any case


class Scratch(NamedTuple):
    """The nodes and jobs of one forecast as it goes on, and its result: when jobs begin and end, and where."""

    free: Any
    spare: Any
    residents: Any  # node x seat: jobs
    count: Any  # residents of every node
    rates: Any  # node x seat
    occupied: Any
    touched: Any  # nodes to be divided anew
    ask: Any  # of every job
    nodes: Any  # job x place
    held: Any  # number of nodes of every job
    left: Any
    rate: Any
    begin: Any
    end: Any
    active: Any  # the jobs that run
    chosen: Any  # nodes found last
    fitting: Any
    sizes: Any  # ways by seat
    counts: Any  # of active, of touched, of started
    kept: Any  # whether a promise still counts
    reserved: Any  # nodes that the first blocked job waits for
    room: Any  # node x dimension: what is free on these when it begins
    shadow: Any  # when it is expected to begin; 0: no job waits for nodes
    head: Any  # its way to run
    since: Any  # when every node has room for it
    order: Any  # in which jobs started


def make_scratch(problem: Problem, seats: int) -> Scratch:
    """Return room for forecasts of this problem."""
    nodes, jobs = len(problem.kind), problem.jobs + len(problem.running_ask)
    widest = int(max(problem.need.max(initial=1), problem.running_nodes.shape[1]))
    return Scratch(
        np.zeros_like(problem.free),
        np.zeros_like(problem.spare),
        np.zeros((nodes, seats), np.int64),
        np.zeros(nodes, np.int64),
        np.ones((nodes, seats)),
        np.zeros(nodes),
        np.zeros(nodes, np.bool_),
        np.zeros(jobs, np.int64),
        np.zeros((jobs, widest), np.int64),
        np.zeros(jobs, np.int64),
        np.zeros(jobs),
        np.ones(jobs),
        np.zeros(jobs),
        np.zeros(jobs),
        np.zeros(jobs, np.int64),
        np.zeros(max(widest, nodes), np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(seats, np.int64),
        np.zeros(3, np.int64),
        np.zeros(len(problem.holder), np.bool_),
        np.zeros(nodes, np.bool_),
        np.zeros_like(problem.free),
        np.zeros(1),
        np.zeros(1, np.int64),
        np.zeros(nodes),
        np.zeros(problem.jobs, np.int64),
    )
