"""The page of a trained variability model: learners compared, confusion, calibration of its probabilities.

One file that opens from disk without a network, made like report.html, from the document of `cohabit train variability`
and the predictions behind it. Nothing here trains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cohabit.predict.variability import VariabilityModel
from cohabit.predict.variability_data import CLASSES, VARIATION
from cohabit.predict.variability_scores import Judged
from cohabit.report.figures import Figure, colour, layout, safe
from cohabit.report.html import Page, assembled_page
from cohabit.report.html_tables import escaped, table

TITLE = "A model of when the machine is too noisy"
BINS = 10
COLUMNS_SHOWN = 60
LEARNER_WORDS = (
    "F1 of “this run will vary” with all columns: on applications never seen (one left out at a time), and on unseen "
    "runs of known applications. The difference is what knowing an application is worth."
)
SIZE_WORDS = "Mean F1 on applications left out, by how many columns are kept when the least important go first."
TRUST_WORDS = (
    "Runs of unseen applications in ten groups of equal size by the calibrated probability of variation; on the dotted "
    "line the probability is what happened. The curves were fitted on these same answers, so this flatters slightly: "
    "the score with each application's curves fitted on the others stands in the text."
)


def learner_figure(by_model: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw F1 per learner: unseen applications, unseen runs."""
    names = list(by_model)
    traces = [
        {
            "type": "bar",
            "name": label,
            "x": names,
            "y": [by_model[name][key] for name in names],
            "marker": {"color": colour(number)},
            "hovertemplate": f"%{{x}}, {label}: %{{y:.3f}}<extra></extra>",
        }
        for number, (key, label) in enumerate((("f1_grouped", "unseen applications"), ("f1_stratified", "unseen runs")))
    ]
    plan = layout(320, "", "F1", showlegend=True, barmode="group", xaxis={"type": "category"})
    return {"data": traces, "layout": plan}


def size_figure(by_size: Mapping[str, float | None]) -> Figure:
    """Draw F1 by number of columns."""
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [int(size) for size in by_size],
        "y": list(by_size.values()),
        "line": {"color": colour(0)},
        "hovertemplate": "%{x} columns: F1 %{y:.3f}<extra></extra>",
    }
    return {"data": [trace], "layout": layout(280, "columns kept", "F1", xaxis={"type": "log"})}


def trust_figure(unseen: Sequence[Judged], model: VariabilityModel) -> Figure:
    """Draw the probability of variation against its observed frequency."""
    chance = model.calibration.apply(np.concatenate([one.shares for one in unseen]))[:, VARIATION]
    happened = np.concatenate([one.truth for one in unseen]) == VARIATION
    groups = [rows for rows in np.array_split(np.argsort(chance, kind="stable"), BINS) if len(rows)]
    said, seen = ([float(part[rows].mean()) for rows in groups] for part in (chance, happened.astype(np.float64)))
    top = max([*said, *seen, 0.01])
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "runs",
            "x": said,
            "y": seen,
            "marker": {"size": 9, "color": colour(0)},
            "hovertemplate": "said %{x:.2f}, happened %{y:.2f}<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "right",
            "x": [0, top],
            "y": [0, top],
            "line": {"color": colour(7), "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
        },
    ]
    return {"data": traces, "layout": layout(320, "probability of variation", "share that varied", showlegend=True)}


def render_variability(document: Mapping[str, Any], unseen: Sequence[Judged], model: VariabilityModel) -> str:
    """Return the whole page as text."""
    page = Page()
    lead = "".join(f'<p class="lead">{escaped(words)}</p>' for words in _sentences(document))
    page.parts.append(f"<header><h1>{escaped(TITLE)}</h1>{lead}</header>")
    learners = page.picture(learner_figure(document["by_model"]), "F1 per learner", LEARNER_WORDS)
    page.add_section("Learners", learners)
    names = [safe(name) for name in CLASSES]
    page.add_section(
        "What happened and what was said",
        _table(
            ("happened", *(f"said {name}" for name in names)),
            [[name, *map(str, row)] for name, row in zip(names, document["confusion_classes"], strict=True)],
        ),
    )
    page.add_section(
        "What its probabilities are worth",
        page.picture(trust_figure(unseen, model), "Probability and frequency", TRUST_WORDS),
    )
    if len(document["by_size"]) > 1:
        page.add_section("Columns", page.picture(size_figure(document["by_size"]), "F1 by columns", SIZE_WORDS))
    heads = ("application", "runs", "varying", "F1 when left out", "mean (s)", "deviation (s)")
    page.add_section(
        "Applications",
        _table(
            heads,
            [
                [
                    name,
                    str(one["runs"]),
                    str(one["varying"]),
                    _number(one["f1"]),
                    f"{one['mean_s']:.1f}",
                    f"{one['deviation_s']:.1f}",
                ]
                for name, one in document["by_application"].items()
            ],
        ),
    )
    kept = document["features_kept"]
    more = f" and {len(kept) - COLUMNS_SHOWN} more" if len(kept) > COLUMNS_SHOWN else ""
    page.add_section("What it goes by", f"<p>{escaped(', '.join(kept[:COLUMNS_SHOWN]) + more)}.</p>")
    origin = f"Seed {document['seed']}. Training data {document['training_hash']}."
    page.add_section("Where this comes from", f"<p>{escaped(origin)}</p>")
    return assembled_page(TITLE, page)


def _sentences(document: Mapping[str, Any]) -> list[str]:
    words = [
        f"Model {document['model']}, trained on {document['rows']} runs of {document['applications']} applications, of "
        f"which {document['varying']} varied; it goes by {len(document['features_kept'])} of {document['columns']} "
        "columns.",
        f"On applications never seen its F1 is {_number(document['f1_grouped'])}, on unseen runs of known ones "
        f"{_number(document['f1_stratified'])}, with columns chosen again in every fold.",
    ]
    if document["calibration"]:
        before, after = document["calibration"]["brier_before"], document["calibration"]["brier_after"]
        words.append(f"Calibration changes the Brier score on unseen applications from {before:.3f} to {after:.3f}.")
    if document["blind"]:
        blind = document["blind"]
        words.append(f"On {blind['rows']} runs after the training window its F1 is {_number(blind['f1'])}.")
    return words


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    body = (
        f'<th scope="row">{escaped(first)}</th>' + "".join(f'<td class="number">{escaped(cell)}</td>' for cell in rest)
        for first, *rest in rows
    )
    return table([(text, "number" if at else "") for at, text in enumerate(heads)], body)
