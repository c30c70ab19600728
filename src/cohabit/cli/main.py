"""The `cohabit` command: every verb registered, errors shown as one sentence, exit status 0, 1 or 2."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import NoReturn

import typer

from cohabit.cli import (
    advise,
    audit,
    backup,
    compare,
    controller,
    demo,
    doctor,
    exercise,
    generate,
    gridengine,
    import_log,
    interrupts,
    jobs,
    logs,
    match,
    measure,
    node,
    nodes,
    page,
    partition,
    place,
    policies,
    predict,
    profile,
    profiles,
    queue,
    replay,
    report,
    reproduce,
    simulate,
    slurm,
    submit,
    sweep,
    telemetry,
    token,
    top,
    train,
    up,
    view,
    wait,
    warm_up,
    why,
)
from cohabit.cli.sections import Sections, section
from cohabit.model.errors import InputError
from cohabit.version import __version__

INTERRUPTED = interrupts.STATUS
app = typer.Typer(
    name="cohabit",
    cls=Sections,
    help="A resource-aware job scheduler: replay your own log, watch in shadow mode, then switch on.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: half the start-up time
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cohabit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Options of the command itself."""


SECTIONS = {
    "Simulating": (simulate, compare, sweep, generate, import_log, policies, why, view, replay, reproduce, advise),
    "Optimising": (partition, place, match),
    "Learning": (train, predict, measure, exercise, profile, profiles, telemetry),
    "Living": (up, submit, queue, jobs, logs, wait, nodes, page, top, report, token, audit, backup, controller, slurm,
               gridengine, node),
    "This machine": (demo, doctor, warm_up),
}  # fmt: skip
for title, verbs in SECTIONS.items():
    for verb in verbs:
        verb.register(section(title))


def run() -> None:
    """Entry point."""
    gc.set_threshold(200_000, 20, 20)  # start-up makes many objects that live on; collecting them costs a tenth of it
    atexit.register(gc.freeze)  # nor are they looked through when all is over, which takes a quarter of a second
    try:
        code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        _leave("stopped; nothing was kept", INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if _was_interrupted(error):
            _leave("stopped; nothing was kept", INTERRUPTED)
        if isinstance(error, InputError):
            _leave(str(error), 2)
        if isinstance(error, ModuleNotFoundError) and error.name == "polars":  # `make demo` does without it
            _leave("this needs the package polars, which is not installed; type make setup, or pip install polars", 2)
        explain = getattr(error, "format_message", None)  # click's own words about a call it does not understand
        if explain is None:
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "cohabit"
        _leave(f"{explain().rstrip('.')} (see `{command} --help`)", 2)
    if code == INTERRUPTED:  # typer swallows Ctrl-C where the verb does not handle it
        _leave("stopped; nothing was kept", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C began it: a library may turn the interruption into an error of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None or interrupts.seen()


def _leave(sentence: str, code: int) -> NoReturn:
    interrupts.at_the_end()  # the sentence is said whole
    typer.echo(f"cohabit: {sentence}", err=True)
    sys.exit(code)
