"""The page of a trained degradation model: prediction against truth, learners compared, what it relies on.

One file that opens from disk with no network, made like report.html, from the document of `cohabit train degradation`
and the answers behind it. Nothing here trains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cohabit.predict.baselines import BASELINES, TITLES
from cohabit.predict.features import Floats
from cohabit.predict.pooling import Judged
from cohabit.predict.scores import Asked
from cohabit.report.figures import Figure, bar, colour, layout, marks, packed, safe
from cohabit.report.html import Page, assembled_page
from cohabit.report.html_tables import escaped, table

TITLE = "A model of slowdowns by neighbours"
COUNTERS_SHOWN = 15
SCATTER_WORDS = (
    "Every mark is a pair of applications the model had never seen. On the dotted line the prediction is right; below "
    "it, the pair is slower than promised. Bars hold four of five pairs of families left out."
)
LEARNER_WORDS = (
    "R² on pairs of unseen applications beside R² on unseen pairs of known ones: the difference is what random folds "
    "over pairs leak. The mean predictor knows nothing but the average."
)
IMPORTANCE_WORDS = "How far R² on the training data falls when the counter's values are shuffled among the rows."
RANGE_HEADS = ("true degradation", "pairs", "mean error (points)", "bias (points)", "promised too little")


def scatter_figure(grouped: Asked, blind: Asked | None, interval: Judged | None = None) -> Figure:
    """Predicted against true degradation, of rows the model had not learned from, with intervals."""
    traces: list[Figure] = []
    for number, (name, asked) in enumerate((("folds by application", grouped), ("blind", blind))):
        if asked is None:
            continue
        x, y = packed(asked.truth), packed(np.maximum(asked.answer, 0.0))
        pairs = [safe(f"{app} beside {other}") for app, other in zip(asked.app, asked.other, strict=True)]
        hover = "%{text}: %{x:.1f} % true, %{y:.1f} % predicted<extra></extra>"
        traces.append(marks(name, x, y, number, hover, size=7, marker={"symbol": number}, text=pairs))
        if number == 0 and interval is not None:
            up, down = np.maximum(interval.high - y_of(asked), 0.0), np.maximum(y_of(asked) - interval.low, 0.0)
            bars = {"type": "data", "symmetric": False, "array": packed(up), "arrayminus": packed(down)}
            traces[-1]["error_y"] = bars | {"thickness": 0.6, "width": 0}
    top = max(float(max(asked.truth.max(), asked.answer.max())) for asked in (grouped, blind) if asked is not None)
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "right",
            "x": [0, top],
            "y": [0, top],
            "line": {"color": colour(7), "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
        }
    )
    plan = layout(420, "true degradation (%)", "predicted degradation (%)", showlegend=True)
    return {"data": traces, "layout": plan}


def y_of(asked: Asked) -> Floats:
    """Return answers as they are drawn."""
    return np.maximum(asked.answer, 0.0)


def learner_figure(by_model: Mapping[str, Mapping[str, Any]]) -> Figure:
    """R^2 per learner: unseen applications, unseen pairs, blind."""
    names, traces = list(by_model), []
    for number, (key, label) in enumerate(
        (("grouped_r2", "unseen applications"), ("pair_r2", "unseen pairs"), ("blind_r2", "blind"))
    ):
        values = [by_model[name][key] for name in names]
        if any(value is not None for value in values):
            cut = [None if value is None else max(value, -1.0) for value in values]
            hover = f"%{{x}}, {label}: %{{customdata:.3f}}<extra></extra>"
            traces.append(bar(label, names, cut, number, hover, customdata=values))
    plan = layout(320, "", "R², cut off at -1", showlegend=True, barmode="group", xaxis={"type": "category"})
    return {"data": traces, "layout": plan}


def importance_figure(importance: Sequence[Mapping[str, Any]]) -> Figure:
    """The counters the model relies on most."""
    shown = list(importance[:COUNTERS_SHOWN])[::-1]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [one["r2_lost"] for one in shown],
        "y": [safe(one["counter"]) for one in shown],
        "marker": {"color": colour(0)},
        "customdata": [one["family"] for one in shown],
        "hovertemplate": "%{y} (%{customdata}): R² falls by %{x:.3f}<extra></extra>",
    }
    plan = layout(90 + 22 * len(shown), "R² lost without it", "", yaxis={"type": "category"})
    return {"data": [trace], "layout": plan}


def render_learning(
    document: Mapping[str, Any], grouped: Asked, blind: Asked | None, interval: Judged | None = None
) -> str:
    """The whole page as text."""
    page = Page()
    page.add_head(TITLE, _sentences(document))
    scatter, learners = scatter_figure(grouped, blind, interval), learner_figure(document["by_model"])
    page.add_section("Prediction against truth", page.picture(scatter, "Predicted and true degradation", SCATTER_WORDS))
    page.add_section("Learners", page.picture(learners, "R squared per learner", LEARNER_WORDS))
    page.add_section("Against what it must beat", _by_split(document["by_split"]))
    page.add_section("Error by range", _ranges(document["by_range"]))
    if document["importance"]:
        figure = importance_figure(document["importance"])
        page.add_section("What it relies on", page.picture(figure, "Importance of counters", IMPORTANCE_WORDS))
    origin = f"Seed {document['seed']}. Training data {document['training_hash']}."
    page.add_section("Where this comes from", f"<p>{escaped(origin)}</p>")
    return assembled_page(TITLE, page)


def _sentences(document: Mapping[str, Any]) -> list[str]:
    own, plain = document["by_model"][document["model"]], document["by_model"]["mean"]
    words = [
        f"Model {document['model']}, trained on {document['rows']} pairs of {document['applications']} applications.",
        f"On {document['grouped_rows']} pairs with {document['grouped_unseen']} unseen it is off by "
        f"{own['grouped_mean_error']:.1f} points on average (R² {_number(own['grouped_r2'])}); the mean predictor by "
        f"{plain['grouped_mean_error']:.1f} points.",
    ]
    if document["blind_rows"]:
        words.append(
            f"On {document['blind_rows']} blind pairs it is off by {own['blind_mean_error']:.1f} points "
            f"(R² {_number(own['blind_r2'])})."
        )
    if document["not_beaten"]:
        beaten = " and ".join(TITLES[one] for one in document["not_beaten"])
        words.append(f"It does not beat {beaten} there: do not schedule by it.")
    if document["new_programs"]:
        after = document["new_programs"]["after"]
        words.append(
            f"Once {document['new_programs']['co_runs']} co-runs of a new program are known, it is off by "
            f"{after['mean_error']:.1f} points (sensitivity plus intensity: {after['additive_error']:.1f}); "
            f"{100 * after['covered']:.0f} % of the pairs are within their interval."
        )
    return [*words, f"The data is {document['remark']}." if document["remark"] else ""]


SPLITS = {
    "family": "family never seen",
    "program": "program never seen",
    "neighbour": "only the neighbour never seen",
    "pair": "only the pair never seen",
}


def _by_split(splits: Mapping[str, Mapping[str, Any]]) -> str:
    """Mean errors of the model and its baselines."""
    heads = [("what is new", ""), ("pairs", "number"), ("model", "number")]
    heads += [(TITLES[name], "number") for name in BASELINES]

    def cells(name: str, one: Mapping[str, Any]) -> str:
        errors = "".join(f'<td class="number">{one[each]["mean_error"]:.1f}</td>' for each in ("model", *BASELINES))
        return f'<th scope="row">{SPLITS[name]}</th><td class="number">{one["rows"]}</td>{errors}'

    words = "<p>Mean error in points of degradation.</p>"
    return words + table(heads, (cells(name, one) for name, one in splits.items()))


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _ranges(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = [(text, "number" if place else "") for place, text in enumerate(RANGE_HEADS)]
    return table(
        heads,
        (
            f'<th scope="row">{escaped(one["range"])}</th><td class="number">{one["rows"]}</td>'
            f'<td class="number">{one["mean_error"]:.1f}</td><td class="number">{one["bias"]:+.1f}</td>'
            f'<td class="number">{100 * one["promised_too_little"]:.0f} %</td>'
            for one in rows
        ),
    )
