"""`cohabit token`: keys to the scheduler for users and programs on other machines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from cohabit.cli.server_options import AsJson, Server

EXAMPLES = """\b
Examples:
  cohabit token add --label laptop --expires 30d
  cohabit token add --user ann             (administrators)
  cohabit token list
  cohabit token rotate 3f9c11ab04de
  cohabit token revoke 3f9c11ab04de"""
CALLS = {
    "add": "add --label laptop --expires 30d", "list": "list", "rotate": "rotate 3f9c11ab04de --overlap 1h",
    "revoke": "revoke 3f9c11ab04de",
}  # fmt: skip
Token = Annotated[str, typer.Argument(metavar="ID", help="As `cohabit token list` shows it.")]


def register(app: typer.Typer) -> None:
    """Add the verb and what it can do."""
    verbs = typer.Typer(
        name="token", short_help="Keys for people on other machines.", epilog=EXAMPLES, no_args_is_help=True,
        rich_markup_mode=None, help="Add, list, rotate and revoke tokens (all with --json).",
    )  # fmt: skip
    known: dict[str, Callable[..., None]] = {"add": add, "list": list_, "rotate": rotate, "revoke": revoke}
    for name, function in known.items():
        verbs.command(name=name, epilog=f"\b\nExample:\n  cohabit token {CALLS[name]}")(function)
    app.add_typer(verbs)


def add(
    user: Annotated[str | None, typer.Option(metavar="NAME", help="For somebody else; administrators.")] = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    expires: Annotated[str, typer.Option(metavar="T", help="Good for so long.")] = "90d",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once: only its hash is kept."""
    from cohabit.cli.server_options import asking, duration_s

    wish: dict[str, Any] = {"label": label, "expires_in_s": duration_s("--expires", expires)}
    if user is not None:
        wish["user"] = user
    with asking(server) as client:
        _show_new(client.add_token(wish), as_json)


def list_(server: Server = None, as_json: AsJson = False) -> None:
    """List your tokens; administrators see everybody's."""
    from cohabit.cli.console import show_json, table
    from cohabit.cli.job_words import moment, plain
    from cohabit.cli.server_options import asking

    with asking(server) as client:
        document = client.tokens()
    if as_json:
        show_json(document)
        return
    if not document["tokens"]:
        typer.echo("no tokens; make one with `cohabit token add`")
        return
    rows = [
        [one["id"], one["user"], plain(one["label"]), moment(one["made_at"]), _standing(one)]
        for one in document["tokens"]
    ]
    table("", ["id", "user", "for", "made", "standing"], rows)


def rotate(
    token: Token,
    overlap: Annotated[str, typer.Option(metavar="T", help="The old one goes on for so long.")] = "1d",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a new token in place of this one, with the same end; the old one ends after a while.

    Revoking the old one would revoke the new one, too: end it at once with --overlap 0s.
    """
    from cohabit.cli.server_options import asking, duration_s

    overlap_s = duration_s("--overlap", overlap)
    with asking(server) as client:
        _show_new(client.rotate_token(_known(token), overlap_s), as_json)


def revoke(token: Token, server: Server = None, as_json: AsJson = False) -> None:
    """End a token at once, with all that was rotated from it or made with it."""
    from cohabit.cli.console import show_json
    from cohabit.cli.server_options import asking

    with asking(server) as client:
        gone = client.revoke_token(_known(token))
    if as_json:
        show_json(gone)
    else:
        typer.echo(f"token {gone['id']} of {gone['user']}: revoked")


def _show_new(made: dict[str, Any], as_json: bool) -> None:
    """Print the token alone on stdout, so that a script can read it."""
    from cohabit.cli.console import note, show_json
    from cohabit.cli.job_words import moment

    if as_json:
        show_json(made)
        return
    note(f"token {made['id']} of {made['user']}, good until {moment(made['expires_at'])}; it is shown only now")
    note("put it into COHABIT_TOKEN, or into ~/.config/cohabit/token for its owner alone")
    typer.echo(made["token"])


def _known(token: str) -> str:
    """Check the form of an ID; a text of any other form is no token's ID."""
    import re

    from cohabit.model.errors import InputError

    if not re.fullmatch("[0-9a-f]{1,40}", token):
        raise InputError("there is no such token", f"token {token}", "`cohabit token list` shows their IDs")
    return token


def _standing(one: dict[str, Any]) -> str:
    from cohabit.cli.job_words import moment

    if one["revoked_at"] is not None:
        return f"revoked {moment(one['revoked_at'])}"
    ended = one["expires_at"] <= time.time()
    return f"{'ended' if ended else 'good until'} {moment(one['expires_at'])}"
