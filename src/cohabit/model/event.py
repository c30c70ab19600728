"""Events: facts for the core, named in the past tense. The core learns of the world only from them."""

from __future__ import annotations

import msgspec

from cohabit.model.job import Job
from cohabit.model.peer import Message
from cohabit.model.profile import KnownCoRun, Profile, ScaleProfile
from cohabit.model.scheme import Scheme


class _Event(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class JobSubmitted(_Event, frozen=True):
    """A job was submitted."""

    job: Job


class JobCancelled(_Event, frozen=True):
    """The job was cancelled on request."""

    job_id: str


class JobChanged(_Event, frozen=True):
    """The owner or an operator changed a queued job (None: unchanged)."""

    job_id: str
    limit_us: int | None = None
    qos: int | None = None


class JobHeld(_Event, frozen=True):
    """The job must not start until it is released."""

    job_id: str


class JobReleased(_Event, frozen=True):
    """The hold is lifted."""

    job_id: str


class JobRequeued(_Event, frozen=True):
    """A request came to stop this run and put the job back into the queue."""

    job_id: str


class EndsForgotten(_Event, frozen=True):
    """The ends of jobs are stored elsewhere: all ended jobs may be forgotten."""


class EndRecalled(_Event, frozen=True):
    """The end of a forgotten job, because a submission that follows depends on it."""

    job_id: str
    status: str


class JobStarted(_Event, frozen=True):
    """The executor confirmed a start."""

    job_id: str
    attempt: int


class StartRefused(_Event, frozen=True):
    """The executor could not start the job; no retry on these nodes for back_off_us, so that refusals cannot loop."""

    job_id: str
    attempt: int
    reason: str = ""
    back_off_us: int = 60_000_000


class JobFinished(_Event, frozen=True):
    """A run ended: done, killed (limit), failed, cancelled, or lost with its node."""

    job_id: str
    attempt: int
    status: str = "done"
    exit_status: int | None = None  # of its program, if the executor knows it
    exit_signal: int | None = None  # that ended its program
    reason: str = ""  # a failure outside the program: it could not be started, it exceeded its memory


class NodeUp(_Event, frozen=True):
    """The node can be used."""

    node: int


class NodeDown(_Event, frozen=True):
    """The node is down; the jobs on it are lost."""

    node: int


class NodeUsed(_Event, frozen=True):
    """The node can be used but for what jobs have there that are not the core's: those of a resource manager, or of
    one of its reservations."""

    node: int
    cores: int
    memory_mib: int = 0  # 0: not booked
    until_us: int = 0  # by their requested times; 0: not known


class NodeDrained(_Event, frozen=True):
    """No new job may start on the node; running jobs continue."""

    node: int


class WindowSet(_Event, frozen=True):
    """Nodes are closed to new jobs from begin to end: a reservation or maintenance was announced, or changed."""

    name: str
    begin_us: int
    end_us: int
    nodes: tuple[tuple[int, int], ...]  # (first, count)


class WindowCleared(_Event, frozen=True):
    """The window of this name is no longer planned."""

    name: str


class ProfileLearned(_Event, frozen=True):
    """An exclusive run of a program was measured: its time, or its curves, at one scale."""

    program: str
    processes: int
    measured: ScaleProfile
    hardware: str = ""
    owner: str = ""  # user of the run (model/profile.py); empty: shared


class ProgramDrifted(_Event, frozen=True):
    """Runs of a program depart from its profile permanently: the profile is dropped, and measured again."""

    program: str
    reason: str = ""
    owner: str = ""  # user of the runs; the profiles of other users and the shared one stay


class ProfileShared(_Event, frozen=True):
    """An operator made one user's profile of a program the shared profile, in place of the old one."""

    program: str
    owner: str


class ProfileStored(_Event, frozen=True):
    """Another writer changed a profile in the store; it takes the place of what was known of the program."""

    profile: Profile


class ProfileForgotten(_Event, frozen=True):
    """A profile was removed from the store; its owner's jobs use the shared one, if there is one."""

    program: str
    processes: int
    owner: str = ""


class CoRunsStored(_Event, frozen=True):
    """The store's co-runs, after others changed them; they take the place of what was known, but for own ones that are
    not in the store yet: those noted as number `upto` or later."""

    runs: tuple[KnownCoRun, ...]
    upto: int = 0


class ProgressMeasured(_Event, frozen=True):
    """The speed of a run over the last `window_us`, against running alone with as few nodes as hold it (1: as fast)."""

    job_id: str
    attempt: int
    progress: float
    window_us: int = 0


class SharesRefused(_Event, frozen=True):
    """The executor could not set the cache or bandwidth shares of these jobs; no retry for back_off_us."""

    job_ids: tuple[str, ...]
    reason: str = ""
    back_off_us: int = 60_000_000


class TelemetryReduced(_Event, frozen=True):
    """The counters of the last minutes, as model/telemetry.py encodes a window."""

    window: bytes


class PeerReported(_Event, frozen=True):
    """The controller of another domain sent a message; its authenticity was checked before."""

    message: Message


class SchemeChanged(_Event, frozen=True):
    """An operator changed how jobs with mates in other domains are treated from now on, or one of them (`job_id`)."""

    scheme: Scheme
    job_id: str = ""
    from_file: bool = False  # the site file has changed


class Recovered(_Event, frozen=True):
    """The controller was restarted and has caught up. `same_clock`: its clock continued meanwhile."""

    same_clock: bool = True


class Woken(_Event, frozen=True):
    """The instant the core asked for has come."""


Event = (
    JobSubmitted | JobCancelled | JobChanged | JobHeld | JobReleased | JobRequeued | EndsForgotten | EndRecalled
    | JobStarted | StartRefused | JobFinished
    | NodeUp | NodeUsed | NodeDown | NodeDrained | WindowSet | WindowCleared
    | ProfileLearned | ProgramDrifted | ProfileShared | ProfileStored | ProfileForgotten | CoRunsStored
    | ProgressMeasured | SharesRefused
    | TelemetryReduced | PeerReported | SchemeChanged | Recovered | Woken
)  # fmt: skip
