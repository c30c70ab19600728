"""`python -m cohabit.cli` is the `cohabit` command."""

from cohabit.cli.start import run

run()
