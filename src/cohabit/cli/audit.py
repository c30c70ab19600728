"""`cohabit audit`: the changes that users requested, when, from where, and their results."""

from __future__ import annotations

from typing import Annotated

import typer

from cohabit.cli.console import show_json, table
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import moment, plain
from cohabit.cli.options import AsJson, Server, asking
from cohabit.model.errors import InputError


@verb("audit", "Changes that users requested; for operators.", "cohabit audit --limit 20")
def audit(
    limit: Annotated[int, Option(metavar="N", help="The newest, at most this many.")] = 50,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the latest changes that users requested, and all that was refused, the newest last."""
    if not 1 <= limit <= 10_000:
        raise InputError(f"--limit {limit} is out of range", "", "give 1 to 10000")
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
        table("", ["when", "user", "from", "wanted", "about", "result"], rows)
    else:
        typer.echo("no changes have been requested yet")


def _came_of(status: int, said: str) -> str:
    return "done" if status < 300 else f"refused: {said}"
