"""Facts the core is told, in the past tense. They are all it ever learns of the world."""

from __future__ import annotations

import msgspec

from cohabit.model.job import Job
from cohabit.model.peer import Message
from cohabit.model.profile import ScaleProfile
from cohabit.model.scheme import Scheme


class _Event(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class JobSubmitted(_Event, frozen=True):
    """A job came in."""

    job: Job


class JobCancelled(_Event, frozen=True):
    """Somebody does not want the job any more."""

    job_id: str


class JobChanged(_Event, frozen=True):
    """The owner or an operator changed a queued job (None: unchanged)."""

    job_id: str
    limit_us: int | None = None
    qos: int | None = None


class JobHeld(_Event, frozen=True):
    """The job must not start until released."""

    job_id: str


class JobReleased(_Event, frozen=True):
    """The hold is lifted."""

    job_id: str


class JobRequeued(_Event, frozen=True):
    """Somebody wants this run stopped and the job to wait in the queue again."""

    job_id: str


class EndsForgotten(_Event, frozen=True):
    """How jobs ended is kept elsewhere: all that are over may be forgotten."""


class EndRecalled(_Event, frozen=True):
    """How a forgotten job had ended, because a submission that follows depends on it."""

    job_id: str
    status: str


class JobStarted(_Event, frozen=True):
    """The world confirms a start."""

    job_id: str
    attempt: int


class StartRefused(_Event, frozen=True):
    """The world could not start the job; not before back_off_us more on these nodes, so that refusals cannot loop."""

    job_id: str
    attempt: int
    reason: str = ""
    back_off_us: int = 60_000_000


class JobFinished(_Event, frozen=True):
    """A run is over: done, killed (limit), failed, cancelled, or lost with its node."""

    job_id: str
    attempt: int
    status: str = "done"
    exit_status: int | None = None  # of its program, where whoever ran it knows
    exit_signal: int | None = None  # that ended its program
    reason: str = ""  # what went wrong beside the program: it could not be started, it went over its memory


class NodeUp(_Event, frozen=True):
    """The node can be used."""

    node: int


class NodeDown(_Event, frozen=True):
    """The node is gone; whatever ran there is lost."""

    node: int


class NodeDrained(_Event, frozen=True):
    """Nothing new may start on the node; what runs there goes on."""

    node: int


class ProfileLearned(_Event, frozen=True):
    """An exclusive run of a program was measured: its time, or its curves, at one scale."""

    program: str
    processes: int
    measured: ScaleProfile
    hardware: str = ""
    owner: str = ""  # whose run it was (model/profile.py); empty: shared


class ProgramDrifted(_Event, frozen=True):
    """Runs of a program depart from its profile for good: what was measured is forgotten, and measured again."""

    program: str
    reason: str = ""
    owner: str = ""  # whose runs; the profiles of other users and the shared one stay


class ProfileShared(_Event, frozen=True):
    """An operator made what is known from one user's runs of a program the shared profile, in place of the old one."""

    program: str
    owner: str


class ProgressMeasured(_Event, frozen=True):
    """So fast a run was over the last `window_us`, against running alone with as few nodes as hold it (1: as fast)."""

    job_id: str
    attempt: int
    progress: float
    window_us: int = 0


class SharesRefused(_Event, frozen=True):
    """The world could not give these jobs what they should have of cache or bandwidth; not before back_off_us more."""

    job_ids: tuple[str, ...]
    reason: str = ""
    back_off_us: int = 60_000_000


class TelemetryReduced(_Event, frozen=True):
    """The counters of the last minutes, as model/telemetry.py encodes a window."""

    window: bytes


class PeerReported(_Event, frozen=True):
    """The controller of another domain has said something; whether it is genuine was checked before."""

    message: Message


class SchemeChanged(_Event, frozen=True):
    """An operator wants jobs with mates elsewhere treated in another way from now on."""

    scheme: Scheme


class Recovered(_Event, frozen=True):
    """The controller has been started again and has caught up. `same_clock`: its clock went on meanwhile."""

    same_clock: bool = True


class Woken(_Event, frozen=True):
    """The instant the core asked for has come."""


Event = (
    JobSubmitted | JobCancelled | JobChanged | JobHeld | JobReleased | JobRequeued | EndsForgotten | EndRecalled
    | JobStarted | StartRefused | JobFinished
    | NodeUp | NodeDown | NodeDrained | ProfileLearned | ProgramDrifted | ProfileShared | ProgressMeasured
    | SharesRefused | TelemetryReduced | PeerReported | SchemeChanged | Recovered | Woken
)  # fmt: skip
