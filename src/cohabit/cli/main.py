"""The `cohabit` command: every verb registered, errors shown as one sentence, exit status 0, 1 or 2."""

from __future__ import annotations

import atexit
import gc
from importlib import import_module

import typer

from cohabit.cli import ending
from cohabit.cli.sections import Sections, add_module
from cohabit.model.errors import InputError
from cohabit.version import __version__

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


SECTIONS = {  # title in the help: modules in the order of their verbs
    "Simulating": "simulate compare sweep generate import_log policies why view replay reproduce advise",
    "Optimising": "partition place match",
    "Learning": "train predict measure exercise profile profiles telemetry",
    "Live": "up submit queue jobs logs wait nodes coscheduling page top report token audit backup prune serve "
    "slurm gridengine node",
    "This machine": "demo doctor",
}
for title, modules in SECTIONS.items():
    for module in modules.split():
        add_module(title, import_module(f"cohabit.cli.{module}"))


def run() -> None:
    """Run the whole command for any verb, as the entry point does where the light form (light.py) is not enough."""
    ending.finish(whole)


def whole() -> object:
    """Run the command line; return its status if it is not 0."""
    gc.set_threshold(200_000, 20, 20)  # start-up makes many long-lived objects; collecting them costs a tenth of it
    atexit.register(gc.freeze)  # nor are they scanned at exit, which takes a quarter of a second
    try:
        return app(standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "polars":  # `make demo` does without it
            fix = "type make setup, or pip install polars"
            raise InputError("the package polars is not installed", "this command needs it", fix) from error
        explain = getattr(error, "format_message", None)  # click's own message about a call it does not understand
        if explain is None:
            raise
        context = getattr(error, "ctx", None)
        if context is not None and type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(context.get_help())
            return 2  # as always: nothing was done
        command = context.command_path if context is not None else "cohabit"
        ending.leave(f"{explain().rstrip('.')} (see `{command} --help`)", 2)
