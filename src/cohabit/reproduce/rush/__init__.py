"""RUSH (IPDPS 2022) in the simulated world."""

from __future__ import annotations

from cohabit.reproduce.rush.paper import Rush

PAPER = Rush()
