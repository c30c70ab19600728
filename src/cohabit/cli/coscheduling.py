"""`cohabit coscheduling`: how this controller treats jobs with mates in other domains; show it and change it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cohabit.cli.console import echo, show_json, table_of
from cohabit.cli.declaring import Option, add_group, verb
from cohabit.cli.options import AsJson, Server, asking
from cohabit.model.errors import InputError

OneJob = Annotated[str, Option("--job", metavar="JOB", help="For this job only.")]
_WORDS = {
    "scheme": "while mates are not ready",
    "release_s": "held nodes are released every",
    "min_hold_s": "but not before",
    "max_held": "of all nodes at most held",
    "max_yields": "yields after which a job holds",
    "raise_per_yield": "score added per yield",
    "bounded_hold_s": "hold only if mates come within",
    "on_deadlock": "on a deadlock",
}


def register(app: typer.Typer) -> None:
    """Add the verb and what it can do."""
    add_group(
        app,
        "coscheduling",
        "Jobs with mates in other domains.",
        "Show and change what happens to a job whose mates are not ready. A controller sets only itself.",
        "cohabit coscheduling show",
        "cohabit coscheduling set --scheme yield",
        "cohabit coscheduling set --off                 (above a third of paired jobs, as the paper advises)",
        "cohabit coscheduling set --off --job left      (this job starts without its mates)",
        verbs=(show, set_),
    )


@verb("show", "", "cohabit coscheduling show", "cohabit coscheduling show --job left")
def show(job: OneJob = "", server: Server = None, as_json: AsJson = False) -> None:
    """Show the scheme in use, and the groups that wait for each other's nodes, if any."""
    with asking(server) as client:
        _print(client.coscheduling(job), as_json)


@verb("set", "", "cohabit coscheduling set --scheme hold --release-s 600", "cohabit coscheduling set --on")
def set_(
    on: Annotated[bool, Option("--on", help="Start jobs together with their mates.")] = False,
    off: Annotated[bool, Option("--off", help="Start jobs as if they had no mates.")] = False,
    scheme: Annotated[str | None, Option("--scheme", metavar="NAME", help="hold, yield or agree.")] = None,
    release_s: Annotated[float | None, Option("--release-s", help="Release held nodes this often; 0: never.")] = None,
    min_hold_s: Annotated[float | None, Option("--min-hold-s", help="Do not release holds younger than this.")] = None,
    max_held: Annotated[float | None, Option("--max-held", help="Share of all nodes that may be held.")] = None,
    max_yields: Annotated[
        int | None, Option("--max-yields", help="Yields after which a job holds; 0: it always yields.")
    ] = None,
    on_deadlock: Annotated[
        str | None, Option("--on-deadlock", metavar="WORD", help="release, report or ignore.")
    ] = None,
    job: OneJob = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change the scheme from now on; operators. Jobs that the new scheme would not hold give their nodes back."""
    if on and off:
        raise InputError("--on and --off exclude each other", "coscheduling set", "give one of them")
    wanted: dict[str, Any] = {
        "enabled": True if on else False if off else None,
        "scheme": scheme,
        "release_s": release_s,
        "min_hold_s": min_hold_s,
        "max_held": max_held,
        "max_yields": max_yields,
        "on_deadlock": on_deadlock,
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if not wanted:
        raise InputError("nothing to change", "coscheduling set", "give --off, --on, --scheme or another option")
    with asking(server) as client:
        _print(client.set_coscheduling(wanted, job), as_json)


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    about = f"job {found['job']}" if found["job"] else f"domain {found['domain']}"
    echo(f"{about}: jobs start {'together with' if found['enabled'] else 'without'} their mates")
    if found["enabled"]:
        table_of("", [{"": words, "value": _value(name, found[name])} for name, words in _WORDS.items()])
    if found["deadlock"]:
        echo(f"deadlock: {found['deadlock']}")


def _value(name: str, value: Any) -> str:
    if name == "release_s" and not value:
        return "never"
    return f"{value:g} s" if name.endswith("_s") else f"{value:g}" if isinstance(value, float) else str(value)
