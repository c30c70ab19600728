"""How jobs ended, as far as others may still wait for them: forgotten and recalled, so that a core can run for ever.

A simulation never forgets. The live controller keeps ends in its store, has them forgotten now and then, and recalls
those a new submission depends on before it hands it in; both are facts in its journal, so a replay decides the same.
"""

from __future__ import annotations

from cohabit.core.state import State


def forget_ends(state: State) -> bool:
    """Nobody who is here waits for a job that is over, so all can go; answers kept by description with them."""
    state.finished.clear()
    state.asks.clear()
    return False


def recall_end(state: State, job_id: str, status: str) -> bool:
    """Only of a job that is not here: what the core itself knows is newer."""
    if job_id not in state.rows and job_id not in state.open_arrays:
        state.finished.setdefault(job_id, status)
    return False
