"""Coscheduling on coupled systems (ICPP 2011) in the simulated world."""

from __future__ import annotations

from cohabit.reproduce.coscheduling.paper import Coscheduling

PAPER = Coscheduling()
