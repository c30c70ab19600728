"""`cohabit train`: learn `degradation` (how programs slow each other) or `variability` (when the machine is noisy)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, progress, show_result, table, table_of
from cohabit.cli.declaring import Argument, Option, add_group, verb
from cohabit.cli.options import AsJson, check_seed
from cohabit.model.errors import InputError, unknown


def register(app: typer.Typer) -> None:
    """Add the verb and what it can train."""
    about, short = "Learn a model from measurements (each kind has --json).", "Learn a model from measurements."
    example = "cohabit train degradation pairs.csv --out model --json"
    add_group(app, "train", short, about, example, verbs=(degradation, variability))


@verb(
    "degradation",
    "How programs slow each other, from counters.",
    "cohabit train degradation pairs.csv --out model",
    "cohabit train degradation pairs.csv --model forest --blind-suite splash --out model --json",
    "cohabit train degradation pairs.csv --quantile 0.8 --out careful",
)
def degradation(
    data: Annotated[Path, Argument("DATA.csv", "One row per ordered pair of applications.")],
    out: Annotated[Path, Option(metavar="MODEL", help="The file to write; its page goes to MODEL.html.")],
    model: Annotated[str, Option(help="law, forest, mlp, svr, elastic-net, factor, or auto (the best).")] = "auto",
    blind_suite: Annotated[
        list[str] | None, Option(metavar="NAME", help="Hold out all applications of a suite; may be repeated.")
    ] = None,
    blind: Annotated[Path | None, Option(metavar="FILE", help="Hold out the applications of a file.")] = None,
    target: Annotated[
        str, Option(metavar="KIND", help="What targets are: percent (slower), time, latency or throughput.")
    ] = "percent",
    average: Annotated[bool, Option("--average", help="Average rows of one pair even if they contradict.")] = False,
    quantile: Annotated[
        float | None, Option(metavar="Q", help="Raise predictions until this share of pairs keeps its promise.")
    ] = None,
    seed: Annotated[int, Option(help="Seed of folds and learners.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn by how much an application slows beside another, from the counters both had alone.

    Scores are measured on applications the model has never seen (grouped), beside those on unseen pairs of known
    applications, which flatter it. Also reads dcslab-snu's published measurements.
    """
    from cohabit.app.learn.learning import (
        AUTO,
        HeldOut,
        hold_out_file,
        hold_out_suites,
        page_of,
        train_degradation,
        write_lesson,
    )
    from cohabit.predict.baselines import TITLES
    from cohabit.predict.estimators import KINDS
    from cohabit.trace.corun_data import read_coruns

    if model not in (*KINDS, AUTO):
        raise unknown("model", model, (*KINDS, AUTO))
    if quantile is not None and not 0.5 <= quantile < 1:
        raise InputError(f"--quantile {quantile:g} makes no sense", "", "give a share from 0.5 to below 1, such as 0.8")
    if blind_suite and blind is not None:
        raise InputError("--blind-suite and --blind exclude each other", "", "give one of them")
    check_seed(seed)
    _check_files(out, page_of(out))
    learned = read_coruns(data, kind=target, average=average)
    if blind_suite:
        held = hold_out_suites(learned, blind_suite)
    elif blind is not None:
        held = hold_out_file(learned, read_coruns(blind, kind=target, average=average), str(blind))
    else:
        held = HeldOut(learned)
    if held.learn.remark:
        note(f"the data is {held.learn.remark}")
    for one in held.learn.notes:
        note(one)
    with progress("training") as advance:
        lesson = train_degradation(held, model, seed, quantile, advance)
    write_lesson(lesson, out, dict(learned.environment))
    show_result(lesson.document, as_json, _show)
    if lesson.document["not_beaten"]:
        beaten = " and ".join(TITLES[one] for one in lesson.document["not_beaten"])
        note(f"on families never seen this model does not beat {beaten}: policies refuse it (policy.trust_model)")
    if not as_json:
        typer.echo(f"written: {out} and {page_of(out)}")


def _check_files(*files: Path) -> None:
    for path in files:
        if path.is_dir():
            raise InputError("is a folder", str(path), "name a file to write; its page goes to MODEL.html")


@verb(
    "variability",
    "When the machine is too noisy for a job.",
    "cohabit train variability runs.csv --out model",
    "cohabit train variability runs.csv --model adaboost --until 1604188800 --out model --json",
)
def variability(
    data: Annotated[Path, Argument("DATA.csv", "One row per run, with the counters before it.")],
    out: Annotated[Path, Option(metavar="MODEL", help="The file to write; its page goes to MODEL.html.")],
    model: Annotated[str, Option(help="adaboost, extra-trees, forest, knn, or auto (the best).")] = "auto",
    until: Annotated[
        float | None, Option(metavar="S", help="Learn from runs that began before; judge later ones blind.")
    ] = None,
    seed: Annotated[int, Option(help="Seed of folds and learners.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn whether a run would take unusually long, from what the counters said before it began.

    A run varies if it is slower than its application's mean by more than 1.5 deviations, both frozen from the training
    data. Scores are F1 on applications the model has never seen (grouped), beside those on unseen runs of known ones.
    """
    import math

    from cohabit.app.learn.learning import AUTO, page_of
    from cohabit.app.learn.variability import train_variability, write_variability
    from cohabit.app.learn.variability_data import read_runs
    from cohabit.predict.variability_learners import KINDS

    if model not in (*KINDS, AUTO):
        raise unknown("model", model, (*KINDS, AUTO))
    if until is not None and not math.isfinite(until):
        raise InputError(f"--until {until:g} is no time", "", "give a start_s of the data")
    check_seed(seed)
    _check_files(out, page_of(out))
    runs = read_runs(data)
    with progress("training") as advance:
        lesson = train_variability(runs, model, seed, until, advance)
    write_variability(lesson, out)
    show_result(lesson.document, as_json, _show_variability)
    if not as_json:
        typer.echo(f"written: {out} and {page_of(out)}")


def _show_variability(document: dict[str, Any]) -> None:
    rows = [
        [name, _number(one["f1_grouped"]), _number(one["f1_stratified"])] for name, one in document["by_model"].items()
    ]
    title = f"{document['rows']} runs of {document['applications']} applications, {document['varying']} varied"
    table(title, ["model, all columns", "F1 unseen applications", "F1 unseen runs"], rows)
    kept = document["features_kept"]
    typer.echo(
        f"{document['model']} with {len(kept)} of {document['columns']} columns, chosen again in every fold: F1 "
        f"{_number(document['f1_grouped'])} on unseen applications, {_number(document['f1_stratified'])} on unseen runs"
    )
    names = document["classes"]
    cells = [[name, *map(str, row)] for name, row in zip(names, document["confusion_classes"], strict=True)]
    table("unseen applications: what happened, and what was said", ["", *names], cells)
    typer.echo(f"goes by: {', '.join(kept[:12])}{' ...' if len(kept) > 12 else ''}")
    if document["blind"]:
        blind = document["blind"]
        typer.echo(f"after the training window: F1 {_number(blind['f1'])} on {blind['rows']} runs")


def _show(document: dict[str, Any]) -> None:
    models = [
        {
            "model": name,
            "R² unseen applications": _number(one["grouped_r2"]),
            "error (points)": f"{one['grouped_mean_error']:.1f}",
            "R² unseen pairs": _number(one["pair_r2"]),
            "R² blind": _number(one["blind_r2"]),
            "below zero": str(one["negatives"]),
            "surprises": str(one["surprises"]),
        }
        for name, one in document["by_model"].items()
    ]
    table_of(f"{document['rows']} pairs of {document['applications']} applications", models)
    ranges = [
        {
            "degradation": one["range"],
            "pairs": str(one["rows"]),
            "error": f"{one['mean_error']:.1f}",
            "bias": f"{one['bias']:+.1f}",
            "promised too little": f"{100 * one['promised_too_little']:.0f} %",
        }
        for one in document["by_range"]
    ]
    table_of(f"{document['model']} by true degradation, {document['grouped_unseen']} unseen", ranges)
    splits = [
        {
            "unseen": name,
            "pairs": str(one["rows"]),
            "model": f"{one['model']['mean_error']:.1f}",
            **{each: f"{one[each]['mean_error']:.1f}" for each in ("mean", "additive", "one-feature")},
        }
        for name, one in document["by_split"].items()
    ]
    table_of(f"mean error (points) of {document['model']} and of what it must beat", splits)
    typer.echo(f"families of programs: {document['families_from']}")
    if document["new_programs"]:
        new = document["new_programs"]
        for name, words in (("before", "no co-run"), ("after", f"{new['co_runs']} co-runs")):
            typer.echo(f"{words} of a new program known: {_new(new[name])}")
    relied = [[one["counter"], one["family"], f"{one['r2_lost']:.3f}"] for one in document["importance"][:10]]
    table("what it relies on", ["counter", "family", "R² lost without it"], relied)
    if document["few_co_runs"]:
        few = document["few_co_runs"]
        gaps = f" ({few['without']} have a program without a co-run with them)" if few["without"] else ""
        asked = f"R² {_number(few['r2'])} on {few['rows']} others{gaps}"
        typer.echo(f"factor from {few['co_runs']} of {few['of']} co-runs with {len(few['references'])}: {asked}")
    if document["careful"]:
        one = document["careful"]
        typer.echo(
            f"quantile {one['quantile']:g}: raised by {100 * one['margin']:.0f} % of (the prediction + 10 points); "
            f"promised too little {100 * one['promised_too_little_before']:.0f} % -> "
            f"{100 * one['promised_too_little']:.0f} % of pairs ({one['measured_on']})"
        )


def _new(one: dict[str, Any]) -> str:
    """Describe the scores on new programs."""
    words = f"error {one['mean_error']:.1f} points (additive {one['additive_error']:.1f})"
    words += f", {100 * one['covered']:.0f} % within intervals of 80 %"
    pairing = one["pairing"]
    if pairing and pairing["gap_closed"] is not None:
        closed = pairing["gap_closed"]
        gained = f"come {100 * closed:.0f} % of the way from random to the best ones"
        words += f"; pairs by it {gained if closed > 0 else 'are no better than random ones'}"
        words += f" (worst split: {pairing['worse_than_random']:+.0f} % slowdown against random)"
    return words


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
