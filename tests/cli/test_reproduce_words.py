"""What `cohabit reproduce` prints: a sentence for each claim, all rows with --all, and counts that add up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cohabit.cli.reproduce import counted, show
from cohabit.reproduce.rows import Row


def row(name: str, holds: bool | None, paper: float | None = 2.0, measured: float | None = 2.5) -> Row:
    claim = f"The claim of {name}"
    band = (None, None) if holds is None and measured is not None else (1.0, 3.0)
    return Row(name, claim, paper, measured, 2.4, 2.6, 5, *band, "claim", holds, "Because of this.")


ROWS = [  # two of them are in the contract
    row("P13.gap_points", True), row("A", True), row("B", False), row("C", None, None), row("D", None),
    row("P14.synergy", None, None, None),
]  # fmt: skip


def test_counts_add_up() -> None:
    assert counted(ROWS) == "6 rows: 2 hold, 1 do not, 2 have no band, 1 could not be judged."
    assert counted(ROWS[:5]) == "5 rows: 2 hold, 1 do not, 2 have no band."


def test_a_sentence_per_claim_and_rows_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    done: Any = SimpleNamespace(rows=ROWS, paper="sns", seed=1, calibration_hash="abc")
    show(done)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "holds (P13.gap_points): The claim of P13.gap_points: 2.5, 2 in the paper, band 1 to 3.",
        "does not hold (B): The claim of B: 2.5, 2 in the paper, band 1 to 3. Because of this.",
        "not judged (P14.synergy): The claim of P14.synergy: -, band 1 to 3. Because of this.",
        "Further numbers, checks and inputs: 3 rows: 1 hold, 0 do not, 2 have no band.",
        counted(ROWS),
        "calibration abc; all rows with intervals and bands: --all",
    ]
    show(done, every=True)
    table = capsys.readouterr().out
    assert "95 % interval" in table
    assert "The claim of A" not in table
    assert counted(ROWS) in table
