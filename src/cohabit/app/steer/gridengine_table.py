"""[gridengine] of a site file: what is steered and how. A separate module because the kill switch needs no more."""

from __future__ import annotations

from typing import ClassVar

from cohabit.app.steer.table import SteeringTable


class GridEngineTable(SteeringTable, frozen=True, forbid_unknown_fields=True):
    """[gridengine]"""

    queue: str | list[str] = "all.q"  # the steered queue, or several
    bin: str = ""  # the folder of Grid Engine's commands; "": they are on the path
    root: str = ""  # SGE_ROOT; "": as the environment has it
    cell: str = ""  # SGE_CELL; "": as the environment has it
    exclusive: str = (
        ""  # the complex for exclusive hosts; "": the only one of that kind, if there is one
    )
    checkpoint: str = "cohabit"  # the checkpointing environment with which a run can be stopped and queued again
    memory: str = ""  # the complex for memory requests; "": the first that hosts have so much of; "none"
    spread: str = ""  # the parallel environment of `cohabit submit`; "": the first with round-robin allocation
    one_host: str = ""  # the same for jobs that stay on one host; "": the first of that kind
    AT_ONCE_S: ClassVar[float] = 3.0  # Grid Engine takes longer than Slurm

    @property
    def queues(self) -> tuple[str, ...]:
        """All steered queues."""
        return (self.queue,) if isinstance(self.queue, str) else tuple(self.queue)
