"""What `cohabit reproduce` prints: one sentence per claim, the rows with --all, and counts that add up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cohabit.cli.reproduce import counted, show
from cohabit.reproduce.rows import Row


def row(name: str, holds: bool | None, paper: float | None = 2.0) -> Row:
    claim = f"The claim of {name}"
    band = (None, None) if holds is None else (1.0, 3.0)
    return Row(name, claim, paper, 2.5, 2.4, 2.6, 5, *band, "claim", holds, "Because of this.")


ROWS = [row("A", True), row("B", False), row("C", None, None), row("D", None)]


def test_counts_add_up() -> None:
    assert counted(ROWS) == "4 rows: 1 hold, 1 do not, 2 have no band."


def test_a_sentence_per_claim_and_rows_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    done: Any = SimpleNamespace(rows=ROWS, paper="sns", seed=1, calibration_hash="abc")
    show(done)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "holds (A): The claim of A: 2.5, 2 in the paper."
    assert said[1] == "does not hold (B): The claim of B: 2.5, 2 in the paper. Because of this."
    assert said[2] == "no band (C): The claim of C: 2.5."
    assert said[4:] == [counted(ROWS), "calibration abc; all rows with intervals and bands: --all"]
    show(done, every=True)
    table = capsys.readouterr().out
    assert "95 % interval" in table
    assert "The claim of A" not in table
    assert counted(ROWS) in table
