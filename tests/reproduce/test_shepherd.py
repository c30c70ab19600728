"""Shepherd in small: the contract of the rows, worlds in which nothing may matter, hidden and measured programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.mix import Mix
from cohabit.report.reproduction import render_page
from cohabit.reproduce.papers import PAPERS, Options, Reproduction, reproduce
from cohabit.reproduce.plans import SHARED, shared_file
from cohabit.reproduce.rows import ROLES, contract
from cohabit.reproduce.shepherd import lab
from cohabit.reproduce.shepherd.lab import Case, run_mix, run_set, varied
from cohabit.reproduce.shepherd.plan import CURVES, Plan, Sizes
from cohabit.trace.shepherd_programs import (
    ANCHORS,
    SET_A,
    SET_C,
    catalogue_document,
    family_curve,
    hidden_suite,
    passes,
    read_measured_suite,
    suite_of,
    with_measured_costs,
)
from tests.public_data import pinned

TINY = Sizes(sets=1, mixes=2, other_sets=1, swaps=300, sensitivity_mixes=1, online_events=20, optima=1)
CATALOGUE = Path(__file__).resolve().parents[2] / "src" / "cohabit" / "trace" / "catalogues" / "shepherd20.json"
SCHEMES = ("baseline", "part-only", "place-only", "place-only-direct", "shepherd")
TIMES = ("P6.", "P20.large_s")  # rows that are speeds of this machine
LINES = "BENCH,NR_WAYS,ipc,llcmpki,llcrpki\n"


def tiny(**more: Any) -> Options:
    return Options(quick=True, workers=1, sizes=TINY, **{"shared": "/nowhere", **more})


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce("shepherd", tiny(seed=3), draw=True)


def test_the_document_keeps_the_contract(small: Reproduction) -> None:
    document = json.loads(json.dumps(small.document(), allow_nan=False))
    assert list(document) == ["paper", "seed", "calibration_hash", "rows"]
    found = {one["id"]: one for one in document["rows"]}
    for name, about in contract().items():
        if name.startswith(PAPERS["shepherd"]):
            one = found[name]
            assert (one["low"], one["high"], one["role"]) == (about.low, about.high, about.role)
            assert one["measured"] is not None
    assert {one["role"] for one in document["rows"]} == set(ROLES)
    assert not [one["id"] for one in document["rows"] if one["role"] == "calibrated" and one["holds"] is False]


def test_shortened_experiments_say_so(small: Reproduction) -> None:
    assert "2 instead of 8 mixes" in next(one.note for one in small.rows if one.id == "P13.shepherd_pct")


def test_without_measured_curves_their_rows_say_where_to_put_them(small: Reproduction) -> None:
    rows = [one for one in small.rows if "_real" in one.id]
    assert rows
    assert all(one.measured is None and SHARED in one.note and CURVES in one.note for one in rows)


def test_the_page_has_every_row_and_picture(small: Reproduction) -> None:
    pictures = [(one.title, one.figure, one.caption) for one in small.pictures]
    page = render_page(small.document(), small.title, small.about, set(contract()), pictures)
    assert all(one.id in page for one in small.rows)
    assert page.count('class="plot"') == len(pictures) == 6


@pytest.mark.wide
@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows(small: Reproduction) -> None:
    def values(found: Reproduction) -> dict[str, float | None]:
        return {one.id: one.measured for one in found.rows if not one.id.startswith(TIMES)}

    assert values(reproduce("shepherd", tiny(seed=3))) == values(small)
    assert values(reproduce("shepherd", tiny(seed=4))) != values(small)


@pytest.mark.wide
@pytest.mark.slow
def test_hidden_programs_and_a_salt() -> None:
    found = reproduce("shepherd", tiny(seed=4, programs="hidden", salt="nobody knows"), draw=True)
    by_name = {one.id: one for one in found.rows}
    assert "hidden programs" in by_name["P13.shepherd_pct"].note
    assert by_name["P13.gap_points"].measured is not None
    assert by_name["P13.gap_points"].measured > 0


def test_the_catalogue_is_that_of_the_specification() -> None:
    """Curves and parameters to the letter; surfaces, which follow from them, and pilot results are left out."""
    digest = "fcf7c89a7250b943cf96b22020ac80fbb4287723bdd73e3f274211fdc7d351aa"
    text = pinned(CATALOGUE, digest, "profiles-shepherd.json")
    ours, stated = catalogue_document(), json.loads(text or "{}")
    if not stated:
        return
    for key, value in ours.items():
        if key != "sets":
            assert value == stated[key]
    assert set(stated) - set(ours) == {"annealing_pilot", "pilot"}
    for name, programs in stated["sets"].items():
        assert list(ours["sets"][name]) == list(programs)
        for program, one in ours["sets"][name].items():
            assert one == {key: programs[program][key] for key in one}
            assert "mpki_by_bucket" in one


@pytest.mark.parametrize("name", [SET_A, SET_C, "B", "D", "E", "G"])
def test_programs_of_the_catalogue(name: str) -> None:
    suite = suite_of(name)
    assert len(suite) == 20
    assert (suite.buckets, suite.cores_per_node, suite.bandwidth_cap_gbs) == (32, 8, 25.0)
    assert all(passes(curve) for curve in suite.mpki)
    for curve, (program, one) in zip(suite.mpki, _parameters(name).items(), strict=True):
        assert curve == pytest.approx(family_curve(one, np.linspace(0, 12, 33)), abs=0.01), program


def _parameters(name: str) -> dict[str, Any]:
    document = catalogue_document()
    found: dict[str, Any] = document["sets"].get(name) or document["sensitivity_sets_params_only"][name]
    return found


def test_measured_costs_replace_those_that_were_raised() -> None:
    suite = suite_of(SET_A)
    measured = with_measured_costs(suite)
    changed = {name for name, a, b in zip(suite.names, suite.cycles_per_miss, measured.cycles_per_miss, strict=True)
               if a != b}  # fmt: skip
    assert changed == set(ANCHORS)
    assert measured.cycles_per_miss[measured.names.index("lbm")] == 0.4


def test_hidden_programs_follow_their_priors() -> None:
    rng = np.random.default_rng(1)
    suites = [hidden_suite(rng) for _ in range(20)]
    for suite in suites:
        assert all(passes(curve) for curve in suite.mpki)
        assert (np.diff(suite.mpki, axis=1) <= 1e-12).all(), "more cache, fewer misses"
        assert (suite.mpki[:, 0] <= 80).all()
        assert ((suite.cpi0 >= 0.4) & (suite.cpi0 <= 1.2)).all()
        assert ((suite.cycles_per_miss >= 10) & (suite.cycles_per_miss <= 70)).all()
    assert len({suite.mpki.tobytes() for suite in suites}) == 20


def mix_of(case: Case, seed: int, suite: Mix | None = None) -> dict[str, Any]:
    own = case.suite(0) if suite is None else suite
    return run_mix(case, own, np.random.default_rng(seed), 800, ("direct",))


def test_names_of_programs_do_not_matter() -> None:
    suite = suite_of(SET_C)
    renamed = replace(suite, names=tuple(f"x{number}" for number in range(20)))
    plain, other = mix_of(Case(), 1), mix_of(Case(), 1, renamed)
    assert [plain[name] for name in SCHEMES] == [other[name] for name in SCHEMES]


def test_a_clock_and_a_memory_twice_as_fast_change_nothing() -> None:
    suite = suite_of(SET_C)
    fast = replace(suite, freq_ghz=2 * suite.freq_ghz, bandwidth_cap_gbs=2 * suite.bandwidth_cap_gbs)
    plain, other = mix_of(Case(), 2), mix_of(Case(), 2, fast)
    assert [plain[name] for name in SCHEMES] == pytest.approx([other[name] for name in SCHEMES], rel=1e-9)


def test_without_contention_all_schemes_are_equal() -> None:
    """Misses that cost nothing: no cache and no placement can gain anything."""
    free = varied(suite_of(SET_C), "cost per miss", 0.0)
    found = mix_of(Case(), 3, free)
    assert [found[name] for name in SCHEMES] == pytest.approx([64.0] * 5)


def test_the_order_of_the_schemes() -> None:
    for found in run_set(Case(SET_A), 5, 0, 2, 2000, ("ways", "growth", "benefit", "plain")):
        assert found["shepherd"] > found["part-only"] > found["baseline"]
        assert found["ways shepherd"] > found["baseline"]
        assert found["growth baseline"] == pytest.approx(found["baseline"], rel=0.05)
        assert found["uncharged"] <= found["part-only"] * (1 + 1e-3)
        assert found["separation"] > 0


@pytest.mark.parametrize("name", ["cost per miss", "cpi without misses", "bandwidth", "misses", "working sets"])
def test_factors_change_only_what_they_name(name: str) -> None:
    suite = suite_of(SET_C)
    field = {"cost per miss": "cycles_per_miss", "cpi without misses": "cpi0", "bandwidth": "bandwidth_cap_gbs"}
    changed = {one for one in ("cycles_per_miss", "cpi0", "bandwidth_cap_gbs", "mpki")
               if not np.array_equal(getattr(varied(suite, name, 1.5), one), getattr(suite, one))}  # fmt: skip
    assert changed == {field.get(name, "mpki")}
    assert varied(suite, name, 1.0).mpki == pytest.approx(suite.mpki)


def test_measured_curves(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    steep = [(1, 0.5, 20.0), (2, 0.625, 12.0), (3, 0.78125, 5.6)]  # CPI = 1 + 0.05 x misses
    flat = [(1, 0.8, 3.0), (2, 0.8, 3.0), (3, 0.8, 3.0)]
    rows = [f"steep,{ways},{ipc},{misses},25.0" for ways, ipc, misses in steep]
    rows += [f"flat,{ways},{ipc},{misses},5.0" for ways, ipc, misses in flat]
    path.write_text(LINES + "\n".join(rows) + "\n")
    suite = read_measured_suite(path)
    assert suite.names == ("steep",), "flat fails the selection rule"
    assert suite.mpki.tolist() == [[25.0, 20.0, 12.0, 5.6]]
    assert suite.cycles_per_miss == pytest.approx([50.0])
    assert suite.cpi0 == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "line 2: is not a line of measured curves"),
        (LINES + "x,1,fast,2,3\n", "line 2"),
        (LINES + "x,1,1,2,3\nx,3,1,2,3\n", "every number of ways"),
        (LINES, "every number of ways"),
    ],
)
def test_wrong_measured_curves(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "curves.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_measured_suite(path)


def test_shared_files_are_found_where_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_text("1")
    monkeypatch.setenv(SHARED, str(tmp_path))
    assert shared_file("data/x.csv") == tmp_path / "data" / "x.csv"
    assert shared_file("data/y.csv") is None
    assert shared_file("data/x.csv", "/nowhere") is None


def test_clusters_keep_most_of_the_gain_on_measured_curves() -> None:
    case = Plan(Options(shared=str(Path(__file__).parents[1]))).cases["real"]
    assert isinstance(case.limits, type(lab.REAL_WAYS))
    mixes = run_set(case, 1, 0, 2, 2000, ("ways",))
    fine = sum(one["shepherd"] - one["baseline"] for one in mixes)
    assert sum(one["ways shepherd"] - one["baseline"] for one in mixes) > 0.7 * fine > 0
