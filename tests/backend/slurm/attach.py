"""`cohabit slurm ...` as a process to be killed: python -m tests.backend.slurm.attach slurm attach SITE.toml."""

from __future__ import annotations

import typer

from cohabit.cli import slurm

app = typer.Typer()
slurm.register(app)


@app.callback()
def main() -> None:
    """Only so that the verbs keep their names."""


if __name__ == "__main__":
    app()
