"""Access resctrl through the launcher: reads are done here, writes there. The launcher checks the names of groups."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cohabit.agent.resctrl.files import HostFiles, Mount
from cohabit.backend.launcher_link import LauncherLink, LauncherRefused


class LauncherFiles(HostFiles):
    """For use in threads, which wait for the launcher."""

    def __init__(self, link: LauncherLink, mount: Callable[[], Mount | None]) -> None:
        self._link, self._mount = link, mount

    def make(self, path: Path) -> None:
        """mkdir."""
        self._ask("resctrl_make", group=self._name(path))

    def remove(self, path: Path) -> None:
        """rmdir."""
        self._ask("resctrl_remove", group=self._name(path))

    def move(self, source: Path, target: Path) -> None:
        """rename."""
        self._ask("resctrl_move", source=self._name(source), target=self._name(target))

    def write(self, path: Path, text: str) -> None:
        """One write."""
        self._ask("resctrl_write", group=self._name(path.parent), file=path.name, text=text)

    def _name(self, path: Path) -> str:
        mount = self._mount()
        if mount is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return str(path.relative_to(mount.root))

    def _ask(self, op: str, **fields: Any) -> None:
        try:
            self._link.ask_from_thread(op, **fields)
        except LauncherRefused as error:
            number = error.number or errno.EPERM
            raise OSError(number, os.strerror(number)) from error

    def groups_of(self, files: Iterable[Path]) -> list[str]:
        """Return the groups that these `tasks` files belong to; "": the root group."""
        return ["" if (name := self._name(one.parent)) == "." else name for one in files]
