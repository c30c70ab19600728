"""The page of a reproduction: the paper's value beside the measured one, and the paper's figures from our runs.

One file that opens from disk with no network, made like report.html. It reads the JSON document of `cohabit reproduce`
and figures as plain data; nothing here runs an experiment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from cohabit.report.figures import Figure
from cohabit.report.html import assembled_page, new_page
from cohabit.report.html_tables import escaped, table
from cohabit.whole_files import replacing

MISSING = "-"
ROLES = {
    "emergent": "Results: what comes out of the simulated machine and the algorithm. Only these may be claimed.",
    "check": "Checks: numbers that must agree with each other, or signs that must survive a change. Not a claim.",
    "calibrated": "Put in: numbers taken from the paper or assumed. They show that the input is the paper's.",
}
TITLES = {"emergent": "What came out", "check": "Checks", "calibrated": "What was put in"}
HEADS = (
    ("claim", ""), ("paper", "number"), ("measured", "number"), ("95 % interval", "number"), ("band", "number"),
    ("holds", ""), ("note", ""),
)  # fmt: skip


def number(value: float | None) -> str:
    """A value of any size, short."""
    if value is None:
        return MISSING
    text = f"{value:.4g}"
    return text if "e" not in text else f"{value:,.0f}"


def span(low: float | None, high: float | None) -> str:
    """Two ends; an open one is said."""
    if low is None and high is None:
        return MISSING
    if low is None:
        return f"at most {number(high)}"
    if high is None:
        return f"at least {number(low)}"
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def judged(holds: bool | None) -> str:
    """In a word."""
    return MISSING if holds is None else "yes" if holds else "no"


def write_page(
    document: Mapping[str, Any],
    about: Sequence[str],
    pictures: Sequence[tuple[str, Figure, str]],
    path: str | os.PathLike[str],
) -> None:
    """Write report.html."""
    with replacing(path) as stream:
        stream.write(render_page(document, about, pictures).encode("utf-8"))


def render_page(document: Mapping[str, Any], about: Sequence[str], pictures: Sequence[tuple[str, Figure, str]]) -> str:
    """The whole page as text."""
    rows = document["rows"]
    title = f"Reproduction: {document['paper']}"
    page = new_page()
    lead = "".join(f'<p class="lead">{escaped(words)}</p>' for words in [*about, _verdict(rows)])
    page.parts.append(f"<header><h1>{escaped(title)}</h1>{lead}{_cards(rows)}</header>")
    for role in ("emergent", "check"):
        _add_rows(page, role, rows)
    for name, figure, caption in pictures:
        page.add_section(name, page.picture(figure, name, caption))
    _add_rows(page, "calibrated", rows)
    origin = (
        f"<p>Seed {escaped(document['seed'])}. Calibration {escaped(document['calibration_hash'])}: a digest of every "
        "number that was put in, so that a change after the results were seen cannot go unnoticed. Bands and "
        "roles come "
        "from the specification's table and were fixed before the first run.</p>"
    )
    page.add_section("Where this comes from", origin)
    return assembled_page(title, page)


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    held, missed = _counts(rows)
    return (
        f"Of {held + missed} results with a band, {held} lie inside it and {missed} outside. A result outside its band "
        "is reported like any other, with the best explanation we have in its note."
    )


def _counts(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    emergent = [one["holds"] for one in rows if one["role"] == "emergent"]
    return sum(one is True for one in emergent), sum(one is False for one in emergent)


def _cards(rows: Sequence[Mapping[str, Any]]) -> str:
    held, missed = _counts(rows)
    unmeasured = sum(one["measured"] is None for one in rows)
    values = ((held, "results inside their band"), (missed, "results outside"), (len(rows), "rows in all"),
              (unmeasured, "not measured here"))  # fmt: skip
    return '<div class="cards">' + "".join(
        f'<div class="card"><div class="label">{escaped(label)}</div><div class="value">{value}</div></div>'
        for value, label in values
    ) + "</div>"  # fmt: skip


def _add_rows(page: Any, role: str, rows: Sequence[Mapping[str, Any]]) -> None:
    chosen = [one for one in rows if one["role"] == role]
    if chosen:
        lines = (_line(one) for one in chosen)
        page.add_section(TITLES[role], f'<p class="caption">{escaped(ROLES[role])}</p>', table(HEADS, lines, "rows"))


def _line(one: Mapping[str, Any]) -> str:
    style = {True: "better", False: "worse", None: ""}[one["holds"]]
    seeds = f"<small>{one['n_seeds']} seed{'s' if one['n_seeds'] != 1 else ''}</small>" if one["n_seeds"] else ""
    return (
        f'<th scope="row">{escaped(_sentence(one["claim"]))}<br><span class="meaning">{escaped(one["id"])}</span></th>'
        f'<td class="number">{number(one["paper"])}</td><td class="number">{number(one["measured"])}{seeds}</td>'
        f'<td class="number">{span(one["ci_low"], one["ci_high"])}</td>'
        f'<td class="number">{span(one["low"], one["high"])}</td>'
        f'<td class="{style}">{judged(one["holds"])}</td><td class="meaning">{escaped(one["note"])}</td>'
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
