"""The process that outlives a controller of Grid Engine: it stops runs at their fuses and gives held jobs back when the
lease is over. `python -m cohabit.backend.gridengine.watchdog LEASE SETTINGS [CHANNEL]`, the settings as one JSON
document.

The work is that of backend/slurm/watchdog.py; only the manager differs.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import msgspec

from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.steered import GridEngineManager
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.slurm.watchdog import guarded


class Settings(msgspec.Struct, frozen=True):
    """All settings that it needs: it acts without asking any other process."""

    bin: str
    root: str
    cell: str
    all_held: bool
    site: Site

    def text(self) -> str:
        """Return the settings for the command line."""
        return msgspec.json.encode(self).decode()


def manager_of(settings: Settings, link: LauncherLink | None = None) -> GridEngineManager:
    """Return the manager it works with."""
    calls = Calls(settings.bin, settings.root, settings.cell, link=link)
    return GridEngineManager(calls, settings.site, settings.all_held)


def main() -> None:
    """Run the process."""
    lease, text, *channel = sys.argv[1:]
    settings = msgspec.json.decode(text, type=Settings)
    guarded(Path(lease), partial(manager_of, settings), settings.all_held, "".join(channel))


if __name__ == "__main__":
    main()
