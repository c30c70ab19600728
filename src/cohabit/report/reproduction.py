"""The page of a reproduction: the paper's value beside the measured one, and the paper's figures from our runs.

One file that opens from disk with no network, made like report.html. It reads the JSON document of `cohabit reproduce`
and figures as plain data; nothing here runs an experiment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cohabit.report.figures import Figure
from cohabit.report.html import Page, assembled_page
from cohabit.report.html_tables import escaped

MISSING = "-"
HEADS = (("claim", ""), ("paper", "number"), ("measured", "number"), ("95 % interval", "number"), ("band", "number"),
         ("holds", ""))  # fmt: skip
MAIN = (
    "The paper's results",
    "The claims that were fixed beforehand, each with the band our value had to fall into.",
)
OTHER = (
    "Other results",
    "Further numbers of the paper, the same claims in other simulated worlds, and parts of the algorithm taken away. A "
    "band is given only where the specification has one or where a sign has to survive.",
)
CHECKS = ("Checks", "Numbers that must agree with each other, or signs that must survive a change. Not a claim.")
INPUT = (
    "What was put in",
    "Numbers taken from the paper or assumed before the first run. They show that the input is the paper's.",
)


def number(value: float | None) -> str:
    """Return a value of any size as short text."""
    if value is None:
        return MISSING
    text = f"{value:.4g}"
    return text if "e" not in text else f"{value:,.0f}"


def span(low: float | None, high: float | None) -> str:
    """Return a range as text; an open end is marked."""
    if low is None and high is None:
        return MISSING
    if low is None:
        return f"at most {number(high)}"
    if high is None:
        return f"at least {number(low)}"
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def judged(holds: bool | None) -> str:
    """Return the verdict as one word."""
    return MISSING if holds is None else "yes" if holds else "no"


def render_page(
    document: Mapping[str, Any],
    title: str,
    about: Sequence[str],
    main: Collection[str],
    pictures: Sequence[tuple[str, Figure, str]],
) -> str:
    """Return report.html as text; `main` names the rows that were fixed beforehand."""
    rows = document["rows"]
    page = Page()
    chosen = [one for one in rows if one["id"] in main]
    page.add_head(title, [*about, _verdict(chosen)], _cards(rows, chosen))
    _add_rows(page, MAIN, chosen)
    for name, figure, caption in pictures:
        page.add_section(name, page.picture(figure, name, caption))
    rest = [one for one in rows if one["id"] not in main]
    for words, role in ((OTHER, "emergent"), (CHECKS, "check"), (INPUT, "calibrated")):
        _add_rows(page, words, [one for one in rest if one["role"] == role])
    origin = (
        f"<p>Seed {escaped(document['seed'])}. Calibration {escaped(document['calibration_hash'])}: a digest of every "
        "number that was put in, so that a change after the results were seen cannot go unnoticed. Bands and roles "
        "come from the specification's table and were fixed before the first run.</p>"
    )
    page.add_section("Where this comes from", origin)
    return assembled_page(title, page)


def _verdict(chosen: Sequence[Mapping[str, Any]]) -> str:
    held, missed = _counts(chosen)
    unknown = len(chosen) - held - missed
    words = f"Of {len(chosen)} claims of the paper with a band fixed beforehand, {held} come out inside it"
    words += f", {missed} outside"
    words += f" and {unknown} could not be measured here" if unknown else ""
    return f"{words}. A result outside its band is reported like any other, with the best explanation we have below it."


def _counts(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    return sum(one["holds"] is True for one in rows), sum(one["holds"] is False for one in rows)


def _cards(rows: Sequence[Mapping[str, Any]], chosen: Sequence[Mapping[str, Any]]) -> str:
    held, missed = _counts(chosen)
    values = (
        (held, "claims inside their band"),
        (missed, "claims outside"),
        (len(rows), "numbers in all"),
        (sum(one["measured"] is None for one in rows), "not measured here"),
    )
    found = "".join(
        f'<div class="card"><div class="label">{escaped(label)}</div><div class="value">{value}</div></div>'
        for value, label in values
    )
    return f'<div class="cards">{found}</div>'


def _add_rows(page: Page, words: tuple[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        page.add_section(words[0], f'<p class="caption">{escaped(words[1])}</p>', _table(rows))


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Two lines per row: the numbers, and below them the remarks."""
    head = "".join(f'<th scope="col" class="{style}">{escaped(text)}</th>' for text, style in HEADS)
    body = "".join(_line(one) for one in rows)
    return f'<div class="scroll"><table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _line(one: Mapping[str, Any]) -> str:
    style = {True: "better", False: "worse", None: ""}[one["holds"]]
    seeds = f"<small>{one['n_seeds']} seed{'s' if one['n_seeds'] != 1 else ''}</small>" if one["n_seeds"] else ""
    remark = f"{one['id']}. {_sentence(one['note'])}" if one["note"] else f"{one['id']}"
    return (
        f'<tr class="row"><th scope="row">{escaped(_sentence(one["claim"]))}</th>'
        f'<td class="number">{number(one["paper"])}</td><td class="number">{number(one["measured"])}{seeds}</td>'
        f'<td class="number">{span(one["ci_low"], one["ci_high"])}</td>'
        f'<td class="number">{span(one["low"], one["high"])}</td><td class="{style}">{judged(one["holds"])}</td></tr>'
        f'<tr class="remark"><td colspan="{len(HEADS)}">{escaped(remark)}</td></tr>'
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
