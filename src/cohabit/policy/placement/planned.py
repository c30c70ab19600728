"""COHABIT planned: plan the whole of a short queue in advance, and act greedily where a plan is not surely better.

At every arrival, start and end the queue is planned: order, scale, ways and neighbours are annealed in the policy's own
forecast, from the greedy plan and from the last one, within a budget of forecasts. A plan is followed only where its
forecast beats the greedy one by more than forecasts were wrong so far; jobs whose start is due now start, the others
wait, and the promises to the first blocked jobs bound how long. It does badly where profiles are wrong in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from cohabit.core.ledger import ranges_of
from cohabit.model.plan import Ask
from cohabit.model.units import SECOND
from cohabit.policy.placement.joint import SLACK, Joint
from cohabit.policy.planning.anneal import improve
from cohabit.policy.planning.forecast import PATIENT, NEVER_S, carry_out, make_scratch
from cohabit.policy.planning.problem import Way, problem_of

from cohabit.core.protocols import Intent

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions

MOST_JOBS = 200
MOST_NODES = 512
MOST_WORK = 400_000_000  # forecasts times jobs times nodes, in one pass
FADING = 0.95  # of what earlier jobs say of the error, with every job that ends
NAME = "planned"
Memory = dict[str, Any]


class Planned(Joint):
    """The joint policy with plans."""

    name = NAME

    def __init__(self, options: PlacementOptions) -> None:
        super().__init__(options)
        self.evaluations = options.evaluations

    def intent(self, asks: Mapping[int, Sequence[Ask]], view: View) -> Intent:
        old: Memory = view.memory.get(NAME, {})
        memory = self._learned(old, view)
        running = sorted(view.job_id(row) for row in view.placed)
        state = [sorted(view.job_id(row) for row in asks), running, int(view.ledger.count[view.ledger.up].sum()), len(view.kinds.windows)]
        if old and state == old.get("state"):
            return Intent((), old["followed"], memory)
        if not 0 < len(asks) <= MOST_JOBS or view.cluster_nodes > MOST_NODES:
            return Intent((), False, memory | {"state": None, "followed": False})
        problem, ways = problem_of(view, self.dimensions, asks, self.objective, self.window, SLACK)
        scratch = make_scratch(problem, int(problem.capacity[:, 0].max()))
        n = problem.jobs
        order, rule = np.arange(n), np.full(n, PATIENT)
        choice = problem.first[:-1].copy()
        greedy = carry_out(problem, scratch, order, choice, rule, True, np.inf)
        seeds = []
        if greedy < NEVER_S:
            seeds.append((scratch.order.copy(), scratch.ask[:n].copy(), rule.copy()))
        least = np.array([(problem.run * problem.need * problem.share)[a:b].min() for a, b in zip(problem.first[:-1], problem.first[1:])])
        short = np.argsort(least, kind="stable")
        if carry_out(problem, scratch, short, choice, rule, True, np.inf) < NEVER_S:
            seeds.append((scratch.order.copy(), scratch.ask[:n].copy(), rule.copy()))
        kept = self._seed(old, list(asks), ways, problem, view)
        if kept is not None:
            seeds.append(kept)
        best = None
        for seed in seeds:
            value = carry_out(problem, scratch, *seed, False, np.inf)
            if best is None or value < best[0]:
                best = (value, *seed)
        if best is None:
            return Intent((), False, memory | {"state": None, "followed": False})
        value, order, choice, rule = best
        budget = min(self.evaluations, MOST_WORK // max(1, (n + len(view.placed)) * view.cluster_nodes))
        word = np.array([view.now_us * 1_000_003 + n], np.uint64)
        value = improve(problem, scratch, order, choice, rule, value, budget, word)
        carry_out(problem, scratch, order, choice, rule, False, np.inf)
        error = max(0.0, memory["actual_s"] - memory["forecast_s"]) / (memory["forecast_s"] + value)
        followed = bool(value * (1 + error) < greedy and value < NEVER_S)
        starts = []
        for job in order.tolist():
            if followed and scratch.begin[job] <= 0.0:
                way = ways[choice[job]]
                nodes = np.sort(scratch.nodes[job, : scratch.held[job]]).astype(np.int32)
                starts.append((way.row, way.ask, ranges_of(nodes)))
        gone = {view.job_id(row) for row, _, _ in starts}
        queue = list(asks)
        if followed:
            for place, row in enumerate(queue):
                memory["jobs"].setdefault(view.job_id(row), [view.now_us, view.now_us + round(scratch.end[place] * SECOND)])
        memory |= {
            "state": [[one for one in state[0] if one not in gone], sorted([*running, *gone]), *state[2:]],
            "followed": followed,
            "order": [
                [view.job_id(queue[job]), *self._signature(ways[choice[job]].ask), int(rule[job])] for job in order.tolist()
            ],
            "log": [greedy, value, error],
        }
        return Intent(tuple(starts), followed, memory)

    @staticmethod
    def _signature(ask: Ask) -> list[Any]:
        return [ask.scale, ask.nodes, ask.ways, ask.exclusive]

    def _seed(self, old, queue, ways, problem, view):
        known = {one[0]: (place, one) for place, one in enumerate(old.get("order", []))}
        if not known:
            return None
        names = [view.job_id(row) for row in queue]
        order = np.array(sorted(range(len(queue)), key=lambda one: known.get(names[one], (len(known) + one, 0))[0]))
        choice, rule = problem.first[:-1].copy(), np.full(len(queue), PATIENT)
        for job, name in enumerate(names):
            if name in known:
                rule[job] = known[name][1][-1]
                for a in range(problem.first[job], problem.first[job + 1]):
                    if self._signature(ways[a].ask) == known[name][1][1:-1]:
                        choice[job] = a
        return order, choice, rule

    def _learned(self, old: Memory, view: View) -> Memory:
        memory = {"jobs": dict(old.get("jobs", {})), "running": {}, "actual_s": old.get("actual_s", 0.0), "forecast_s": old.get("forecast_s", 0.0)}
        memory |= {key: old[key] for key in ("state", "followed", "order", "log") if key in old}
        now = {view.job_id(row): row for row in view.placed}
        from cohabit.core.columns import SUBMIT
        for name, submit in old.get("running", {}).items():
            if name in now:
                continue
            span = (view.now_us - submit) / SECOND
            known = memory["jobs"].pop(name, None)
            a, f = (span, span) if known is None else ((view.now_us - known[0]) / SECOND, (known[1] - known[0]) / SECOND)
            memory["actual_s"] = FADING * memory["actual_s"] + a
            memory["forecast_s"] = FADING * memory["forecast_s"] + f
        memory["running"] = {name: int(view.jobs[SUBMIT, row]) for name, row in now.items()}
        memory["jobs"] = {name: one for name, one in memory["jobs"].items() if name in now or view.waits(name)}
        return memory
