"""COHABIT planned: plan the whole of a short queue in advance, and act greedily where a plan is not surely better.

At every arrival, start and end the queue is planned: order, scale, ways and neighbours are annealed in the policy's own
forecast, from what it would do greedily and from the last plan, within a budget of forecasts. A plan is followed only
where its forecast beats the greedy one by more than forecasts were too short so far: jobs whose start is due now start,
and the others wait. Promises to the first blocked jobs are kept as they were made and bound how long a plan may pass
over a job. It does badly where profiles are wrong in time, and where most jobs have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cohabit.compiled import load_machine_code
from cohabit.core.ledger import ranges_of
from cohabit.core.protocols import Intent
from cohabit.model.plan import Ask
from cohabit.model.units import SECOND, span
from cohabit.policy.placement.joint import SLACK, Joint
from cohabit.policy.planning.plans import Found, find_plan, recalled, remembered
from cohabit.policy.planning.problem import Way, problem_of
from cohabit.policy.planning.record import error_of, note_ends, taken_in

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions

MOST_JOBS, MOST_NODES = 200, 512  # a longer queue and a larger machine are served greedily
PRIME = 1_000_003
Memory = dict[str, Any]


def by_form(options: PlacementOptions) -> Joint:
    """Return the greedy form of the joint policy, or the one that plans short queues."""
    return Planned(options) if options.planned else Joint(options)


class Planned(Joint):
    """The joint policy with plans of the queue."""

    name = "planned"

    def __init__(self, options: PlacementOptions) -> None:
        super().__init__(options)
        self.evaluations = options.evaluations

    def intent(self, queue: Sequence[int], ways_of: Callable[[int], list[Ask]], view: View) -> Intent:
        """Return what the plan of the queue wants now; nothing has to be planned while the state is as foreseen."""
        if view.cluster_nodes > MOST_NODES:
            return Intent((), False, {})
        memory = taken_in(view.memory.get(self.name, {}), view)
        state = _state(queue, view)
        if not 0 < len(queue) <= MOST_JOBS:
            return Intent((), False, memory | {"state": [], "followed": False, "plan": []})
        if state == memory.get("state"):
            return Intent((), memory["followed"], memory)
        load_machine_code()  # thousands of forecasts would take minutes in plain kernels
        asks = {row: each for row in queue if (each := _due(ways_of(row)))}
        names = [view.job_id(row) for row in asks]
        problem, ways = problem_of(view, self.dimensions, asks, self.objective, self.window, SLACK)
        last = recalled(memory.get("plan", ()), names, ways, problem)
        found = find_plan(problem, last, self.evaluations, PRIME * view.now_us + len(names)) if asks else None
        if found is None:
            return Intent((), False, memory | {"state": [], "followed": False, "plan": []})
        error = error_of(memory, found.value)
        followed = found.value * (1.0 + error) < found.greedy
        starts = _due_now(found, ways, list(asks)) if followed else ()
        if followed:
            note_ends(memory, names, found.end, view.now_us)
        memory |= {
            "state": _after(state, {view.job_id(row) for row, _, _ in starts}),
            "followed": followed,
            "plan": remembered(found.plan, names, ways),
            "begins": {name: view.now_us + round(at * SECOND) for name, at in zip(names, found.begin, strict=True)},
            "forecasts": [found.value, found.greedy, error],
        }
        return Intent(starts, followed, memory)

    def why_not(self, row: int, view: View) -> str:
        """Return when the job is planned to start, if a plan is followed."""
        memory = view.memory.get(self.name, {})
        begin_us = memory.get("begins", {}).get(view.job_id(row))
        if not memory.get("followed") or begin_us is None:
            return ""
        value, greedy, error = memory["forecasts"]
        saved = (
            f"the plan of the queue is {100 * (1 - value / greedy):.0f} % better than starting it as soon as it fits"
        )
        due = span(max(begin_us - view.now_us, 0))
        return f"it is planned to start in {due}: {saved} (past error {100 * error:.0f} %)"


def _due(asks: list[Ask]) -> list[Ask]:
    """Return the ways to run a job that may be planned: a measuring run that is due comes before all others."""
    return [ask for ask in asks if ask.purpose != "run"] or asks


def _due_now(found: Found, ways: Sequence[Way], rows: Sequence[int]) -> tuple[tuple[int, Ask, Any], ...]:
    """Return the jobs that start at once, in order, with their nodes."""
    return tuple(
        (rows[job], ways[found.plan.choice[job]].ask, ranges_of(found.nodes[job]))
        for job in found.plan.order.tolist()
        if found.begin[job] <= 0.0
    )


def _state(queue: Sequence[int], view: View) -> list[Any]:
    """Return what a plan rests on: who waits, what runs, which nodes are up, which windows are announced."""
    ledger = view.ledger
    windows = [[one.begin_us, one.end_us] for here in view.kinds.windows_of for one in here]
    waiting, running = (sorted(view.job_id(row) for row in rows) for rows in (queue, view.placed))
    return [waiting, running, int(ledger.count[ledger.up].sum()), windows]


def _after(state: list[Any], starting: set[str]) -> list[Any]:
    """Return the state as it will be when these jobs have started."""
    waiting, running, *rest = state
    return [[name for name in waiting if name not in starting], sorted({*running, *starting}), *rest]
