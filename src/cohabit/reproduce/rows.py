"""One line of a reproduction: the paper's value, the measured one, and whether that is in the band.

Names, bands, roles and paper values of the common rows are in rows.csv and rows-joint.csv, copies of the
specification's tables; a reproduction may add rows of its own, but cannot change these. Nothing here runs anything.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import numpy as np

from cohabit.report.intervals import CONFIDENCE, bootstrap_interval

CALIBRATED, EMERGENT, CHECK = "calibrated", "emergent", "check"
ROLES = (CALIBRATED, EMERGENT, CHECK)
RESAMPLES = 500
TABLES = ("rows.csv", "rows-joint.csv")
ROUNDING = 1e-9  # of a value that lies exactly on the edge of its band

Sample = TypeVar("Sample")


@dataclass(frozen=True)
class Expected:
    """Subject and band of a row; None where the paper or the band states nothing."""

    id: str
    claim: str
    paper: float | None = None
    low: float | None = None
    high: float | None = None
    role: str = EMERGENT


@dataclass(frozen=True)
class Row:
    """One measured line, in the form of the command contract: numbers or None, text only in `note`."""

    id: str
    claim: str
    paper: float | None
    measured: float | None
    ci_low: float | None
    ci_high: float | None
    n_seeds: int
    low: float | None
    high: float | None
    role: str
    holds: bool | None
    note: str


@dataclass(frozen=True)
class Claim:
    """A row, and the statistic of one set that measures it."""

    about: Expected
    statistic: Callable[[Any], float | None]
    note: str = ""
    of: Any = None  # which sets, where an experiment has several kinds


@cache
def contract() -> dict[str, Expected]:
    """The rows of rows.csv and rows-joint.csv by name."""
    found = {}
    for table in TABLES:
        text = (resources.files("cohabit.reproduce") / table).read_text(encoding="utf-8")
        lines = csv.reader(text.splitlines())
        next(lines)
        for name, paper, role, low, high, claim in lines:
            found[name] = Expected(name, claim, _number(paper), _number(low), _number(high), role)
    return found


def _number(text: str) -> float | None:
    return float(text) if text.strip() else None


def expected(name: str) -> Expected:
    """Return what the contract says of a row."""
    assert name in contract(), f"{name} is not in rows.csv and needs a claim"
    return contract()[name]


def stated(name: str, statistic: Callable[[Any], float | None], note: str = "", of: Any = None) -> Claim:
    """Return the claim of a row of rows.csv."""
    return Claim(expected(name), statistic, note, of)


def own(
    name: str,
    words: str,
    statistic: Callable[[Any], float | None],
    paper: float | None = None,
    low: float | None = None,
    high: float | None = None,
    role: str = EMERGENT,
    *,
    note: str = "",
    of: Any = None,
) -> Claim:
    """Return the claim of a row that rows.csv does not have."""
    assert name not in contract(), f"{name} is in rows.csv: its band is not ours to set"
    return Claim(Expected(name, words, paper, low, high, role), statistic, note, of)


def row(
    about: Expected,
    measured: float | None,
    note: str = "",
    *,
    interval: tuple[float | None, float | None] = (None, None),
    n_seeds: int = 1,
) -> Row:
    """A row with its judgement."""
    value = None if measured is None or not np.isfinite(measured) else float(measured)
    return Row(
        about.id,
        about.claim,
        about.paper,
        value,
        interval[0],
        interval[1],
        n_seeds if value is not None else 0,
        about.low,
        about.high,
        about.role,
        within(about, value),
        note,
    )


def within(about: Expected, value: float | None) -> bool | None:
    """Return whether the value lies in the band; None where there is no value or no band."""
    if value is None or (about.low is None and about.high is None):
        return None
    high_enough = about.low is None or value >= about.low - ROUNDING
    return high_enough and (about.high is None or value <= about.high + ROUNDING)


def row_over_sets(
    about: Expected,
    sets: Sequence[Sequence[Sample]],
    statistic: Callable[[Sequence[Sample]], float | None],
    rng: np.random.Generator,
    note: str = "",
) -> Row:
    """The mean over the seeds of a statistic of one paper-sized set, with a 95 % bootstrap interval.

    With several seeds the interval is over seeds; with one it is over the members of its set, and the note says so.
    """
    values = [statistic(one) for one in sets if len(one)]
    known = bootstrap_interval(values, rng)
    low, high = known.low, known.high
    if known.repeats == 1 and len(sets[0]) > 1:
        low, high = _over_members(sets[0], statistic, rng)
        note = joined(note, f"one seed: the interval is a bootstrap over its {len(sets[0])} members")
    return row(about, known.mean, note, interval=(low, high), n_seeds=max(known.repeats, 1))


def _over_members(
    members: Sequence[Sample], statistic: Callable[[Sequence[Sample]], float | None], rng: np.random.Generator
) -> tuple[float | None, float | None]:
    drawn = [
        statistic([members[int(i)] for i in rng.integers(0, len(members), len(members))]) for _ in range(RESAMPLES)
    ]
    known = [value for value in drawn if value is not None]
    if not known:
        return None, None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.array(known), (tail, 1 - tail))
    return float(low), float(high)


def noted(one: Row, *words: str) -> Row:
    """Return the row with a longer note."""
    return replace(one, note=joined(one.note, *words))


def explained(one: Row, words: str = "outside its band: reported, not tuned") -> Row:
    """Return the row, with a note if it is outside its band."""
    return noted(one, words) if one.holds is False else one


def missing(about: Expected, why: str) -> Row:
    """A row that could not be measured here."""
    return row(about, None, why)


def joined(*words: str) -> str:
    """Return the words that are not empty as one note."""
    return "; ".join(word for word in words if word)


def check_rows(rows: Sequence[Row]) -> None:
    """Check that no row comes twice, no role is unknown, and every band is in order."""
    names = [one.id for one in rows]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"rows come twice: {sorted(twice)}"
    for one in rows:
        assert one.role in ROLES, f"{one.id} has the role {one.role!r}"
        assert one.low is None or one.high is None or one.low <= one.high, f"{one.id} has an empty band"
