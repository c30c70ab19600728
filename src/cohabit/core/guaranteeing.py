"""Pass measurements of running jobs to the policy that corrects the division of nodes by them (a Guarantor).

No scheduling pass follows: no job starts or ends because of a measurement. The policy's memory is in the state under
its name, without jobs that have left; nodes it wants divided anew are marked in the ledger, and core/sharing.py
divides them at the end of the step.
"""

from __future__ import annotations

from typing import Any

from cohabit.core.columns import ATTEMPT, RUNNING, STARTING, STATE
from cohabit.core.memory import draft_of
from cohabit.core.protocols import Answer, Guarantor, PolicySet
from cohabit.core.state import State
from cohabit.core.view import View
from cohabit.model.event import ProgressMeasured, SharesRefused

JOBS = "jobs"


def take_measurement(state: State, policies: PolicySet, now_us: int, event: ProgressMeasured) -> str:
    """Pass a measurement to the policy; return why nodes are divided anew, empty if none are."""
    row, guarantor = state.rows.get(event.job_id, -1), policies.guarantor
    if guarantor is None or row < 0 or state.ledger is None:
        return ""
    if state.jobs[STATE, row] not in (STARTING, RUNNING) or state.jobs[ATTEMPT, row] != event.attempt:
        return ""  # it belongs to an old run
    memory = recalled(state, guarantor)
    answer = guarantor.measured(row, event.progress, event.window_us, View(state, now_us), memory)
    return _carry_out(state, guarantor, memory, answer)


def take_refusal(state: State, policies: PolicySet, now_us: int, event: SharesRefused) -> str:
    """Pass a refusal to the policy: the back end could not carry out a command, so the policy must not count on it."""
    guarantor = policies.guarantor
    rows = [state.rows[name] for name in event.job_ids if name in state.rows and state.rows[name] in state.placed]
    if guarantor is None or not rows:
        return ""
    memory = recalled(state, guarantor)
    answer = guarantor.refused(rows, now_us + max(event.back_off_us, 1), View(state, now_us), memory)
    return _carry_out(state, guarantor, memory, answer)


def recalled(state: State, guarantor: Guarantor) -> dict[str, Any]:
    """Return a draft of the policy's memory, without jobs that no longer run as they did."""
    memory: dict[str, Any] = state.memory.get(guarantor.name, {})
    here = {
        name: about
        for name, about in memory.get(JOBS, {}).items()
        if (row := state.rows.get(name, -1)) in state.placed and state.jobs[ATTEMPT, row] == about["attempt"]
    }
    draft: dict[str, Any] = draft_of(memory | {JOBS: here})
    return draft


def story_of(state: State, policies: PolicySet, job_id: str) -> list[tuple[int, str]]:
    """Return what was done to keep a running job's speed, or at its cost, with the instants."""
    guarantor = policies.guarantor
    if guarantor is None:
        return []
    return guarantor.story(job_id, recalled(state, guarantor))


def _carry_out(state: State, guarantor: Guarantor, memory: dict[str, Any], answer: Answer) -> str:
    state.memory[guarantor.name] = memory
    ledger = state.ledger
    assert ledger is not None
    for row in answer.rows:
        for index in ledger.classes_of.get(row, ()):
            ledger.touched.setdefault(index, []).append(ledger.nodes_in_class(index))
    return answer.reason
