"""`python -m cohabit.cli` is the `cohabit` command."""

from cohabit.cli.main import run

run()
