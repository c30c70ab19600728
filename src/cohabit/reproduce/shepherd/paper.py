"""Shepherd as one paper: all experiments, in the order of the poster."""

from __future__ import annotations

import json

from cohabit.optimise import law
from cohabit.reproduce.papers import Options, Paper, digest
from cohabit.reproduce.shepherd import checks, mixes, sensitivity
from cohabit.reproduce.shepherd.plan import Plan
from cohabit.trace.shepherd_programs import catalogue_document


class Shepherd(Paper):
    """The paper in the form the command uses."""

    name, title = "shepherd", "Shepherd"
    plan, experiments = Plan, (mixes, checks, sensitivity)

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""
        programs = "hidden programs drawn from priors" if Plan(options).hidden else "set C of the catalogue"
        return [
            "Shepherd (poster, PACT 2017) divides the last-level cache of every node between the programs on it and "
            "chooses together with that which programs share a node. Weighted speedup is the sum of all programs' "
            "speeds against running alone; baseline is random placement with nothing divided.",
            f"The poster publishes no profile of any program. The main rows use {programs} at 25 GB/s; the curves are "
            "assumptions in parametric families, made before these runs but with pilot results in view, so absolute "
            "gains count as partly calibrated. Order, sign and synergy, and what comes out on hidden programs and on "
            "measured curves, may be claimed.",
        ]

    def calibration_hash(self, options: Options) -> str:
        """A digest of all that was calibrated: the catalogue and the constants of the law."""
        constants = [law.HIGHEST_LOAD, law.QUEUEING, law.LINE_BYTES, law.WRITE_BACK]
        text = json.dumps([catalogue_document(), constants], sort_keys=True)
        return digest(text.encode())


PAPER = Shepherd()
