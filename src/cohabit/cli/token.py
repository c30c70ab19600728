"""`cohabit token`: keys to the scheduler for users and programs on other machines."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, show_json, show_result, table
from cohabit.cli.declaring import Argument, Option, add_group, verb
from cohabit.cli.job_words import moment, plain
from cohabit.cli.options import AsJson, Server, asking, duration_s
from cohabit.model.errors import InputError

Token = Annotated[str, Argument("ID", "As `cohabit token list` shows it.")]


def register(app: typer.Typer) -> None:
    """Add the verb and what it can do."""
    add_group(
        app,
        "token",
        "Keys for users on other machines.",
        "Add, list, rotate and revoke tokens (all with --json).",
        "cohabit token add --label laptop --expires 30d",
        "cohabit token add --user ann             (administrators)",
        "cohabit token list",
        "cohabit token rotate 3f9c11ab04de",
        "cohabit token revoke 3f9c11ab04de",
        verbs=(add, list_, rotate, revoke),
    )


@verb("add", "", "cohabit token add --label laptop --expires 30d")
def add(
    user: Annotated[str | None, Option(metavar="NAME", help="For another user; administrators.")] = None,
    label: Annotated[str, Option(metavar="TEXT", help="A label.")] = "",
    expires: Annotated[str, Option(metavar="T", help="Time until it expires.")] = "90d",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once: only its hash is kept."""
    wish: dict[str, Any] = {"label": label, "expires_in_s": duration_s("--expires", expires)}
    if user is not None:
        wish["user"] = user
    with asking(server) as client:
        _show_new(client.add_token(wish), as_json)


@verb("list", "", "cohabit token list")
def list_(server: Server = None, as_json: AsJson = False) -> None:
    """List your tokens; administrators see those of all users."""
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


@verb("rotate", "", "cohabit token rotate 3f9c11ab04de --overlap 1h")
def rotate(
    token: Token,
    overlap: Annotated[str, Option(metavar="T", help="The old one stays valid for this time.")] = "1d",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a new token in place of this one, with the same end; the old one ends after a while.

    Revoking the old one would revoke the new one, too: end it at once with --overlap 0s.
    """
    overlap_s = duration_s("--overlap", overlap)
    with asking(server) as client:
        _show_new(client.rotate_token(_known(token), overlap_s), as_json)


@verb("revoke", "", "cohabit token revoke 3f9c11ab04de")
def revoke(token: Token, server: Server = None, as_json: AsJson = False) -> None:
    """End a token at once, with all that was rotated from it or made with it."""
    with asking(server) as client:
        gone = client.revoke_token(_known(token))
    show_result(gone, as_json, f"token {gone['id']} of {gone['user']}: revoked")


def _show_new(made: dict[str, Any], as_json: bool) -> None:
    """Print the token alone on stdout, so that a script can read it."""
    if as_json:
        show_json(made)
        return
    note(f"token {made['id']} of {made['user']}, good until {moment(made['expires_at'])}; it is shown only now")
    note("put it into COHABIT_TOKEN, or into ~/.config/cohabit/token for its owner alone")
    typer.echo(made["token"])


def _known(token: str) -> str:
    """Check the form of an ID; a text of any other form is no token's ID."""
    import re

    if not re.fullmatch("[0-9a-f]{1,40}", token):
        raise InputError("there is no such token", f"token {token}", "`cohabit token list` shows their IDs")
    return token


def _standing(one: dict[str, Any]) -> str:
    if one["revoked_at"] is not None:
        return f"revoked {moment(one['revoked_at'])}"
    ended = one["expires_at"] <= time.time()
    return f"{'ended' if ended else 'good until'} {moment(one['expires_at'])}"
