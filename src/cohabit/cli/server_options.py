"""The common options of verbs that query a running scheduler: how to find it, and what happens if it is absent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cohabit.cli.declaring import Argument, Option

if TYPE_CHECKING:
    from cohabit.app.client.client import Client

Server = Annotated[
    str | None,
    Option(metavar="ADDRESS", help="Socket, folder or https URL; else COHABIT_SERVER, else `cohabit up`'s."),
]
AsRoot = Annotated[
    bool, Option("--as-root", help="As root: the controller keeps root's rights. A hole in it gives root away.")
]
AsJson = Annotated[bool, Option("--json", help="One JSON document on stdout.")]
Jobs = Annotated[list[str], Argument("JOB...", "Their numbers or names.", jobs=True)]
OneJob = Annotated[str, Argument("JOB", "Its number or name.", jobs=True)]


@contextmanager
def asking(server: str | None) -> Iterator[Client]:
    """Yield a scheduler to query. If it goes away or is too busy, the verb ends with one sentence and status 1."""
    from cohabit.app.client.client import connect
    from cohabit.app.client.connection import Unavailable
    from cohabit.cli.console import note

    try:
        yield connect(server)
    except Unavailable as error:
        note(str(error))
        raise SystemExit(1) from error


def duration_s(option: str, text: str) -> float:
    """Parse a user's duration to seconds."""
    from cohabit.model.errors import InputError
    from cohabit.model.units import SECOND, parse_duration

    try:
        return parse_duration(text) / SECOND
    except ValueError as error:
        raise InputError(str(error), option) from None
