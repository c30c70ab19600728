"""Better plans by simulated annealing: other places in the order, other ways to run, other nodes. Compiled.

A better plan is always taken, a worse one with probability exp(loss / temperature). The budget is a number of
forecasts. Random numbers are a splitmix64 sequence from the word handed in, so the same state gives the same plan.
"""

from __future__ import annotations

import math

from cohabit.compiled import compiled
from cohabit.optimise.annealing import next_uniform
from cohabit.policy.planning.forecast import carry_out
from cohabit.policy.planning.tables import FULLEST, PATIENT

WARM, COLD = 0.01, 0.0002  # temperature at the begin and at the end, of the value of the plan
MOVES, SWAPS, WAYS = 0.35, 0.6, 0.9  # shares of proposals: below each another place, an exchange, another way; nodes


@compiled
def improve(problem, scratch, order, choice, rule, value, evaluations, word):
    """Improve a plan in place by so many forecasts; return its value."""
    jobs = problem.jobs
    best_order = order.copy()
    best_choice = choice.copy()
    best_rule = rule.copy()
    best = value
    next_order = order.copy()
    warmth = WARM * value
    cooling = (COLD / WARM) ** (1.0 / max(evaluations, 1))
    for _ in range(evaluations):
        warmth *= cooling
        next_order[:] = order
        job = int(next_uniform(word) * jobs)
        old_choice = choice[job]
        old_rule = rule[job]
        kind = next_uniform(word)
        ways = problem.first[job + 1] - problem.first[job]
        if kind < SWAPS and jobs > 1:
            here = int(next_uniform(word) * jobs)
            there = int(next_uniform(word) * (jobs - 1))
            if there >= here:
                there += 1
            if kind < MOVES:
                moved = next_order[here]
                step = 1 if there > here else -1
                for place in range(here, there, step):
                    next_order[place] = next_order[place + step]
                next_order[there] = moved
            else:
                moved = next_order[here]
                next_order[here] = next_order[there]
                next_order[there] = moved
        elif kind < WAYS and ways > 1:
            other = problem.first[job] + int(next_uniform(word) * (ways - 1))
            choice[job] = other if other < old_choice else other + 1
        else:
            rule[job] = old_rule ^ (FULLEST if next_uniform(word) < 0.5 else PATIENT)
        allowed = value - warmth * math.log(1.0 - next_uniform(word))
        found = carry_out(problem, scratch, next_order, choice, rule, allowed)
        if found <= allowed:
            value = found
            order[:] = next_order
            if found < best:
                best = found
                best_order[:] = order
                best_choice[:] = choice
                best_rule[:] = rule
        else:
            choice[job] = old_choice
            rule[job] = old_rule
    order[:] = best_order
    choice[:] = best_choice
    rule[:] = best_rule
    return best
