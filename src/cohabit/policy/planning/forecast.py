"""What a plan brings: an event-driven forecast of the queue on the nodes there are, by the profiles. Compiled.

Jobs start in the order of the plan, each at the first instant at which it finds nodes and all before it have started.
The ways that are not booked on a node go where they bring most speed by profile, as policy/partition/spare.py divides
them, anew whenever a job comes or leaves; a job is as fast as on its slowest node, and memory slows all on a node alike
where they draw more than it gives. Promises and windows close nodes as they do in a pass. The same loop also acts
greedily, as policy/placement/joint.py and core/sharing.py do. It changes nothing but its scratch space.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cohabit.compiled import compiled, compiled_lean

NEVER_S = 1e12  # the value of a plan with a job that can never start
IDLEST, FULLEST, PATIENT = 0, 1, 2  # bits of a rule
ENDS, LAST_END, NODE_TIME = 0, 1, 2  # what a plan is judged by: weighted ends, the last end, node seconds
LEAST_GAIN = 1e-6  # of speed per way: less is nothing
DONE_S = 1e-6
KNEE = 0.6  # of what memory gives: from there on it becomes slower (model/profile.py, BANDWIDTH_BOUND)
LOADED = 0.1  # how much slower it is at full load: assumed


class Problem(NamedTuple):
    """The queue and the machine at one instant; times in seconds from then. Waiting jobs come first, then running ones."""

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


@compiled_lean
def note_occupation(problem, scratch, node):
    """Compute the weighted sum of occupied fractions of a node."""
    kind = problem.kind[node]
    total = 0.0
    for d in range(problem.weights.shape[0]):
        if problem.weights[d] > 0.0:
            whole = problem.capacity[kind, d]
            total += problem.weights[d] * (whole - scratch.free[node, d]) / max(whole, 1)
    scratch.occupied[node] = total


@compiled_lean
def free_reserved(scratch):
    """Forget for which nodes a job waits."""
    for node in range(scratch.reserved.shape[0]):
        scratch.reserved[node] = False
    scratch.shadow[0] = 0.0


@compiled_lean
def end_of(scratch, job, time):
    """Return when a running job is expected to end."""
    return time + scratch.left[job] / scratch.rate[job]


@compiled_lean
def room_since(problem, scratch, ask, node, time):
    """Return when a node has room for a way to run, as its residents leave one after another."""
    kind = problem.kind[node]
    if problem.take[ask, kind, 0] < 0 or scratch.free[node, 0] < 0:
        return np.inf
    since = time
    while True:
        enough = True
        for d in range(problem.weights.shape[0]):
            free = scratch.free[node, d]
            for place in range(scratch.count[node]):
                job = scratch.residents[node, place]
                if end_of(scratch, job, time) <= since:
                    free += problem.take[scratch.ask[job], kind, d]
            enough = enough and free >= problem.take[ask, kind, d]
        if enough:
            return since
        later = np.inf
        for place in range(scratch.count[node]):
            end = end_of(scratch, scratch.residents[node, place], time)
            if since < end < later:
                later = end
        if later == np.inf:
            return np.inf
        since = later


@compiled_lean
def reserve(problem, scratch, ask, time):
    """Keep the nodes that have room first for a job that finds none now."""
    nodes = problem.kind.shape[0]
    need = problem.need[ask]
    for node in range(nodes):
        scratch.since[node] = room_since(problem, scratch, ask, node, time)
    shadow = time
    for _ in range(need):
        best = -1
        for node in range(nodes):
            if not scratch.reserved[node] and (best < 0 or scratch.since[node] < scratch.since[best]):
                best = node
        if best < 0 or scratch.since[best] == np.inf:
            free_reserved(scratch)
            return
        scratch.reserved[best] = True
        shadow = max(shadow, scratch.since[best])
    scratch.shadow[0] = shadow
    scratch.head[0] = ask
    for node in range(nodes):
        if scratch.reserved[node]:
            kind = problem.kind[node]
            for d in range(problem.weights.shape[0]):
                free = scratch.free[node, d]
                for place in range(scratch.count[node]):
                    job = scratch.residents[node, place]
                    if end_of(scratch, job, time) <= shadow:
                        free += problem.take[scratch.ask[job], kind, d]
                scratch.room[node, d] = free


@compiled_lean
def seat(problem, scratch, job, ask, node, time, ends):
    """Put a job on a node; `ends`: when it leaves it at the latest."""
    kind = problem.kind[node]
    for d in range(problem.weights.shape[0]):
        scratch.free[node, d] -= problem.take[ask, kind, d]
    for p in range(problem.due.shape[0]):
        if scratch.kept[p] and ends > problem.due[p]:
            for d in range(problem.weights.shape[0]):
                scratch.spare[p, node, d] -= problem.take[ask, kind, d]
    if scratch.reserved[node] and time + problem.run[ask] > scratch.shadow[0]:
        for d in range(problem.weights.shape[0]):
            scratch.room[node, d] -= problem.take[ask, kind, d]
    scratch.residents[node, scratch.count[node]] = job
    scratch.count[node] += 1
    scratch.touched[node] = True
    note_occupation(problem, scratch, node)


@compiled
def begin_all(problem, scratch):
    """Begin a forecast: the nodes as they are, with the jobs that run."""
    scratch.free[:] = problem.free
    scratch.spare[:] = problem.spare
    scratch.count[:] = 0
    scratch.kept[:] = True
    scratch.counts[:] = 0
    scratch.touched[:] = False
    scratch.rate[:] = 1.0
    free_reserved(scratch)
    for node in range(problem.kind.shape[0]):
        note_occupation(problem, scratch, node)
    for place in range(problem.running_ask.shape[0]):
        job = problem.jobs + place
        scratch.ask[job] = problem.running_ask[place]
        scratch.left[job] = problem.running_left[place]
        scratch.begin[job] = 0.0
        held = 0
        for slot in range(problem.running_nodes.shape[1]):
            node = problem.running_nodes[place, slot]
            if node < 0:
                break
            scratch.nodes[job, slot] = node
            scratch.residents[node, scratch.count[node]] = job
            scratch.count[node] += 1
            scratch.touched[node] = True
            held += 1
        scratch.held[job] = held
        scratch.active[scratch.counts[0]] = job
        scratch.counts[0] += 1


@compiled_lean
def is_open(problem, scratch, job, ask, node, time):
    """Return whether a job may start on a node now."""
    kind = problem.kind[node]
    if problem.take[ask, kind, 0] < 0:
        return False
    for d in range(problem.weights.shape[0]):
        if scratch.free[node, d] < problem.take[ask, kind, d]:
            return False
    ends = time + problem.limit[job]
    for p in range(problem.due.shape[0]):
        if scratch.kept[p] and problem.holder[p] != job and problem.marked[p, node] and ends > problem.due[p]:
            for d in range(problem.weights.shape[0]):
                if scratch.spare[p, node, d] < problem.take[ask, kind, d]:
                    return False
    for w in range(problem.windows.shape[0]):
        if problem.windows[w, 0] == kind and problem.windows[w, 1] < ends and time < problem.windows[w, 2]:
            return False
    if scratch.reserved[node] and time + problem.run[ask] > scratch.shadow[0]:
        for d in range(problem.weights.shape[0]):
            if scratch.room[node, d] - problem.take[ask, kind, d] < problem.take[scratch.head[0], kind, d]:
                return False
    if problem.by_user:
        for place in range(scratch.count[node]):
            other = scratch.residents[node, place]
            if problem.user[other] != problem.user[job] or problem.user[job] < 0:
                return False
    return True


@compiled_lean
def find(problem, scratch, job, ask, time, rule):
    """Find nodes for a job, the idlest or the fullest; they are in scratch.chosen."""
    need = problem.need[ask]
    count = 0
    for node in range(problem.kind.shape[0]):
        if is_open(problem, scratch, job, ask, node, time):
            scratch.fitting[count] = node
            count += 1
    if count < need:
        return False
    sign = -1.0 if rule & FULLEST else 1.0
    for place in range(need):  # selection: few nodes are needed, mostly
        best = place
        for other in range(place + 1, count):
            one = scratch.fitting[other]
            ahead = scratch.fitting[best]
            gap = sign * (scratch.occupied[one] - scratch.occupied[ahead])
            if gap < -1e-9 or (gap <= 1e-9 and one < ahead):
                best = other
        found = scratch.fitting[best]
        scratch.fitting[best] = scratch.fitting[place]
        scratch.fitting[place] = found
        scratch.chosen[place] = found
    return True


@compiled_lean
def start(problem, scratch, job, ask, time):
    """Start a job on the nodes found last."""
    need = problem.need[ask]
    for p in range(problem.due.shape[0]):
        if problem.holder[p] == job:
            scratch.kept[p] = False
    ends = time + problem.limit[job]
    for place in range(need):
        node = scratch.chosen[place]
        scratch.nodes[job, place] = node
        seat(problem, scratch, job, ask, node, time, ends)
    scratch.held[job] = need
    scratch.ask[job] = ask
    scratch.left[job] = problem.run[ask]
    scratch.rate[job] = 1.0
    scratch.begin[job] = time
    scratch.active[scratch.counts[0]] = job
    scratch.counts[0] += 1
    scratch.order[scratch.counts[2]] = job
    scratch.counts[2] += 1


@compiled_lean
def leave(problem, scratch, job):
    """Take a job that has ended off its nodes."""
    ask = scratch.ask[job]
    ends = scratch.begin[job] + problem.limit[job] if job < problem.jobs else 0.0
    for place in range(scratch.held[job]):
        node = scratch.nodes[job, place]
        kind = problem.kind[node]
        down = scratch.free[node, 0] < 0
        for d in range(problem.weights.shape[0]):
            if not down:
                scratch.free[node, d] += problem.take[ask, kind, d]
        for p in range(problem.due.shape[0]):
            if job < problem.jobs and scratch.kept[p] and ends > problem.due[p]:
                for d in range(problem.weights.shape[0]):
                    scratch.spare[p, node, d] += problem.take[ask, kind, d]
        last = 0
        for other in range(scratch.count[node]):
            if scratch.residents[node, other] != job:
                scratch.residents[node, last] = scratch.residents[node, other]
                last += 1
        scratch.count[node] = last
        scratch.touched[node] = True
        note_occupation(problem, scratch, node)


@compiled_lean
def latency(load):
    """Return how much longer memory takes than on an idle node."""
    return 1.0 + LOADED * max(0.0, min(load, 1.0) - KNEE) / (1.0 - KNEE)


@compiled_lean
def divide(problem, scratch, node):
    """Divide the cache of a node among its residents, and compute the speed of each."""
    kind = problem.kind[node]
    count = scratch.count[node]
    spare = problem.ways[kind]
    for place in range(count):
        ask = scratch.ask[scratch.residents[node, place]]
        scratch.sizes[place] = problem.booked[ask]
        spare -= problem.booked[ask]
    while spare > 0:
        best = LEAST_GAIN
        at = -1
        step = 0
        for place in range(count):
            ask = scratch.ask[scratch.residents[node, place]]
            size = scratch.sizes[place]
            for more in range(1, spare + 1):
                gain = (problem.speed[ask, size + more] - problem.speed[ask, size]) / more
                if gain > best:
                    best, at, step = gain, place, more
        if at < 0:
            break
        scratch.sizes[at] += step
        spare -= step
    drawn = 0.0
    cores = 0
    for place in range(count):
        ask = scratch.ask[scratch.residents[node, place]]
        drawn += problem.draw[ask, scratch.sizes[place]]
        cores += problem.take[ask, kind, 0]
    most = problem.stream[kind, min(cores, problem.stream.shape[1] - 1)]
    slow = latency(drawn / most)
    for place in range(count):
        ask = scratch.ask[scratch.residents[node, place]]
        waits = problem.waits[ask]
        rate = problem.speed[ask, scratch.sizes[place]] * min(1.0, most / max(drawn, 1e-9))
        scratch.rates[node, place] = rate * (1.0 + waits * (problem.alone[ask] - 1.0)) / (1.0 + waits * (slow - 1.0))


@compiled_lean
def settle(problem, scratch):
    """Divide all touched nodes anew; a job is as fast as on its slowest node."""
    for node in range(problem.kind.shape[0]):
        if scratch.touched[node]:
            divide(problem, scratch, node)
    for place in range(scratch.counts[0]):
        job = scratch.active[place]
        new = False
        for slot in range(scratch.held[job]):
            new = new or scratch.touched[scratch.nodes[job, slot]]
        if new:
            rate = 1.0
            for slot in range(scratch.held[job]):
                node = scratch.nodes[job, slot]
                for other in range(scratch.count[node]):
                    if scratch.residents[node, other] == job:
                        rate = min(rate, scratch.rates[node, other])
            scratch.rate[job] = max(rate, 0.05)
    scratch.touched[:] = False


@compiled_lean
def cost_of(problem, job, ask, waiting):
    """Return what a way to run costs: the job's own time, and the time it takes from those that wait."""
    return problem.run[ask] * (
        problem.own + (problem.each[job] * max(waiting - 1, 0) + problem.flat) * problem.need[ask] * problem.share[ask]
    )


@compiled_lean
def choose(problem, scratch, job, time, waiting):
    """Return the cheapest way of a job that finds nodes and is worth it, and its regret; the nodes are found."""
    least = np.inf
    for ask in range(problem.first[job], problem.first[job + 1]):
        least = min(least, cost_of(problem, job, ask, waiting))
    floor = -1.0
    last = -1
    while True:
        best = -1
        lowest = problem.slack * least
        for ask in range(problem.first[job], problem.first[job + 1]):
            cost = cost_of(problem, job, ask, waiting)
            if (cost > floor or (cost == floor and ask > last)) and (cost < lowest or (best < 0 and cost <= lowest)):
                lowest, best = cost, ask
        if best < 0:
            return -1, np.inf
        if find(problem, scratch, job, best, time, IDLEST):
            return best, lowest / least - 1.0 if least > 0.0 else 0.0
        floor, last = lowest, best


@compiled_lean
def soonest(problem, scratch, job, time, waiting):
    """Return the way of a blocked job after which it is expected to end first, of those that are worth it."""
    least = np.inf
    for ask in range(problem.first[job], problem.first[job + 1]):
        least = min(least, cost_of(problem, job, ask, waiting))
    found = problem.first[job]
    end = np.inf
    for ask in range(problem.first[job], problem.first[job + 1]):
        if cost_of(problem, job, ask, waiting) <= problem.slack * least:
            reserve(problem, scratch, ask, time)
            if 0.0 < scratch.shadow[0] + problem.run[ask] < end and scratch.shadow[0] > 0.0:
                found, end = ask, scratch.shadow[0] + problem.run[ask]
            free_reserved(scratch)
    return found


@compiled_lean
def start_greedily(problem, scratch, order, started, time):
    """Start the next job as the greedy form does; return whether there was one."""
    jobs = problem.jobs
    waiting = jobs - scratch.counts[2]
    best = -1
    best_ask = -1
    least = np.inf
    looked = 0
    for place in range(jobs):
        job = order[place]
        if started[job]:
            continue
        looked += 1
        if looked > problem.window and best >= 0:
            break
        ask, regret = choose(problem, scratch, job, time, waiting)
        if ask < 0 and best < 0 and scratch.shadow[0] == 0.0:
            reserve(problem, scratch, soonest(problem, scratch, job, time, waiting), time)
        if ask >= 0 and regret < least:
            best, best_ask, least = job, ask, regret
            if regret <= 0.0 or looked > problem.window:
                break
    if best < 0:
        return False
    find(problem, scratch, best, best_ask, time, IDLEST)
    started[best] = True
    start(problem, scratch, best, best_ask, time)
    return True


@compiled
def carry_out(problem, scratch, order, choice, rule, greedy, most):
    """Return the value of a plan, the smaller the better; infinity as soon as it must be above `most`.

    Greedy: the jobs are started as the greedy form does it, in this order of the queue.
    """
    jobs = problem.jobs
    begin_all(problem, scratch)
    started = np.zeros(jobs, np.bool_)
    front = 0
    total = 0.0
    ahead = 0.0  # the least that jobs still cost that have not started, from now on
    weight = 0.0  # of these jobs
    for job in range(0 if greedy else jobs):
        ahead += problem.weight[job] * problem.run[choice[job]]
        weight += problem.weight[job]
    time = 0.0
    place = 0
    last = 0.0
    while True:
        if greedy:
            while place < jobs and start_greedily(problem, scratch, order, started, time):
                place += 1
        else:
            while front < jobs and started[order[front]]:
                front += 1
            for index in range(front, jobs):
                job = order[index]
                if started[job]:
                    continue
                if find(problem, scratch, job, choice[job], time, rule[job]):
                    start(problem, scratch, job, choice[job], time)
                    started[job] = True
                    ahead -= problem.weight[job] * problem.run[choice[job]]
                    weight -= problem.weight[job]
                    place += 1
                elif rule[job] & PATIENT and scratch.shadow[0] == 0.0:
                    reserve(problem, scratch, choice[job], time)
        free_reserved(scratch)
        settle(problem, scratch)
        step = np.inf
        least = total + weight * time + ahead
        for index in range(scratch.counts[0]):
            job = scratch.active[index]
            needs = scratch.left[job] / scratch.rate[job]
            step = min(step, needs)
            least += problem.weight[job] * (time + scratch.left[job])
        if problem.goal == ENDS and least > most:
            return np.inf
        if place < jobs:
            for w in range(problem.windows.shape[0]):
                if problem.windows[w, 2] > time:
                    step = min(step, problem.windows[w, 2] - time)
        if step == np.inf:
            return NEVER_S if place < jobs else judged(problem, total, last, scratch)
        time += step
        still = 0
        for index in range(scratch.counts[0]):
            job = scratch.active[index]
            scratch.left[job] -= step * scratch.rate[job]
            if scratch.left[job] > DONE_S:
                scratch.active[still] = job
                still += 1
            else:
                scratch.end[job] = time
                leave(problem, scratch, job)
                total += problem.weight[job] * time
                last = time
        scratch.counts[0] = still


@compiled_lean
def judged(problem, total, last, scratch):
    """Return the value by the goal; ends break ties between plans that are equal by another one."""
    if problem.goal == ENDS:
        return total
    if problem.goal == LAST_END:
        return last + 1e-6 * total
    spent = 0.0
    for job in range(problem.jobs):
        spent += (
            (scratch.end[job] - scratch.begin[job]) * problem.need[scratch.ask[job]] * problem.share[scratch.ask[job]]
        )
    return spent + 1e-6 * total
