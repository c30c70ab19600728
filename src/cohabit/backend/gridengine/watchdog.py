"""The process that outlives a controller of Grid Engine: it stops runs at their fuses and gives held jobs back when the
lease is over. `python -m cohabit.backend.gridengine.watchdog LEASE SETTINGS [LOCK]`, the settings as one JSON
document.

The work is that of backend/slurm/watchdog.py; only whom it speaks to is another.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.steered import GridEngineManager
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.slurm.watchdog import guarded, lock_in


class Settings(msgspec.Struct, frozen=True):
    """All it needs to know: it asks nobody before it acts."""

    bin: str
    root: str
    cell: str
    all_held: bool
    site: Site

    def text(self) -> str:
        """For the command line."""
        return msgspec.json.encode(self).decode()


def manager_of(settings: Settings) -> GridEngineManager:
    """To speak to."""
    return GridEngineManager(Calls(settings.bin, settings.root, settings.cell), settings.site, settings.all_held)


def main() -> None:
    """The process."""
    settings = msgspec.json.decode(sys.argv[2], type=Settings)
    guarded(Path(sys.argv[1]), manager_of(settings), settings.all_held, lock_in(sys.argv[3:]))


if __name__ == "__main__":
    main()
