"""Names of mates that outlive a controller: a manager may forget a job the moment it ends, and its accounting knows
only numbers. One small file in the controller's place, written before a job with mates is reported to the core.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import msgspec

from cohabit.backend.slurm.translate import Terms
from cohabit.backend.steered.naming import Names
from cohabit.backend.steered.shapes import SlurmJob
from cohabit.whole_files import replacing


def kept_names(file: Path) -> dict[str, str]:
    """Return the core's name of every job with mates -> the manager's; a name that cannot be read is missing."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


class RememberedNames(Names):
    """`living`: names the core still has; all others can be forgotten."""

    def __init__(self, terms: Terms, file: Path, living: Container[str]) -> None:
        super().__init__(terms)
        self._path = file
        self._of.update((ours, theirs) for ours, theirs in kept_names(file).items() if ours in living)

    def _named(self, job: SlurmJob) -> SlurmJob:
        known = len(self._of)
        found = super()._named(job)
        if len(self._of) > known:
            with replacing(self._path) as stream:
                stream.write(msgspec.json.encode(self._of))
        return found
