"""Seeds of experiments: development seeds as they are given, evaluation seeds from a salt only the reviewer holds.

Numbers 0 to 99 are for development. With a salt (--salt or COHABIT_EVALUATION_SALT) every experiment has a seed that
was unknown before: hash(salt, experiment, seed).
"""

from __future__ import annotations

import hashlib
import os

DEVELOPMENT = range(100)
SALT_VARIABLE = "COHABIT_EVALUATION_SALT"
_BYTES = 6  # stays well inside every integer type on the way


def salt_from(option: str | None) -> str:
    """The salt that was given, else the one of the environment, else none."""
    return option if option is not None else os.environ.get(SALT_VARIABLE, "")


def experiment_seed(seed: int, salt: str, experiment: str) -> int:
    """The seed of one experiment."""
    if not salt:
        return seed
    text = f"{salt}\0{experiment}\0{seed}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=_BYTES).digest(), "big")
