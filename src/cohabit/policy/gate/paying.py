"""Wait only where it pays: the expected loss of a start into noise against that of nodes that stand idle meanwhile.

Ours, after RUSH. A start into noise loses what the model expects, scaled by how far the program's run times spread (as
the model knows them and as its own runs here show), but no more than noise goes on; and it costs `price_us` if it then
varies, for which noise must go on long enough to take the program 1.5 deviations beyond its mean. A wait costs the
nodes for as long as noise goes on, except where jobs behind that lose less take them: then the job lends them, and its
reservation is made for the end of its patience. How long noise goes on is learned from the spells seen, the present one
included: in a spell that has lasted long no job begins to wait. One that waits goes on until it is calm, for `bound_us`
at most: giving up would pay for both, the wait and the noise. It does badly where all jobs lose alike, where noise
comes and goes faster than telemetry shows, and in the first long spell, which it cannot know to be long.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.protocols import Wait
from cohabit.model.errors import InputError
from cohabit.model.telemetry import LAST_PART, WINDOW_US
from cohabit.model.units import SECOND, span
from cohabit.policy.gate.variability import (
    ASK_AGAIN_US,
    SPELLS,
    Judge,
    Judgement,
    ModelJudge,
    VariabilityGate,
    asked_about,
    gate_judge,
    loss_us,
    note_spell,
    tally,
    workload_type,
)
from cohabit.predict.variability_data import VARIATION_SIGMA

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.policy.options import GateOptions

NAME = "paying"
BOUND_US = 600 * SECOND
PRICE_US = 120 * SECOND
ALL = "all"  # types of work: noise is on the machine, not in the job
LOOKED_AT = 200  # jobs at the front of the queue that may take lent nodes
LAG_US = WINDOW_US // 2  # noise stays in the window after it is over,
LAST_LAG_US = LAG_US // LAST_PART  # for less time in its last minute


class PayingGate(VariabilityGate):
    """A gate that weighs both losses, with a bound in time."""

    name = NAME

    def __init__(
        self,
        judge: Judge,
        labels: tuple[str, ...] = ("variation",),
        bound_us: int = BOUND_US,
        price_us: int = PRICE_US,
        choose_nodes: bool = False,
        ask_again_us: int = ASK_AGAIN_US,
        lag_us: int = LAG_US,
    ) -> None:
        most = math.ceil(bound_us / ask_again_us)  # once per window, and windows come no faster
        super().__init__(judge, labels, most, choose_nodes=choose_nodes, ask_again_us=ask_again_us)
        self.bound_us, self.price_us, self.lag_us = bound_us, price_us, lag_us

    def check(self, row: int, nodes: NDArray[np.int64], view: View, memory: dict[str, Any]) -> Wait | None:
        """Make the job wait while the start is expected to lose more than the wait, and the bound is not reached."""
        job = view.job(row)
        if self.bound_us == 0 or job.skip_threshold == 0:
            return None
        expected = self.judge.judge(row, nodes, view)
        tally(memory, "asked")
        if expected.unknown:
            tally(memory, "without_data")
            memory["why_without_data"] = expected.unknown
            return None
        asked_of, noisy = asked_about(view), expected.label in self.labels
        note_spell(memory, ALL, noisy, asked_of)
        about = memory["jobs"].get(job.job_id, {})
        end_us = about.get("since_us", view.now_us) + self.bound_us
        if view.now_us >= end_us:
            if noisy and about.get("counted") != asked_of:
                about["counted"] = asked_of
                tally(memory, "at_threshold")
            return None
        if not noisy:
            return self._calmed(about, asked_of, min(view.now_us + self.ask_again_us, end_us))
        about.pop("calm_of", None)
        lasts_us = goes_on_us(memory, asked_of, self.ask_again_us, self.lag_us)
        lost_us = self._lost_us(row, expected, lasts_us, view)
        taken = self._taken(row, nodes, lost_us, lasts_us, view)
        if "since_us" not in about and lost_us <= lasts_us * (1.0 - taken):
            return None
        about = memory["jobs"].setdefault(job.job_id, {"skips": 0, "since_us": view.now_us})
        if about.get("counted") != asked_of:
            about |= {"skips": about["skips"] + 1, "counted": asked_of}
            tally(memory, "delayed")
        reason = (
            f"a start now would probably lose {span(round(lost_us))}, and noise goes on for about "
            f"{span(round(lasts_us))}; it waits until it is calm, {span(end_us - view.now_us)} at most"
        )
        return Wait(reason, min(view.now_us + self.ask_again_us, end_us), end_us if taken >= 1.0 else 0)

    def _calmed(self, about: dict[str, Any], asked_of: int, again_us: int) -> Wait | None:
        """Make a job that waits wait for a second calm answer: one alone would let all of them start into a pause."""
        if "since_us" not in about or about.setdefault("calm_of", asked_of) < asked_of:
            return None
        return Wait("noise seems to be over; it starts if the next counters say so, too", again_us)

    def _lost_us(self, row: int, expected: Judgement, lasts_us: float, view: View) -> float:
        """Return what a start now is expected to lose, the price of a varying run included."""
        longer_us = min(max(0.0, loss_us(row, expected, view) * expected.relative), lasts_us)
        hurt_us = VARIATION_SIGMA * expected.spread * expected.usual_us
        return longer_us + self.price_us * expected.probability * math.exp(-hurt_us / lasts_us)

    def _taken(self, row: int, nodes: NDArray[np.int64], lost_us: float, lasts_us: float, view: View) -> float:
        """Return the share of idle nodes that jobs which lose less than this one would take."""
        idle = int(view.idle_nodes().sum())
        less: dict[tuple[str, str], bool] = {}
        wanted = 0
        for other in view.queued()[:LOOKED_AT].tolist():
            if other == row or view.need(other) > idle:
                continue
            key = view.job(other).program, workload_type(other, view)
            if key not in less:
                found = self.judge.judge(other, nodes, view)
                calm = bool(found.unknown) or found.label not in self.labels
                less[key] = calm or self._lost_us(other, found, lasts_us, view) < lost_us
            wanted += view.need(other) if less[key] else 0
        return min(1.0, wanted / idle) if idle else 0.0


def goes_on_us(memory: dict[str, Any], asked_of_us: int, assumed_us: int, lag_us: int = LAG_US) -> float:
    """Return how long noise is expected to go on: the mean of spells seen, the present one so far and one assumed."""
    known = memory[SPELLS][ALL]
    so_far_us = asked_of_us - known.get("since_us", asked_of_us)
    seen_us = max(0, known["total_us"] - known["ended"] * lag_us) + so_far_us
    return float((assumed_us + seen_us) / (1 + known["ended"]))


def by_model(options: GateOptions) -> PayingGate:
    """Return the gate as the options say."""
    for name, value in (("longest_wait_s", options.longest_wait_us), ("variation_price_s", options.price_us)):
        if value < 0:
            raise InputError(f"{name} is negative", f"policy.{name}", "use 0 or more seconds")
    judge, bound_us, price_us = gate_judge(options), options.longest_wait_us, options.price_us
    return PayingGate(judge, options.labels, bound_us, price_us, options.choose_nodes, lag_us=lag_of(judge))


def lag_of(judge: Judge) -> int:
    """Return how long a judge goes on warning, on average, of noise that is over."""
    return LAST_LAG_US if isinstance(judge, ModelJudge) and judge.sees_last else LAG_US
