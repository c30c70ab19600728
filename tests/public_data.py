"""Public logs and curves: slices of them (tests/data), and the whole files where they lie beside the checkout.

Tables of the specification, which is not part of the project either, are pinned by their digest: a table that was
compared with the specification once cannot change unnoticed where the specification is absent.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

SLICES = Path(__file__).resolve().parent / "data"
SPECIFICATION = Path(__file__).resolve().parents[2] / "shared" / "spec"
WHOLE = Path(__file__).resolve().parents[2] / "shared" / "data"


def whole(name: str) -> list[Path]:
    """The whole file; empty where it is not there."""
    return [WHOLE / name] if (WHOLE / name).is_file() else []


def pinned(ours: Path, digest: str, name: str) -> str:
    """The specification's text where it is there, else "": then the digest of our table is what is checked."""
    assert sha256(ours.read_bytes()).hexdigest() == digest, f"{ours.name} was changed: compare it with {name}"
    stated = SPECIFICATION / name
    return stated.read_text(encoding="utf-8") if stated.is_file() else ""
