"""`cohabit audit`: the changes that users requested, when, from where, and their results."""

from __future__ import annotations

from typing import Annotated

import typer

from cohabit.cli.server_options import AsJson, Server

EXAMPLE = "\b\nExample:\n  cohabit audit --limit 20"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="audit", short_help="Who did what; for operators.", epilog=EXAMPLE)(audit)


def audit(
    limit: Annotated[int, typer.Option(metavar="N", help="At most so many, the newest.")] = 50,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the latest changes somebody asked for, and all that was refused, the newest last."""
    from cohabit.cli.console import show_json, table
    from cohabit.cli.job_words import moment, plain
    from cohabit.cli.server_options import asking
    from cohabit.model.errors import InputError

    if not 1 <= limit <= 10_000:
        raise InputError(f"--limit {limit} cannot be", "", "give 1 to 10000")
    with asking(server) as client:
        document = client.audit(limit)
    if as_json:
        show_json(document)
        return
    rows = []
    for one in reversed(document["entries"]):
        told = (one["user"], one["from"], one["action"], one["about"], _came_of(one["status"], one["said"]))
        rows.append([moment(one["at"]), *(plain(text) for text in told)])
    if rows:
        table("", ["when", "user", "from", "wanted", "about", "came of it"], rows)
    else:
        typer.echo("nobody has changed anything yet")


def _came_of(status: int, said: str) -> str:
    return "done" if status < 300 else f"refused: {said}"
