"""`cohabit reproduce`: repeat a paper's experiments and show its numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cohabit.reproduce.papers import Reproduction

EXAMPLES = """\b
Examples:
  cohabit reproduce sns --quick
  cohabit reproduce shepherd --quick
  cohabit reproduce sns --seed 7 --out out/sns
  cohabit reproduce sns --quick --programs hidden --salt "only the reviewer knows" """


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="reproduce", short_help="A paper's experiments again, beside its numbers.", epilog=EXAMPLES)(
        reproduce
    )


def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="sns, shepherd, colocation, rush, coscheduling or all.")
    ],
    seed: Annotated[int, typer.Option(help="Where all chance comes from; 0 to 99 are for development.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Every row, fewer repeats, in under a minute.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write rows.json, rows.csv and report.html.")] = None,
    salt: Annotated[
        str | None, typer.Option(help="Evaluation seeds from this text; else COHABIT_EVALUATION_SALT.")
    ] = None,
    programs: Annotated[str, typer.Option(help="catalogue, or hidden: programs nobody has seen.")] = "catalogue",
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also vary every assumed parameter by half, up and down.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; all cores otherwise.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run the experiments of a paper and put its values beside the measured ones.

    The status is 0 whether or not a row holds: a row that does not is a result too, and its note says why.
    """
    from cohabit.app.simulate import outputs
    from cohabit.cli.console import note, progress, show_json
    from cohabit.model.errors import InputError
    from cohabit.reproduce.papers import Options, chosen
    from cohabit.reproduce.papers import reproduce as run
    from cohabit.reproduce.seeds import salt_from

    chosen(paper)
    if programs not in ("catalogue", "hidden"):
        raise InputError(f"there are no programs called {programs!r}", "--programs", "use catalogue or hidden")
    if seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "give a number from 0 up")
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} is not a positive number")
    if out is not None:
        outputs.check_folder(out)
    options = Options(seed, quick, salt_from(salt), programs, sensitivity, workers)
    if not as_json:
        note(
            "simulating ..." if quick else "simulating the paper's repeats: this takes a while (--quick is shorter) ..."
        )
    with progress("reproducing") as advance:
        done = run(paper, options, advance, draw=out is not None)
    if out is not None:
        _write(done, out)
    if as_json:
        show_json(done.document())
        return
    show(done)
    if out is not None:
        typer.echo(f"wrote {', '.join(['rows.json', 'rows.csv', 'report.html', *done.files])} to {out}")


def _write(done: Reproduction, out: Path) -> None:
    from cohabit.report.reproduction import write_page
    from cohabit.report.summary_file import write_summary
    from cohabit.report.tables import write_table
    from cohabit.reproduce.rows import contract
    from cohabit.whole_files import replacing

    document = done.document()
    write_summary(document, out / "rows.json")
    write_table(document["rows"], out / "rows.csv")
    pictures = [(one.title, one.figure, one.caption) for one in done.pictures]
    write_page(document, done.title, done.about, set(contract()), pictures, out / "report.html")
    for name, content in done.files.items():
        with replacing(out / name) as stream:
            stream.write(content)


def show(done: Reproduction) -> None:
    """Print the table."""
    from cohabit.cli.console import table
    from cohabit.report.reproduction import judged, number

    cells = [
        [
            one.id, one.role, number(one.paper), number(one.measured), _between(one.ci_low, one.ci_high),
            _between(one.low, one.high), judged(one.holds),
        ]
        for one in done.rows
    ]  # fmt: skip
    table(
        f"{done.paper}, seed {done.seed}", ["row", "role", "paper", "measured", "95 % interval", "band", "holds"], cells
    )
    missed = [one for one in done.rows if one.holds is False]
    typer.echo(f"{sum(one.holds is True for one in done.rows)} rows hold, {len(missed)} do not, of {len(done.rows)}.")
    for one in missed:
        typer.echo(f"  {one.id}: {one.claim}. {one.note}")
    typer.echo(f"calibration {done.calibration_hash}")


def _between(low: float | None, high: float | None) -> str:
    from cohabit.report.reproduction import span

    return span(low, high)
