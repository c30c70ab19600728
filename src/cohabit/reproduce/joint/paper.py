"""The joint policy against those it joins: all experiments in the form the command uses."""

from __future__ import annotations

import json

from cohabit.reproduce.joint import ablations, arrivals, queues, sequences, static, traces
from cohabit.reproduce.joint.estimates import table
from cohabit.reproduce.joint.plan import Plan
from cohabit.reproduce.papers import Options, Paper, digest
from cohabit.reproduce.rows import Row, explained
from cohabit.sim.machine.constants import calibration_hash
from cohabit.trace.shepherd_programs import catalogue_document


class Joint(Paper):
    """Not a published paper: our own policy on the ground of each of the five."""

    name, title, plan = "joint", "The joint policy", Plan
    what = "beside the policies it joins"
    experiments = (sequences, traces, arrivals, static, queues, ablations)

    def rows(self, options: Options, results: dict[str, object]) -> list[Row]:
        """Return every row."""
        return [explained(one) for one in super().rows(options, results)]

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""
        return [
            "cohabit is the policy that joins the five: it spreads and shares as profiles allow, reserves nodes for "
            "the first job that does not fit, and divides caches by what ways are worth. Here it stands beside CE "
            "(one job per node), CE with EASY backfilling, CS (shared by free cores) and SNS (Spread-n-Share).",
            "There is no paper to compare with: bands are what the policy has to show. Everything was simulated, with "
            "the worlds that the papers' own reproductions use.",
        ]

    def calibration_hash(self, options: Options) -> str:
        """A digest of all that was calibrated or taken from public logs."""
        programs = calibration_hash(Plan(options).bench.programs.values())
        return digest(json.dumps([programs, catalogue_document(), table()], sort_keys=True).encode())


PAPER = Joint()
