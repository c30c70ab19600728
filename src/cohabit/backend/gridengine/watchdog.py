"""The watchdog of a controller of Grid Engine (backend/steered/watchdog.py).

`python -m cohabit.backend.gridengine.watchdog LEASE SETTINGS [CHANNEL]`, the settings as one JSON document.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import msgspec

from cohabit.backend.gridengine.calls import LED, Calls
from cohabit.backend.gridengine.steering import GridEngineManager
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.steered.watchdog import WatchdogCommand, guarded


class Settings(msgspec.Struct, frozen=True):
    """All settings that it needs: it acts without asking any other process."""

    bin: str
    root: str
    cell: str
    all_held: bool
    site: Site


def watchdog_command(settings: Settings) -> WatchdogCommand:
    """Return how to start it."""
    return WatchdogCommand("cohabit.backend.gridengine.watchdog", (msgspec.json.encode(settings).decode(),), LED)


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
