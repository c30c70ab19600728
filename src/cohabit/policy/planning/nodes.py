"""Nodes in a forecast: who fits where, what starts and leaves, how fast residents are. Compiled.

The ways that are not booked on a node go where they bring most speed by profile, as policy/partition/spare.py divides
them, anew whenever a job comes or leaves; a job is as fast as on its slowest node, and loaded memory slows jobs as far
as they wait for it. Promises, windows, users and the reservation of the first blocked job close nodes.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean
from cohabit.policy.planning.tables import FULLEST

LEAST_GAIN = 1e-6  # of speed per way: less is nothing
LEAST_RATE = 0.05  # of full speed: whatever the curves say
KNEE = 0.6  # of what memory gives: from there on it becomes slower (model/profile.py, BANDWIDTH_BOUND)
LOADED = 0.1  # how much slower it is at full load: assumed


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
def free_at(problem, scratch, node, d, time, until):
    """Return what a node has free in one dimension when the residents that are expected to end by then have left."""
    kind = problem.kind[node]
    free = scratch.free[node, d]
    for place in range(scratch.count[node]):
        job = scratch.residents[node, place]
        if end_of(scratch, job, time) <= until:
            free += problem.take[scratch.ask[job], kind, d]
    return free


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
            enough = enough and free_at(problem, scratch, node, d, time, since) >= problem.take[ask, kind, d]
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
            for d in range(problem.weights.shape[0]):
                scratch.room[node, d] = free_at(problem, scratch, node, d, time, shadow)


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
            scratch.rate[job] = max(rate, LEAST_RATE)
    scratch.touched[:] = False
