"""Refusals of the controller: exceptions that a caller can tell apart, each with one sentence."""

from __future__ import annotations

from cohabit.model.errors import InputError

REMOVED = "its record was removed by retention"
SEE_KEEP = "[keep] of the site file says how long records are kept"


class Busy(Exception):
    """More came in than the controller could take; try again later."""


class UnknownJob(InputError):
    """No job ever had this name."""

    def __init__(self, job_id: str) -> None:
        super().__init__("there is no such job", f"job {job_id}")


class RemovedJob(UnknownJob):
    """The job existed, and its record is not kept any longer."""

    def __init__(self, job_id: str) -> None:
        InputError.__init__(self, REMOVED, f"job {job_id}", SEE_KEEP)


class UnknownNode(InputError):
    """The cluster has no node of this number."""

    def __init__(self, node: int, nodes: int) -> None:
        super().__init__(f"there is no such node; they are numbered 0 to {nodes - 1}", f"node {node}")


class UnknownWindow(InputError):
    """No window of this name is announced."""

    def __init__(self, name: str) -> None:
        super().__init__("there is no such window", f"window {name}", "cohabit nodes lists them")


class UnknownProfile(InputError):
    """No run of the program by this owner was measured."""

    def __init__(self, program: str, owner: str) -> None:
        super().__init__(
            f"no run of {program} by this user has been measured", f"user {owner}", "the page Programs lists profiles"
        )


class WrongState(InputError):
    """The job exists, but the request does not fit its state."""

    def __init__(self, job_id: str, what: str) -> None:
        super().__init__(what, f"job {job_id}")


class NotWritable(InputError):
    """The journal cannot be written or read now: no new work is taken, what runs goes on."""


class CannotTake(InputError):
    """The scheduler raised on exactly this request, an error of its own; the request was left out."""

    def __init__(self, about: str, why: str) -> None:
        what = f"the scheduler failed on this request and left it out: {why}"
        super().__init__(what, about, "tell its operator; its log says more")
