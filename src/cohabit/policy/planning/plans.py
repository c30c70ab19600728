"""Make a plan: seeds by acting greedily in several orders and by the last plan, then annealing within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cohabit.core.ledger import Nodes
from cohabit.model.plan import Ask
from cohabit.policy.planning.anneal import improve
from cohabit.policy.planning.forecast import NEVER_S, act_greedily, carry_out
from cohabit.policy.planning.problem import Ints, Way
from cohabit.policy.planning.tables import PATIENT, Problem, Scratch, make_scratch

WORD = 2**64
MOST_WORK = 1_500_000  # forecasts times jobs times nodes for one plan: a long queue gets fewer forecasts


class Seed(NamedTuple):
    """A plan: the order of the waiting jobs, the way to run and the rule of each."""

    order: Ints
    choice: Ints
    rule: Ints

    def copy(self) -> Seed:
        """Return a plan to be changed."""
        return Seed(self.order.copy(), self.choice.copy(), self.rule.copy())


class Found(NamedTuple):
    """The best plan, what it and the greedy form bring, and when and where its jobs run; times in seconds from now."""

    plan: Seed
    value: float
    greedy: float
    begin: list[float]
    end: list[float]
    nodes: list[Nodes]


def find_plan(problem: Problem, last: Seed | None, evaluations: int, word: int) -> Found | None:
    """Return the best plan found with so many forecasts; None if there is none in which all jobs run.

    `word` begins the random sequence.
    """
    scratch = make_scratch(problem, int(problem.capacity[:, 0].max()))
    jobs = problem.jobs
    greedy = _acted(problem, scratch, np.arange(jobs))
    acted = [greedy, *(_acted(problem, scratch, order) for order in _orders(problem))]
    known = [seed for value, seed in acted if value < NEVER_S] + ([last] if last is not None else [])
    if not known:
        return None
    values = [_value(problem, scratch, one) for one in known]
    value = min(values)
    if value >= NEVER_S:
        return None
    best = known[values.index(value)].copy()
    work = max(1, len(problem.weight) * len(problem.kind))
    budget = min(evaluations, MOST_WORK // work)
    state = np.array([word % WORD], np.uint64)
    value = float(improve(problem, scratch, *best, value, budget, state))
    _value(problem, scratch, best)
    nodes = [np.sort(scratch.nodes[job, : scratch.held[job]]).astype(np.int32) for job in range(jobs)]
    return Found(best, value, greedy[0], scratch.begin[:jobs].tolist(), scratch.end[:jobs].tolist(), nodes)


def _orders(problem: Problem) -> list[Ints]:
    """Return the queue with the least work first, and with the shortest request first."""
    work, first = problem.run * problem.need * problem.share, problem.first
    least = np.minimum.reduceat(work[: first[-1]], first[:-1])
    return [np.argsort(least, kind="stable"), np.argsort(problem.limit, kind="stable")]


def _acted(problem: Problem, scratch: Scratch, order: Ints) -> tuple[float, Seed]:
    """Return what the greedy form brings in this order of the queue, and the plan that does the same."""
    value = float(act_greedily(problem, scratch, order))
    return value, Seed(scratch.order.copy(), scratch.ask[: problem.jobs].copy(), np.full(problem.jobs, PATIENT))


def _value(problem: Problem, scratch: Scratch, plan: Seed) -> float:
    return float(carry_out(problem, scratch, *plan, np.inf))


# ---- the last plan as plain data ------------------------------------------------------------------------------------


def remembered(plan: Seed, names: Sequence[str], ways: Sequence[Way]) -> list[list[Any]]:
    """Return a plan as plain data: job, how it is to run, rule; in order."""
    return [[names[job], *_how(ways[plan.choice[job]].ask), int(plan.rule[job])] for job in plan.order.tolist()]


def recalled(data: Sequence[Sequence[Any]], names: Sequence[str], ways: Sequence[Way], problem: Problem) -> Seed | None:
    """Return a remembered plan for the jobs that wait now, new ones last; None if it knows none of them."""
    known: Mapping[str, tuple[int, Sequence[Any]]] = {one[0]: (place, one) for place, one in enumerate(data)}
    if known.keys().isdisjoint(names):
        return None
    order = sorted(range(len(names)), key=lambda job: known[names[job]][0] if names[job] in known else len(known) + job)
    choice, rule = problem.first[:-1].copy(), np.full(len(names), PATIENT)
    for job, name in enumerate(names):
        if name in known:
            _, (_, *how, rule[job]) = known[name]
            own = range(problem.first[job], problem.first[job + 1])
            choice[job] = next((one for one in own if _how(ways[one].ask) == how), choice[job])
    return Seed(np.array(order, np.int64), choice, rule)


def _how(ask: Ask) -> list[Any]:
    return [ask.scale, ask.nodes, ask.ways, ask.exclusive]
