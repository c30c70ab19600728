"""Explain a refusal by resctrl in one sentence, and what follows from it. Pure.

The kernel answers with an error number and, in info/last_cmd_status, with words. The words differ between kernels, so
they are matched loosely and always passed on.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from cohabit.agent.resctrl.writes import Enter, Make, Move, SetSchemata, Write

REFUSED, LATER, LOST = "refused", "later", "lost"
_GONE = (errno.ENODEV, errno.ENOTCONN, errno.ESTALE)


@dataclass(frozen=True)
class Failure:
    """A failed write: refused (this job goes without), later (try again), lost (resctrl is not there)."""

    write: Write
    kind: str
    sentence: str


def explain(error: OSError, words: str, write: Write, mounted: bool) -> Failure:
    """Explain an error; `words` are the kernel's, "ok" or empty if there are none; `mounted`: resctrl is readable."""
    number = error.errno or 0
    told = "" if words in ("", "ok") else f" ({words})"
    if not mounted or number in _GONE:
        return Failure(
            write, LOST, "resctrl is no longer mounted: jobs run on, the cache is not divided until it is back"
        )
    what, about = _action(write), _jobs(write)
    if number == errno.ENOSPC:
        scarce = "monitoring ids" if "rmid" in words.lower() or "mon_groups" in _target(write) else "classes of service"
        sentence = f"{what}{about} failed: the processor is out of {scarce}{told}; it runs without them"
        return Failure(write, REFUSED, sentence)
    if number == errno.EBUSY:
        return Failure(write, LATER, f"{what}{about} must wait: ids given back lately are not free yet{told}")
    if number == errno.EIO:
        return Failure(write, LATER, f"{what}{about} failed with an input/output error{told}; it is tried again")
    if number in (errno.EPERM, errno.EACCES):
        return Failure(write, REFUSED, f"{what}{about} is not allowed{told}; run the agent as root")
    if number == errno.ENOENT:
        return Failure(write, LATER, f"{what}{about} failed: somebody removed the group meanwhile; it is made again")
    reason = told or f" ({os.strerror(number).lower()})"
    return Failure(write, REFUSED, f"the kernel refused to {what[0].lower()}{what[1:]}{about}{reason}")


def not_taken(write: SetSchemata, found: str) -> Failure:
    """Return the failure for a write that the kernel accepted but does not show."""
    return Failure(write, LATER, f"{_action(write)}{_jobs(write)} was accepted, but the group shows {found}")


def _action(write: Write) -> str:
    match write:
        case Make():
            return f"Make group {write.place}"
        case SetSchemata():
            return f"Set the shares of group {write.place}"
        case Move():
            return f"Move {write.source} to {write.target}"
        case Enter():
            return f"Put processes into {write.groups[-1]}"
        case _:
            return f"Remove group {write.place}"


def _target(write: Write) -> str:
    return write.place if isinstance(write, Make) else ""


def _jobs(write: Write) -> str:
    return f" for job {', '.join(write.jobs)}" if write.jobs else ""
