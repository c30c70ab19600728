"""All refusals: one exception with a status, what is wrong, where, and what to do about it."""

from __future__ import annotations

from cohabit.live.controller.journal import JournalError
from cohabit.live.controller.refusals import (
    Busy,
    CannotTake,
    NotWritable,
    UnknownJob,
    UnknownNode,
    UnknownProfile,
    UnknownWindow,
    WrongState,
)
from cohabit.model.errors import InputError


class Refusal(Exception):
    """Becomes {"error", "where", "fix"} with this status. `noted`: what the audit log says instead of the error."""

    def __init__(self, status: int, error: str, where: str = "", fix: str = "", noted: str = "") -> None:
        super().__init__(error)
        self.status, self.error, self.where, self.fix = status, error, where, fix
        self.noted = noted or error


def problem_of(error: Exception) -> Refusal:
    """Return an exception of the controller or a check as a refusal."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Busy):
        return Refusal(429, "the controller has too many pending requests", "inbox", "try again in a second")
    if isinstance(error, JournalError):
        return Refusal(503, f"nothing can be accepted now: {error}", "journal", "try again later")
    assert isinstance(error, InputError)
    status = 400
    if isinstance(error, CannotTake):
        status = 500
    elif isinstance(error, NotWritable):
        status = 503
    elif isinstance(error, UnknownJob | UnknownNode | UnknownProfile | UnknownWindow):
        status = 404
    elif isinstance(error, WrongState) or error.what == "a job of this name was here before":
        status = 409
    elif error.what == "the controller is being stopped":
        status = 503
    return Refusal(status, error.what, error.where or ("journal" if status == 503 else ""), error.fix)
