"""What a plan brings: an event-driven forecast of the queue on the nodes there are, by the profiles. Compiled.

At every event each waiting job starts, in the order of the plan, if it finds nodes. The first patient job that finds
none keeps those that have room for it first, and later jobs may not delay it. The same loop also acts greedily, as
policy/placement/joint.py and core/sharing.py do. It changes nothing but its scratch space.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean
from cohabit.policy.planning.nodes import begin_all, find, free_reserved, leave, reserve, settle, start
from cohabit.policy.planning.tables import ENDS, IDLEST, LAST_END, PATIENT

NEVER_S = 1e12  # the value of a plan with a job that can never start
DONE_S = 1e-6
TIE = 1e-6  # weight of ends between plans that are equal by the goal


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


@compiled_lean
def next_event(problem, scratch, time, waiting):
    """Return how long nothing changes: until a job ends or, where jobs wait, a window is over."""
    step = np.inf
    for index in range(scratch.counts[0]):
        job = scratch.active[index]
        step = min(step, scratch.left[job] / scratch.rate[job])
    for w in range(problem.windows.shape[0] if waiting else 0):
        if problem.windows[w, 2] > time:
            step = min(step, problem.windows[w, 2] - time)
    return step


@compiled_lean
def go_on(problem, scratch, time, step):
    """Let time pass, until `time`; jobs that are done leave. Return the sum of weighted ends."""
    ends = 0.0
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
            ends += problem.weight[job] * time
    scratch.counts[0] = still
    return ends


@compiled
def act_greedily(problem, scratch, order):
    """Return what the greedy form brings in this order of the queue; who started how is in the scratch space."""
    begin_all(problem, scratch)
    started = np.zeros(problem.jobs, np.bool_)
    total = 0.0
    time = 0.0
    while True:
        while scratch.counts[2] < problem.jobs and start_greedily(problem, scratch, order, started, time):
            pass
        free_reserved(scratch)
        settle(problem, scratch)
        waiting = scratch.counts[2] < problem.jobs
        step = next_event(problem, scratch, time, waiting)
        if step == np.inf:
            return NEVER_S if waiting else judged(problem, total, time, scratch)
        time += step
        total += go_on(problem, scratch, time, step)


@compiled
def carry_out(problem, scratch, order, choice, rule, most):
    """Return the value of a plan, the smaller the better; infinity as soon as it must be above `most`."""
    jobs = problem.jobs
    begin_all(problem, scratch)
    started = np.zeros(jobs, np.bool_)
    total = 0.0
    ahead = 0.0  # the least that jobs still cost that have not started, from now on
    weight = 0.0  # of these jobs
    for job in range(jobs):
        ahead += problem.weight[job] * problem.run[choice[job]]
        weight += problem.weight[job]
    time = 0.0
    front = 0
    while True:
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
            elif rule[job] & PATIENT and scratch.shadow[0] == 0.0:
                reserve(problem, scratch, choice[job], time)
        free_reserved(scratch)
        settle(problem, scratch)
        least = total + weight * time + ahead
        for index in range(scratch.counts[0]):
            job = scratch.active[index]
            least += problem.weight[job] * (time + scratch.left[job])
        if problem.goal == ENDS and least > most:
            return np.inf
        waiting = scratch.counts[2] < jobs
        step = next_event(problem, scratch, time, waiting)
        if step == np.inf:
            return NEVER_S if waiting else judged(problem, total, time, scratch)
        time += step
        total += go_on(problem, scratch, time, step)


@compiled_lean
def judged(problem, total, last, scratch):
    """Return the value by the goal; `last`: the last end. Ends break ties between plans equal by another goal."""
    if problem.goal == ENDS:
        return total
    if problem.goal == LAST_END:
        return last + TIE * total
    spent = 0.0
    for job in range(problem.jobs):
        spent += (
            (scratch.end[job] - scratch.begin[job]) * problem.need[scratch.ask[job]] * problem.share[scratch.ask[job]]
        )
    return spent + TIE * total
