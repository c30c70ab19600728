"""One line of a reproduction: what the paper says, what was measured, and whether that is in the band.

Names, bands, roles and paper values of the common rows are in rows.csv, a copy of the specification's
table; a reproduction may add rows of its own, but cannot change these. Nothing here runs an experiment.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import numpy as np

from cohabit.report.intervals import CONFIDENCE, bootstrap_interval

CALIBRATED, EMERGENT, CHECK = "calibrated", "emergent", "check"
ROLES = (CALIBRATED, EMERGENT, CHECK)
RESAMPLES = 500
ROUNDING = 1e-9  # of a value that lies exactly on the edge of its band

Sample = TypeVar("Sample")


@dataclass(frozen=True)
class Expected:
    """What a row is about and where it should lie; None: the paper or the band states nothing."""

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

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@cache
def contract() -> dict[str, Expected]:
    """The rows of rows.csv by name."""
    text = (resources.files("cohabit.reproduce") / "rows.csv").read_text(encoding="utf-8")
    lines = csv.reader(text.splitlines())
    next(lines)
    found = {}
    for name, paper, role, low, high, claim in lines:
        found[name] = Expected(name, claim, _number(paper), _number(low), _number(high), role)
    return found


def _number(text: str) -> float | None:
    return float(text) if text.strip() else None


def expected(name: str, own: Expected | None = None) -> Expected:
    """What the contract says of a row, or what the reproduction says of a row of its own."""
    stated = contract().get(name)
    if stated is not None:
        assert own is None, f"{name} is in rows.csv: its band is not ours to set"
        return stated
    assert own is not None, f"{name} is not in rows.csv and needs a claim"
    return own


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
        about.id, about.claim, about.paper, value, interval[0], interval[1], n_seeds if value is not None else 0,
        about.low, about.high, about.role, within(about, value), note,
    )  # fmt: skip


def within(about: Expected, value: float | None) -> bool | None:
    """Whether the value lies in the band; None where there is no value or no band."""
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
        note = _joined(note, f"one seed: the interval is a bootstrap over its {len(sets[0])} members")
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
    data = asdict(one)
    data["note"] = _joined(one.note, *words)
    return Row(**data)


def missing(about: Expected, why: str) -> Row:
    """A row that could not be measured here."""
    return row(about, None, why)


def _joined(*words: str) -> str:
    return "; ".join(word for word in words if word)


joined = _joined


def check_rows(rows: Sequence[Row]) -> None:
    """Check that no row comes twice, no role is unknown, and every band is in order."""
    names = [one.id for one in rows]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"rows come twice: {sorted(twice)}"
    for one in rows:
        assert one.role in ROLES, f"{one.id} has the role {one.role!r}"
        assert one.low is None or one.high is None or one.low <= one.high, f"{one.id} has an empty band"
