"""`cohabit page`: the page of a running scheduler in the browser."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cohabit.cli.console import note, show_json
from cohabit.cli.declaring import Option, verb
from cohabit.cli.options import AsJson, Server, asking


@verb("page", "The scheduler in your browser.", "cohabit page", "cohabit page --open")
def page(
    browser: Annotated[bool, Option("--open", help="Also open the browser here.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Print a link to the page that opens once, within two minutes, as you.

    Where the scheduler is on another machine, its page is at its own address and asks for your token.
    """
    with asking(server) as client:
        elsewhere: dict[str, Any] = {"url": f"{client.address}/", "good_for_s": None}
        made = client.page_link() if client.is_here else elsewhere
    if as_json:
        show_json(made)
        return
    typer.echo(made["url"])
    if browser and not open_privately(made["url"]):
        note("no browser here; open the link yourself")
    if made["good_for_s"] is None:
        note("the page asks for your token")


def open_privately(link: str) -> bool:
    """Open a link with a key in it through a file only we can read: all users can see a command's arguments."""
    import html
    import os
    import tempfile
    import threading
    import webbrowser
    from pathlib import Path

    descriptor, name = tempfile.mkstemp(suffix=".html", prefix="cohabit-")
    with os.fdopen(descriptor, "w") as file:
        safe = html.escape(link, quote=True)
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={safe}"><a href="{safe}">the page</a>')
    opened = webbrowser.open(Path(name).as_uri())
    if not opened:
        Path(name).unlink(missing_ok=True)
        return False
    forget = threading.Timer(20.0, lambda: Path(name).unlink(missing_ok=True))
    forget.start()
    return True
