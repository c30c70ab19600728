"""The keys of `cohabit top`: order, kind and search of the jobs shown. Nothing here draws or queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cohabit.cli.job_words import ran_s, waited_s

LEAVE = ("q", "Q")
ESCAPE, ENTER, ERASE = "\x1b", ("\r", "\n"), ("\x7f", "\b")
KINDS = {"a": "all", "w": "waiting", "r": "running"}
RUNNING = ("running", "starting")
HELP = (  # the most useful first: a narrow screen leaves out the last
    "q leave", "s sort", "/ search", "w waiting", "r running", "a all", "p pause", "i reverse", "n nodes",
    "? hide this",
)  # fmt: skip


SORTS: dict[str, Callable[[dict[str, Any], float], Any]] = {
    "turn": lambda job, now: job["submitted_at"] or 0.0,
    "waited": lambda job, now: -(waited_s(job, now) or 0.0),
    "ran": lambda job, now: 1.0 if (ran := ran_s(job, now)) is None else -ran,
    "cores": lambda job, now: -(job["cores"] or job["processes"]),
    "user": lambda job, now: str(job["user"]),
    "program": lambda job, now: str(job["program"] or ""),
}


@dataclass(frozen=True)
class Choice:
    """The user's choices for the screen."""

    sort: str = "turn"
    turned: bool = False
    kind: str = "all"
    find: str = ""
    typing: bool = False  # keys go into the search
    nodes: bool = True
    paused: bool = False
    keys: bool = True  # the line of keys at the bottom is shown
    left: bool = False

    def shown(self, jobs: list[dict[str, Any]], now: float) -> list[dict[str, Any]]:
        """Return these jobs, filtered and sorted as chosen."""
        found = [job for job in jobs if self.kind == "all" or (job["state"] in RUNNING) == (self.kind == "running")]
        if self.find:
            text = self.find.lower()
            found = [
                job
                for job in found
                if any(text in str(job[key] or "").lower() for key in ("job", "user", "program", "state", "why"))
            ]
        found.sort(key=lambda job: SORTS[self.sort](job, now), reverse=self.turned)
        return found

    def line(self) -> str:
        """Describe the choices in words; empty: the defaults."""
        parts = [f"sorted by {self.sort}{', reversed' if self.turned else ''}"] * (self.sort != "turn" or self.turned)
        parts += [f"{self.kind} only"] * (self.kind != "all")
        if self.find or self.typing:
            parts.append(f"search: {self.find}{'_' if self.typing else ''}")
        return " · ".join([*parts, *["paused"] * self.paused])


def keys_line(width: int) -> str:
    """Return as many of the keys as fit into one line."""
    shown = list(HELP)
    while len(shown) > 1 and len(" · ".join(shown)) > width:
        shown.pop()
    return " · ".join(shown)


def keys_in(text: str) -> list[str]:
    """Split the input of a terminal into keys; arrows and other escape sequences are ignored."""
    return re.findall(r"[^\x1b]|\x1b(?![\[O])", re.sub(r"\x1b[\[O][0-9;]*[A-Za-z~]", "", text), re.DOTALL)


def pressed(key: str, choice: Choice) -> Choice:
    """Return the choice after a key."""
    if choice.typing:
        return _typed(key, choice)
    if key in (*LEAVE, ESCAPE):
        return replace(choice, left=True)
    if key in ("s", "S"):
        names = list(SORTS)
        step = 1 if key == "s" else -1
        return replace(choice, sort=names[(names.index(choice.sort) + step) % len(names)])
    if key in KINDS:
        return replace(choice, kind=KINDS[key])
    flags = {"i": "turned", "n": "nodes", "p": "paused", "?": "keys", "h": "keys"}
    if key in flags:
        change: dict[str, Any] = {flags[key]: not getattr(choice, flags[key])}
        return replace(choice, **change)
    return replace(choice, typing=True) if key == "/" else choice


def _typed(key: str, choice: Choice) -> Choice:
    if key in ENTER:
        return replace(choice, typing=False)
    if key == ESCAPE:
        return replace(choice, typing=False, find="")
    if key in ERASE:
        return replace(choice, find=choice.find[:-1])
    return replace(choice, find=choice.find + key) if key.isprintable() and len(choice.find) < 60 else choice
