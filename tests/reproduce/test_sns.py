"""Spread-n-Share in small: the contract of the rows, the page, and the same again from the same seed."""

from __future__ import annotations

import json

import pytest
from tiny_runs import tiny

from cohabit.report.reproduction import render_page
from cohabit.reproduce.papers import PAPERS, Reproduction, reproduce
from cohabit.reproduce.rows import ROLES, contract
from cohabit.reproduce.sns.lab import Bench
from cohabit.sim.machine.constants import calibration_hash

KEYS = ["id", "claim", "paper", "measured", "ci_low", "ci_high", "n_seeds", "low", "high", "role", "holds", "note"]
NUMBERS = ("paper", "measured", "ci_low", "ci_high", "low", "high")


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce("sns", tiny(seed=3), draw=True)


def test_the_document_keeps_the_contract(small: Reproduction) -> None:
    document = json.loads(json.dumps(small.document(), allow_nan=False))
    assert list(document) == ["paper", "seed", "calibration_hash", "rows"]
    assert document["paper"] == "sns"
    for one in document["rows"]:
        assert list(one) == KEYS
        assert all(one[key] is None or isinstance(one[key], int | float) for key in NUMBERS), one
        assert one["role"] in ROLES
        assert one["holds"] in (True, False, None)
        assert isinstance(one["note"], str)


def test_every_row_of_the_contract_is_there_with_its_band(small: Reproduction) -> None:
    found = {one.id: one for one in small.rows}
    for name, about in contract().items():
        if name.startswith(PAPERS["sns"]):
            assert (found[name].low, found[name].high, found[name].role) == (about.low, about.high, about.role)


def test_what_was_put_in_is_what_the_paper_says(small: Reproduction) -> None:
    wrong = [one.id for one in small.rows if one.role == "calibrated" and one.holds is False]
    assert not wrong


def test_without_the_trace_its_rows_say_where_to_put_it(small: Reproduction) -> None:
    for one in small.rows:
        if one.id.startswith("S62."):
            assert one.measured is None
            assert "COHABIT_SHARED" in one.note


def test_shortened_experiments_say_so(small: Reproduction) -> None:
    assert "instead of 36" in next(one.note for one in small.rows if one.id == "S54.sns_gain_pct")


def test_results_carry_the_calibration(small: Reproduction) -> None:
    assert small.calibration_hash == calibration_hash(Bench().programs.values())


@pytest.mark.wide
@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows(small: Reproduction) -> None:
    again, other = reproduce("sns", tiny(seed=3)), reproduce("sns", tiny(seed=2))
    assert again.document() == small.document()
    assert [one.measured for one in other.rows] != [one.measured for one in small.rows]


def test_the_page_has_every_row_and_is_whole(small: Reproduction) -> None:
    pictures = [(one.title, one.figure, one.caption) for one in small.pictures]
    page = render_page(small.document(), small.title, small.about, set(contract()), pictures)
    assert all(one.id in page for one in small.rows)
    assert page.count('class="plot"') == len(pictures) >= 12
    assert 'http-equiv="Content-Security-Policy"' in page


@pytest.mark.wide
@pytest.mark.slow
def test_hidden_programs_run_without_error() -> None:
    found = reproduce("sns", tiny(seed=4, programs="hidden", salt="nobody knows"), draw=True)
    by_name = {one.id: one for one in found.rows}
    assert by_name["S54.sns_gain_pct"].measured is not None
    assert by_name["S50.mg_gain_pct"].measured is None
    assert found.calibration_hash != calibration_hash(Bench().programs.values())


@pytest.mark.wide
@pytest.mark.slow
def test_sensitivity_adds_its_rows() -> None:
    found = reproduce("sns", tiny(seed=4, sensitivity=True))
    names = [one.id for one in found.rows if one.id.startswith("S-sensitivity.")]
    assert len(names) == 20
