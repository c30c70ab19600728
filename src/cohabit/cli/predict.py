"""`cohabit predict`: ask a trained model about pairs of applications, or about runs at certain moments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, show_result, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson
from cohabit.model.errors import InputError

ROWS_SHOWN = 20


@verb(
    "predict",
    "Ask a trained model which programs slow each other, or when.",
    "cohabit predict model pairs.csv",
    "cohabit predict model pairs.csv --json",
    "cohabit predict variability-model runs.csv",
    "cohabit predict model pairs.csv --matrix degradation.csv && cohabit match degradation.csv",
)
def predict(
    model: Annotated[Path, Argument("MODEL", "Written by cohabit train.")],
    data: Annotated[Path, Argument("DATA.csv", "Pairs or runs with their counters; a target is optional.")],
    matrix: Annotated[Path | None, Option(metavar="FILE", help="Write all pairs, for cohabit match.")] = None,
    target: Annotated[
        str, Option(metavar="KIND", help="What targets are: percent (slower), time, latency or throughput.")
    ] = "percent",
    average: Annotated[bool, Option("--average", help="Average repeated pairs even if they contradict.")] = False,
    library: Annotated[bool, Option("--library", help="Use the stored scikit-learn object, to compare.")] = False,
    as_json: AsJson = False,
) -> None:
    """Predict by how many percent each application slows beside the other, or whether each run will vary.

    The data must have the columns the model was trained on, measured by the same sources. Where it has a target,
    the score is given as well.
    """
    from cohabit.app.learn.learning import ask, write_matrix
    from cohabit.predict.archive import format_of
    from cohabit.predict.variability_file import FORMAT as VARIABILITY
    from cohabit.trace.corun_data import read_coruns

    if format_of(model) == VARIABILITY:
        if target != "percent" or average:
            what = "--target and --average are for pairs, this is a model of variability"
            raise InputError(what, str(model), "leave them out")
        _predict_runs(model, data, matrix, library, as_json)
        return
    asked = read_coruns(data, with_target=False, kind=target, average=average)
    document = ask(model, asked, str(data), library)
    if matrix is not None:
        note(f"{matrix}: all pairs of {write_matrix(model, asked, matrix, str(data))} applications")
    show_result(document, as_json, _show)


def _predict_runs(model: Path, data: Path, matrix: Path | None, library: bool, as_json: bool) -> None:
    from cohabit.app.learn.variability import ask_variability
    from cohabit.app.learn.variability_data import read_runs

    if matrix is not None:
        raise InputError(
            "--matrix needs a model of degradations, this one is of variability", str(model), "leave it out"
        )
    document = ask_variability(model, read_runs(data, with_run=False), library)
    show_result(document, as_json, _show_runs)


def _show_runs(document: dict[str, Any]) -> None:
    found = sorted(document["predictions"], key=lambda one: -one["probabilities"][-1])[:ROWS_SHOWN]
    rows = [
        [
            one["app"],
            f"{one['start_s']:.0f}",
            one["class"],
            *(f"{chance:.3f}" for chance in one["probabilities"]),
            f"{one['slowdown']:.2f}",
        ]
        for one in found
    ]
    table("", ["application", "start (s)", "class", *document["classes"], "expected slowdown"], rows)
    if len(found) < document["rows"]:
        typer.echo(f"The {len(found)} most likely to vary of {document['rows']} runs; --json gives all.")
    words = f"model {document['model']}"
    if document["f1"] is not None:
        words += f"; F1 {document['f1']:.3f} against the data's run times, judged with the model's means and deviations"
    if document["unknown_applications"]:
        words += f"; no mean is known of {', '.join(document['unknown_applications'])}"
    typer.echo(words)


def _show(document: dict[str, Any]) -> None:
    found = zip(document["predictions"], document["intervals"], strict=True)
    shown = sorted(found, key=lambda one: -one[0][2])[:ROWS_SHOWN]
    rows = [
        [app, other, f"{percent:.1f} %", f"{low:.0f} to {high:.0f} %"] for (app, other, percent), (low, high) in shown
    ]
    table("", ["application", "beside", "slows by", "four of five within"], rows)
    if len(shown) < document["rows"]:
        typer.echo(f"The {len(shown)} worst of {document['rows']} pairs; --json gives all.")
    words = f"model {document['model']}"
    if document["negatives"]:
        words += f"; {document['negatives']} predictions were below zero and count as zero"
    if document["beyond_seen"]:
        words += f"; {document['beyond_seen']} were beyond the worst pair it learned from and count as that"
    if document["outside_range"]:
        words += f"; counters of {document['outside_range']} pairs are outside the range it learned from"
    if document["not_beaten"]:
        words += f"; on unseen families it does not beat {', '.join(document['not_beaten'])}"
    if document["r2"] is not None:
        words += f"; R² {document['r2']:.3f}, mean error {document['mean_error']:.1f} points against the data's target"
    typer.echo(words)
