"""The `cohabit` command: every verb registered, errors shown as one sentence, exit status 0, 1 or 2."""

from __future__ import annotations

import gc
import sys

import typer

from cohabit import __version__
from cohabit.cli import (
    compare,
    demo,
    doctor,
    generate,
    import_log,
    policies,
    replay,
    simulate,
    sweep,
    view,
    warm_up,
    why,
)
from cohabit.model.errors import InputError

app = typer.Typer(
    name="cohabit",
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


for verb in (simulate, compare, sweep, generate, import_log, policies, why, view, replay, demo, doctor, warm_up):
    verb.register(app)


def run() -> None:
    """Entry point."""
    gc.set_threshold(200_000, 20, 20)  # start-up makes many objects that live on; collecting them costs a tenth of it
    try:
        app(standalone_mode=False)
    except InputError as error:
        typer.echo(f"cohabit: {error}", err=True)
        sys.exit(2)
    except typer.Exit as leave:
        sys.exit(leave.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("cohabit: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:  # click's own usage errors know how to show themselves
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        sys.exit(getattr(error, "exit_code", 2))
