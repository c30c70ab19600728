"""Reads what runs of the local back end have used, through its launcher: counting other users' processes takes rights.

What the host does not offer is absent; `cohabit doctor` says what would change that.
"""

from __future__ import annotations

from collections.abc import Mapping

from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.protocol import BackendError


class LocalMeter:
    """The meter of the runs of this back end. Called in threads."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def begin(self, job_id: str, attempt: int) -> None:
        """Attach to the present processes."""
        self._ask("meter_begin", job_id, attempt)

    def sample(self, job_id: str, attempt: int) -> Mapping[str, float]:
        """Return the amounts so far."""
        found = self._ask("meter_sample", job_id, attempt)
        return found if isinstance(found, dict) else {}

    def lasted_s(self, job_id: str, attempt: int) -> float | None:
        """Return the time its runner recorded."""
        return self._backend.lasted.get((job_id, attempt))

    def end(self, job_id: str, attempt: int) -> None:
        """Do nothing: the launcher releases a run when it ends."""

    def _ask(self, op: str, job_id: str, attempt: int) -> object:
        try:
            return self._backend.link.ask_from_thread(op, job=job_id, attempt=attempt)
        except BackendError:
            return None
