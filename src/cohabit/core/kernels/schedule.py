"""The scheduling pass in compiled form, for machines whose nodes are interchangeable and given out whole.

The live core and the simulator's whole-trace driver both call `schedule_pass`. It knows requested times only, never
true ends. Its readable twin is the loop in core/decide.py over core/timeline.py; property tests hold the two together
on random traces.
"""

from __future__ import annotations

from cohabit.compiled import compiled_lean
from cohabit.core.columns import STARTED
from cohabit.core.kernels.bundles import CONSERVATIVE, EASY
from cohabit.core.kernels.changing import pass_by_scores
from cohabit.core.kernels.conservative import pass_with_promises
from cohabit.core.kernels.depth import pass_to_depth
from cohabit.core.kernels.easy import pass_by_ladder
from cohabit.core.kernels.overrunning import extend_overrunning


@compiled_lean
def schedule_pass(now, rule, arrived, queue, machine, scorer, work, shortlist):
    """Start every job that may start at `now`; the rows are in work.started, as many as gauges[STARTED] says.

    work.arrivals[:arrived]: rows that entered the queue since the last pass.
    """
    gauges = machine.gauges
    gauges[STARTED] = 0
    extend_overrunning(now, queue.jobs, queue.keys, machine.running, gauges)
    if rule.depth == CONSERVATIVE:
        pass_with_promises(now, rule, arrived, queue, machine, scorer, work)
    elif rule.changing:
        pass_by_scores(now, rule, arrived, queue, machine, scorer, work, shortlist)
    elif rule.depth > EASY:
        pass_to_depth(now, rule, arrived, queue, machine, work)
    else:
        pass_by_ladder(now, rule, arrived, queue, machine, work)
