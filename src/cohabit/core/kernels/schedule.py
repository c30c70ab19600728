"""The scheduling pass in compiled form, for machines whose nodes are interchangeable and given out whole.

The live core and the simulator's whole-trace driver call the same kernels. They know requested times only, never true
ends. Their readable twin is the loop in core/decide.py over core/timeline.py; property tests check that the two agree
on random traces. Each is compiled when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable

from cohabit.core.kernels.bundles import CONSERVATIVE, EASY, Machine, Queue, Rule, Scorer, Workspace
from cohabit.core.kernels.changing import pass_by_scores
from cohabit.core.kernels.conservative import pass_with_promises
from cohabit.core.kernels.depth import pass_to_depth
from cohabit.core.kernels.easy import pass_by_ladder

Pass = Callable[[int, Rule, int, Queue, Machine, Scorer, Workspace], None]


def pass_of(rule: Rule) -> Pass:
    """Return the kernel for this rule: pass(now, rule, arrived, queue, machine, scorer, work).

    It starts every job that may start at `now`: the rows are in work.started, as many as gauges[STARTED] says.
    work.arrivals[:arrived] are the rows that entered the queue since the last pass.
    """
    if rule.depth == CONSERVATIVE:
        return pass_with_promises
    if rule.changing:
        return pass_by_scores
    return pass_to_depth if rule.depth > EASY else pass_by_ladder
