"""Estimate how long noise lasts, from the spells of noisy answers a gate has seen by type of work, in a plain dict.

A gate that weighs costs must know the expected wait. Noise that has lasted some time is taken to be as likely to end
in the next minute as before (the exponential law), so the expected wait is the mean length of spells. One spell
that is over at the next question is assumed, so that the gate begins by waiting and learns what that costs. It must
use nothing but the answers given.
"""

from __future__ import annotations

from typing import Any

from cohabit.model.telemetry import WINDOW_US

SPELLS = "spells"
FORGOTTEN_US = WINDOW_US  # after this long without a question it is unknown whether the spell went on


def note_spell(memory: dict[str, Any], kind: str, noisy: bool, asked_of_us: int) -> None:
    """Record one answer about this type of work, for counters up to this moment."""
    known = memory.setdefault(SPELLS, {}).setdefault(kind, {"ended": 0, "total_us": 0})
    if asked_of_us - known.get("last_us", asked_of_us) > FORGOTTEN_US:
        known.pop("since_us", None)
    if noisy:
        known.setdefault("since_us", asked_of_us)
    elif "since_us" in known:
        known["total_us"] += asked_of_us - known.pop("since_us")
        known["ended"] += 1
    known["last_us"] = asked_of_us


def expected_wait_us(memory: dict[str, Any], kind: str, assumed_us: int) -> float:
    """Return the mean length of spells, one of which is assumed."""
    known = memory.get(SPELLS, {}).get(kind, {"ended": 0, "total_us": 0})
    return float((assumed_us + known["total_us"]) / (1 + known["ended"]))
