"""Coscheduling as one paper: the load study, the proportion study, deadlock, and our additions."""

from __future__ import annotations

from typing import Any

import msgspec

from cohabit.reproduce.coscheduling import ours, studies
from cohabit.reproduce.coscheduling.plan import Plan
from cohabit.reproduce.papers import Options, Paper, digest
from cohabit.reproduce.rows import Row, explained
from cohabit.trace import coupled_machines as machines


class Coscheduling(Paper):
    """The paper in the form the command uses."""

    name, title = "coscheduling", "Coscheduling"
    plan, experiments = Plan, (studies, ours)

    def rows(self, options: Options, results: dict[str, Any]) -> list[Row]:
        """Return every row, in the paper's order."""
        return [explained(one) for one in super().rows(options, results)]

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""
        return [
            "Coscheduling on coupled systems (ICPP 2011) starts jobs on two machines with schedulers of their own at "
            "the same time. A job that is ready before its mate either holds its nodes or yields its turn; which, "
            "every machine decides for itself.",
            "Everything below was simulated, with the protocol this software has between domains. The month of logs "
            "the paper used is not public: jobs are made to what is known of both machines, and shape and "
            "load of the large one's were fitted to its wait and slowdown without coscheduling, before anything "
            "coupled was run. "
            "Partitions of a Blue Gene are not modelled: any free nodes will do.",
            "agree is ours: both sides exchange when they could start, settle on the later, and keep a reservation "
            "that others may use until then.",
        ]

    def calibration_hash(self, options: Options) -> str:
        """A digest of all that was assumed and calibrated: the generators' numbers."""
        content = [
            machines.INTREPID_NODES,
            machines.INTREPID_JOBS,
            machines.INTREPID_LOAD,
            machines.EUREKA_NODES,
            machines.EUREKA_LOAD,
            {str(size): share for size, share in machines.LARGE_SIZES.items()},
            {str(size): share for size, share in machines.SMALL_SIZES.items()},
            machines.SHORTEST_S,
            machines.LONGEST_S,
            machines.LEAST_USED,
            vars(machines.LARGE),
            vars(machines.SMALL),
        ]
        return digest(msgspec.json.encode(content, order="deterministic"))


PAPER = Coscheduling()
