"""Tests, as a package: `python -m tests.campaign` and `from tests.reference...` work from the checkout."""
