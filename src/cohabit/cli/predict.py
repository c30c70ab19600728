"""`cohabit predict`: ask a trained model about pairs of applications, or about runs at certain moments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

EXAMPLES = """\b
Examples:
  cohabit predict model pairs.csv
  cohabit predict model pairs.csv --json
  cohabit predict variability-model runs.csv
  cohabit predict model pairs.csv --matrix degradation.csv && cohabit match degradation.csv"""
ROWS_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="predict", short_help="Ask a trained model who slows whom, or when.", epilog=EXAMPLES)(predict)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Written by cohabit train.")],
    data: Annotated[
        Path, typer.Argument(metavar="DATA.csv", help="Pairs or runs with their counters; a target is optional.")
    ],
    matrix: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all pairs, for cohabit match.")] = None,
    library: Annotated[bool, typer.Option("--library", help="Ask the stored scikit-learn object, to compare.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Predict by how many percent each application slows beside the other, or whether each run will vary.

    The data must have the columns the model was trained on, measured by the same sources. Where it has a target,
    the score is given as well.
    """
    from cohabit.app.learn.learning import ask, write_matrix
    from cohabit.cli.console import note, show_json
    from cohabit.predict.archive import format_of
    from cohabit.predict.variability_file import FORMAT as VARIABILITY
    from cohabit.trace.corun_data import read_coruns

    if format_of(model) == VARIABILITY:
        _predict_runs(model, data, matrix, library, as_json)
        return
    asked = read_coruns(data, with_target=False)
    document = ask(model, asked, str(data), library)
    if matrix is not None:
        note(f"{matrix}: all pairs of {write_matrix(model, asked, matrix, str(data))} applications")
    if as_json:
        show_json(document)
    else:
        _show(document)


def _predict_runs(model: Path, data: Path, matrix: Path | None, library: bool, as_json: bool) -> None:
    from cohabit.app.learn.variability import ask_variability
    from cohabit.app.learn.variability_data import read_runs
    from cohabit.cli.console import show_json
    from cohabit.model.errors import InputError

    if matrix is not None:
        raise InputError(
            "--matrix needs a model of degradations, this one is of variability", str(model), "leave it out"
        )
    document = ask_variability(model, read_runs(data, with_run=False), library)
    if as_json:
        show_json(document)
    else:
        _show_runs(document)


def _show_runs(document: dict[str, Any]) -> None:
    from cohabit.cli.console import table

    found = sorted(document["predictions"], key=lambda one: -one["probabilities"][-1])[:ROWS_SHOWN]
    rows = [
        [one["app"], f"{one['start_s']:.0f}", one["class"], *(f"{chance:.3f}" for chance in one["probabilities"]),
         f"{one['slowdown']:.2f}"]
        for one in found
    ]  # fmt: skip
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
    from cohabit.cli.console import table

    shown = sorted(document["predictions"], key=lambda one: -one[2])[:ROWS_SHOWN]
    table(
        "", ["application", "beside", "slows by"], [[app, other, f"{percent:.1f} %"] for app, other, percent in shown]
    )
    if len(shown) < document["rows"]:
        typer.echo(f"The {len(shown)} worst of {document['rows']} pairs; --json gives all.")
    words = f"model {document['model']}"
    if document["negatives"]:
        words += f"; {document['negatives']} predictions were below zero and count as zero"
    if document["r2"] is not None:
        words += f"; R² {document['r2']:.3f}, mean error {document['mean_error']:.1f} points against the data's target"
    typer.echo(words)
