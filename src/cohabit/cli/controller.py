"""`cohabit controller`: the daemon for a cluster, from a site file. Its earlier name, `serve`, is understood too."""

from __future__ import annotations

import typer

from cohabit.cli.serve import peer_key, serve


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    example = "\b\nExamples:\n  cohabit controller site.toml\n  cohabit controller site.toml --until-idle"
    app.command(name="controller", short_help="Serve a site file: the daemon, for a cluster.", epilog=example)(serve)
    example = "\b\nExample:\n  cohabit serve site.toml --until-idle"
    app.command(name="serve", hidden=True, epilog=example)(serve)
    example = "\b\nExample:\n  cohabit peer-key pair.key"
    app.command(name="peer-key", short_help="Make a key for two domains to share.", epilog=example)(peer_key)
