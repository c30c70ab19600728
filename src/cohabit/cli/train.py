"""`cohabit train`: learn from measurements; `degradation` learns who slows whom."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

EXAMPLES = """\b
Examples:
  cohabit train degradation pairs.csv --out model
  cohabit train degradation pairs.csv --model forest --blind-suite splash --out model --json
  cohabit train degradation pairs.csv --quantile 0.8 --out careful"""
GROUP_EXAMPLE = "\b\nExample:\n  cohabit train degradation pairs.csv --out model --json"


def register(app: typer.Typer) -> None:
    """Add the verb and what it can train."""
    group = typer.Typer(help="Learn a model from measurements (each kind has --json).", no_args_is_help=True,
                        epilog=GROUP_EXAMPLE)  # fmt: skip
    group.command(name="degradation", short_help="Who slows whom, from counters.", epilog=EXAMPLES)(degradation)
    app.add_typer(group, name="train", short_help="Learn a model from measurements.")


def degradation(
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="One row per ordered pair of applications.")],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The file to write; its page goes to MODEL.html.")],
    model: Annotated[str, typer.Option(help="forest, mlp, svr, elastic-net, factor, or auto (the best).")] = "auto",
    blind_suite: Annotated[str, typer.Option(metavar="NAME", help="Hold out all applications of a suite.")] = "",
    blind: Annotated[Path | None, typer.Option(metavar="FILE", help="Hold out the applications of a file.")] = None,
    quantile: Annotated[
        float | None, typer.Option(metavar="Q", help="Raise predictions until this share of pairs keeps its promise.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of folds and learners.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Learn by how much an application slows beside another, from the counters both had alone.

    Scores are measured on applications the model has never seen (grouped), beside those on unseen pairs of known
    applications, which flatter it. Also reads dcslab-snu's published measurements.
    """
    from cohabit.app.learning import (
        AUTO,
        HeldOut,
        hold_out_file,
        hold_out_suite,
        page_of,
        train_degradation,
        write_lesson,
    )
    from cohabit.cli.console import note, progress, show_json
    from cohabit.model.errors import InputError
    from cohabit.policy.registry import unknown
    from cohabit.predict.estimators import KINDS
    from cohabit.trace.corun_data import read_coruns

    if model not in (*KINDS, AUTO):
        raise unknown("model", model, (*KINDS, AUTO))
    if quantile is not None and not 0.5 <= quantile < 1:
        raise InputError(f"--quantile {quantile:g} makes no sense", "", "give a share from 0.5 to below 1, such as 0.8")
    if blind_suite and blind is not None:
        raise InputError("--blind-suite and --blind exclude each other", "", "give one of them")
    if seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "give a number from 0 up")
    for path in (out, page_of(out)):
        if path.is_dir():
            raise InputError("is a folder", str(path), "name a file to write; its page goes to MODEL.html")
    learned = read_coruns(data)
    if blind_suite:
        held = hold_out_suite(learned, blind_suite)
    elif blind is not None:
        held = hold_out_file(learned, read_coruns(blind), str(blind))
    else:
        held = HeldOut(learned)
    if held.learn.remark:
        note(f"the data is {held.learn.remark}")
    with progress("training") as advance:
        lesson = train_degradation(held, model, seed, quantile, advance)
    write_lesson(lesson, out, dict(learned.environment))
    if as_json:
        show_json(lesson.document)
    else:
        _show(lesson.document)
        typer.echo(f"written: {out} and {page_of(out)}")


def _show(document: dict[str, Any]) -> None:
    from cohabit.cli.console import table

    rows = [
        [name, _number(one["grouped_r2"]), f"{one['grouped_mean_error']:.1f}", _number(one["pair_r2"]),
         _number(one["blind_r2"]), str(one["negatives"]), str(one["surprises"])]
        for name, one in document["by_model"].items()
    ]  # fmt: skip
    heads = [
        "model",
        "R² unseen applications",
        "error (points)",
        "R² unseen pairs",
        "R² blind",
        "below zero",
        "surprises",
    ]
    table(f"{document['rows']} pairs of {document['applications']} applications", heads, rows)
    ranges = [
        [one["range"], str(one["rows"]), f"{one['mean_error']:.1f}", f"{one['bias']:+.1f}",
         f"{100 * one['promised_too_little']:.0f} %"]
        for one in document["by_range"]
    ]  # fmt: skip
    table(f"{document['model']} by true degradation, {document['grouped_unseen']} unseen",
          ["degradation", "pairs", "error", "bias", "promised too little"], ranges)  # fmt: skip
    relied = [[one["counter"], one["family"], f"{one['r2_lost']:.3f}"] for one in document["importance"][:10]]
    table("what it relies on", ["counter", "family", "R² lost without it"], relied)
    if document["few_co_runs"]:
        few = document["few_co_runs"]
        typer.echo(f"factor from {few['co_runs']} of {few['of']} co-runs: R² {_number(few['r2'])} on the others")
    if document["careful"]:
        one = document["careful"]
        typer.echo(
            f"quantile {one['quantile']:g}: raised by {100 * one['margin']:.0f} % of (the prediction + 10 points); "
            f"promised too little {100 * one['promised_too_little_before']:.0f} % -> "
            f"{100 * one['promised_too_little']:.0f} % of pairs ({one['measured_on']})"
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
