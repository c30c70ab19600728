"""Forget and recall how jobs ended, as far as others may depend on them, so that a core can run for ever.

A simulation never forgets. The live controller keeps ends in its store, has them forgotten now and then, and recalls
those a new submission depends on before it submits it; both are events in its journal, so a replay decides the same.
"""

from __future__ import annotations

from cohabit.core.state import State


def forget_ends(state: State) -> bool:
    """Forget all ends, since no job here waits for an ended job; also drop the answers cached by description."""
    state.finished.clear()
    state.described.forget_asks()
    return False


def recall_end(state: State, job_id: str, status: str) -> bool:
    """Recall the end of a job that is not here; for other jobs the core has newer information."""
    if job_id not in state.rows and job_id not in state.open_arrays:
        state.finished.setdefault(job_id, status)
    return False
