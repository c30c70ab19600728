"""`cohabit gridengine ...` as a process to be killed: -m tests.backend.gridengine.attach gridengine attach SITE."""

from __future__ import annotations

import typer

from cohabit.cli import gridengine

app = typer.Typer()
gridengine.register(app)


@app.callback()
def main() -> None:
    """Only so that the verbs keep their names."""


if __name__ == "__main__":
    app()
