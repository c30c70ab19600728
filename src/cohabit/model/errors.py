"""The one exception that means "the input or the call is wrong": shown as one sentence, exit status 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """A wrong input or call: what, where and what to do, for a user that has never seen the project."""

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(what, where, fix)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"; {self.fix}" if self.fix else ""
        return f"{place}{self.what}{advice}"


def unknown(kind: str, name: str, known: Iterable[str], listed_by: str = "") -> InputError:
    """Return the error for a name that does not exist, with the nearest existing one and the command that lists all."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return InputError(f"there is no {kind} called {name!r}", "", f"{hint} (see `{listed_by}`)" if listed_by else hint)
