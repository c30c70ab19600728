"""`cohabit reproduce`: repeat a paper's experiments and show its numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.console import note, progress, show_json, table_of
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson, check_seed
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.reproduce.papers import Reproduction
    from cohabit.reproduce.rows import Row

ANSWERS = "answers.jsonl"  # of finished experiments: a run that was stopped goes on with them


@verb(
    "reproduce",
    "A paper's experiments again, beside its numbers.",
    "cohabit reproduce sns --quick",
    "cohabit reproduce joint --quick",
    "cohabit reproduce sns --seed 7 --out out/sns",
    'cohabit reproduce sns --quick --programs hidden --salt "only the reviewer knows"',
)
def reproduce(
    paper: Annotated[str, Argument("PAPER", "sns, shepherd, colocation, rush, coscheduling, joint or all.")],
    seed: Annotated[int, Option(help="Seed of all random numbers; 0 to 99 are for development.")] = 1,
    quick: Annotated[bool, Option("--quick", help="Every row, fewer repeats, in a minute or two.")] = False,
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Write rows.json, rows.csv and report.html; if stopped, the same command continues."
        ),
    ] = None,
    salt: Annotated[str | None, Option(help="Evaluation seeds from this text; else COHABIT_EVALUATION_SALT.")] = None,
    programs: Annotated[str, Option(help="catalogue, or hidden: programs not seen in development.")] = "catalogue",
    sensitivity: Annotated[
        bool, Option("--sensitivity", help="Also vary every assumed parameter by half, up and down.")
    ] = False,
    workers: Annotated[int | None, Option(help="Number of processes; default: all cores.")] = None,
    every: Annotated[bool, Option("--all", help="The table of all rows, with intervals and bands.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of a paper and put its values beside the measured ones.

    The status is 0 whether or not a row holds: a row that does not is a result too, and its note says why.
    """
    from cohabit.app.simulate import outputs
    from cohabit.reproduce.papers import Options, chosen, salt_from
    from cohabit.reproduce.papers import reproduce as run
    from cohabit.reproduce.tasks import run_tasks

    chosen(paper)
    if programs not in ("catalogue", "hidden"):
        raise InputError(f"there are no programs called {programs!r}", "--programs", "use catalogue or hidden")
    check_seed(seed)
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} is not a positive number")
    if out is not None:
        outputs.check_folder(out)
    options = Options(seed, quick, salt_from(salt), programs, sensitivity, workers)
    if not as_json:
        slowly = "simulating the paper's repeats: this takes a while (--quick is shorter) ..."
        note("simulating ..." if quick else slowly)
    with progress("reproducing") as advance:
        if out is None:
            done = run(paper, options, advance)
        else:
            out.mkdir(parents=True, exist_ok=True)
            done = run(paper, options, advance, draw=True, run=partial(run_tasks, kept=out / ANSWERS))
    if out is not None:
        _write(done, out)
    if as_json:
        show_json(done.document())
        return
    show(done, every)
    if out is not None:
        typer.echo(f"wrote {', '.join(['rows.json', 'rows.csv', 'report.html', *done.files])} to {out}")


def _write(done: Reproduction, out: Path) -> None:
    from cohabit.report.reproduction import render_page
    from cohabit.report.summary_file import write_summary
    from cohabit.report.tables import write_table
    from cohabit.reproduce.rows import contract
    from cohabit.whole_files import replacing

    document = done.document()
    write_summary(document, out / "rows.json")
    write_table(document["rows"], out / "rows.csv")
    pictures = [(one.title, one.figure, one.caption) for one in done.pictures]
    page = render_page(document, done.title, done.about, set(contract()), pictures)
    for name, content in {"report.html": page.encode("utf-8"), **done.files}.items():
        with replacing(out / name) as stream:
            stream.write(content)


def show(done: Reproduction, every: bool = False) -> None:
    """Print a sentence for each claim fixed beforehand and each row that does not hold; `every`: the table of all."""
    from cohabit.report.reproduction import judged, number, span

    if every:
        records = [
            {
                "row": one.id,
                "role": one.role,
                "paper": number(one.paper),
                "measured": number(one.measured),
                "95 % interval": span(one.ci_low, one.ci_high),
                "band": span(one.low, one.high),
                "holds": judged(one.holds),
            }
            for one in done.rows
        ]
        table_of(f"{done.paper}, seed {done.seed}", records)
    else:
        from cohabit.reproduce.rows import contract

        told = [one for one in done.rows if one.id in contract() or one.holds is False]
        for one in told:
            typer.echo(_sentence(one))
        if further := [one for one in done.rows if one not in told]:
            typer.echo(f"Further numbers, checks and inputs: {counted(further)}")
    typer.echo(counted(done.rows))
    typer.echo(f"calibration {done.calibration_hash}{'' if every else '; all rows with intervals and bands: --all'}")


def _sentence(row: Row) -> str:
    from cohabit.report.reproduction import number, span

    none = "no band" if _without_band(row) else "not judged"
    verdict = {True: "holds", False: "does not hold", None: none}[row.holds]
    beside = [] if row.paper is None else [f"{number(row.paper)} in the paper"]
    beside += [] if _without_band(row) else [f"band {span(row.low, row.high)}"]
    note = f" {row.note}" if row.note and row.holds is not True and not _without_band(row) else ""
    return f"{verdict} ({row.id}): {row.claim}: {', '.join([number(row.measured), *beside])}.{note}"


def counted(rows: Sequence[Row]) -> str:
    """Return how many rows hold, do not, have no band, and have one but no value; these are all of them."""
    holds, missed = (sum(one.holds is verdict for one in rows) for verdict in (True, False))
    free = sum(_without_band(one) for one in rows)
    left = len(rows) - holds - missed - free
    unjudged = f", {left} could not be judged" if left else ""
    return f"{len(rows)} rows: {holds} hold, {missed} do not, {free} have no band{unjudged}."


def _without_band(row: Row) -> bool:
    return row.low is None and row.high is None
