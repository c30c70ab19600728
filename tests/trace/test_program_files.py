"""programs.json and measured curves: what is read, what is tolerated, and every refusal naming program and point."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.model.curve import Curve
from cohabit.model.errors import InputError
from cohabit.trace.cache_curves import parse_curves
from cohabit.trace.programs import check_ways, parse_programs, read_curves, read_programs
from tests.breadth import examples

CURVES = Path(__file__).resolve().parents[1] / "data" / "cache-ways" / "pbbcache_metrics.csv"
ONE: dict[str, Any] = {
    "class": "scaling", "single_node_only": False, "ce_time_16p_s": 97, "ipc_llc_rel": {"2": 0.86, "20": 1},
    "bw_llc_gbs": {"2": 109, "20": 112.0}, "speedup_by_scale": {"1": 1, "2": 1.22}, "memory_bound_fraction_mu": 0.95,
}  # fmt: skip


def text_of(called: str = "MG", /, **changes: Any) -> str:
    return json.dumps({"programs": {called: {key: value for key, value in (ONE | changes).items() if value != "gone"}}})


def test_the_smallest_program() -> None:
    programs = parse_programs(text_of(), "p.json")
    one = programs["MG"]
    assert (one.name, one.ce_time_s, one.mu, one.processes, one.speedup) == ("MG", 97.0, 0.95, 16, {1: 1.0, 2: 1.22})
    assert one.ipc == Curve((2, 20), (0.86, 1.0))
    assert one.scales == (1, 2)
    assert (programs.warning, programs.machine) == ("", None)


def test_unknown_fields_are_ignored_and_known_ones_kept() -> None:
    data = text_of(
        colour="blue", name="NPB MultiGrid", framework="MPI", ipc_full_abs=0.75, provenance={"t": "D"}, processes=32,
        counters={"misses": 2}, communication=0.05, miss_rate={"20": 1, "2": 9}, bound_resource=None,
        per_scale={"2": {"nodes": 2, "exclusive_time_s": 79.5}, "1": {"ipc_rel": {"2": 0.5, "4": 1}}},
    )  # fmt: skip
    one = parse_programs(data, "p.json")["MG"]
    assert (one.title, one.framework, one.ipc_full, one.processes) == ("NPB MultiGrid", "MPI", 0.75, 32)
    assert one.provenance == {"t": "D"}
    assert one.counters == {"misses": 2.0}
    assert one.miss_rate == Curve((2, 20), (9.0, 1.0))
    assert list(one.per_scale) == [1, 2]
    assert one.time_s(2) == 79.5
    assert one.ipc_at(1, 2, 20) == 0.5


def test_small_dips_are_raised_and_counted() -> None:
    dips = {"2": 0.80, "4": 0.90, "6": 0.86, "8": 0.88, "20": 1.0}
    programs = parse_programs(text_of(ipc_llc_rel=dips, per_scale={"2": {"ipc_rel": {"2": 1, "4": 0.97}}}), "p.json")
    assert programs["MG"].ipc.values == (0.80, 0.90, 0.90, 0.90, 1.0)
    assert programs.raised == {"MG": 3}
    assert "3 points of 1 IPC curve" in programs.warning


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ipc_llc_rel": {"2": 0.9, "4": 0.85, "20": 1}}, "the IPC of MG falls by 5.6 % to 0.85 at 4 ways"),
    ({"per_scale": {"4": {"ipc_rel": {"2": 1.0, "8": 0.5}}}}, "the IPC at scale 4 of MG falls by 50.0 % .* at 8 ways"),
    ({"ipc_llc_rel": {"20": 1}}, "the IPC of MG has 1 point"),
    ({"bw_llc_gbs": {}}, "the bandwidth of MG has 0 point"),
    ({"ipc_llc_rel": {"2": float("nan"), "20": 1}}, "the IPC of MG is nan at 2 ways"),
    ({"bw_llc_gbs": {"2": float("inf"), "20": 1}}, "the bandwidth of MG is inf at 2 ways"),
    ({"bw_llc_gbs": {"2": -1, "20": 1}}, "the bandwidth of MG is -1.0 at 2 ways"),
    ({"ipc_llc_rel": {"2": 0, "20": 1}}, "the IPC of MG is 0 at 2 ways"),
    ({"ipc_llc_rel": {"2": "0.8", "20": 1}}, 'the IPC of MG is "0.8" at 2 ways, not a number'),
    ({"ipc_llc_rel": {"2": True, "20": 1}}, "the IPC of MG is true at 2 ways"),
    ({"ipc_llc_rel": {"2": 10**400, "20": 1}}, "not a number"),
    ({"ipc_llc_rel": {"two": 0.8, "20": 1}}, "the IPC of MG has a point at 'two' ways"),
    ({"ipc_llc_rel": {"2.5": 0.8, "20": 1}}, "the IPC of MG has a point at '2.5' ways"),
    ({"ipc_llc_rel": {"0": 0.8, "20": 1}}, "the IPC of MG has a point at 0 ways"),
    ({"ipc_llc_rel": {"2": 0.8, "02": 0.9}}, "the IPC of MG has two points at the same"),
    ({"ipc_llc_rel": [0.8, 1]}, "the IPC of MG is not a table"),
    ({"ipc_llc_rel": "gone"}, "program MG has no ipc_llc_rel"),
    ({"memory_bound_fraction_mu": "gone"}, "program MG has no memory_bound_fraction_mu"),
    ({"memory_bound_fraction_mu": 1.01}, "memory_bound_fraction_mu of MG is 1.01; give a number from 0 to 1"),
    ({"memory_bound_fraction_mu": -0.1}, "memory_bound_fraction_mu of MG is -0.1"),
    ({"memory_bound_fraction_mu": None}, "memory_bound_fraction_mu of MG is null, not a number"),
    ({"ce_time_16p_s": 0}, "ce_time_16p_s of MG is 0; give a number above 0"),
    ({"ce_time_16p_s": float("nan")}, "ce_time_16p_s of MG is nan"),
    ({"ce_time_16p_s": [5]}, r"ce_time_16p_s of MG is \[5\], not a number"),
    ({"speedup_by_scale": {"1": 1, "2": 0}}, "the speedup of MG at scale 2 is 0"),
    ({"speedup_by_scale": {"1": 1, "2": -3}}, "the speedup of MG at scale 2 is -3"),
    ({"speedup_by_scale": {"2": 1.2}}, "the speedup of MG lacks scale 1"),
    ({"speedup_by_scale": {"1": 1.2}}, "the speedup of MG at scale 1 is 1.2"),
    ({"speedup_by_scale": {"1": 1, "0": 1}}, "MG has a scale '0'"),
    ({"speedup_by_scale": {"1": 1, "x": 1}}, "MG has a scale 'x'"),
    ({"speedup_by_scale": 3}, "speedup_by_scale of MG is 3"),
    ({"single_node_only": "yes"}, 'single_node_only of MG is "yes"; write true or false'),
    ({"class": "wide"}, "the class of MG is 'wide'"),
    ({"class": 5}, "class of MG is 5"),
    ({"per_scale": {"2": {"exclusive_time_s": 0}}}, "the time of MG at scale 2 is 0"),
    ({"per_scale": {"2": 7}}, "per_scale of MG at scale 2 is 7"),
    ({"per_scale": []}, r"per_scale of MG is \[\]"),
    ({"counters": {"misses": "many"}}, "the counter misses of MG"),
    ({"processes": 1.5}, "processes of MG is 1.5"),
    ({"communication": 2}, "communication of MG is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_no_program_can_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_programs(text_of(**changes), "p.json")
    sentence = str(caught.value)
    assert sentence.startswith("p.json: programs.MG")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ('{"programs": {\n"MG": }', "p.json, line 2: is not JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[]", "not a JSON object"),
        ("{}", 'no table "programs"'),
        ('{"programs": []}', 'no table "programs"'),
        ('{"programs": {}}', "has no programs"),
        ('{"programs": {"MG": 5}}', "program MG is not a table"),
        (text_of(""), "a program is called ''"),
        (text_of(" MG"), "a program is called ' MG'"),
        (text_of()[:-2] + ', "MG": {}}}', "'MG' comes twice"),
        ('{"programs": {"MG": {"ipc_llc_rel": {"2": 1, "2": 2}}}}', "'2' comes twice"),
        ('{"platform": {"llc_ways": "x"}, ' + text_of()[1:], "the platform cannot be read"),
        ('{"platform": {"llc_ways": 20, "cores_per_node": 0}, ' + text_of()[1:], "nodes of 0 cores"),
    ],
)
def test_what_no_file_of_programs_can_be(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_programs(text, "p.json")
    assert "\n" not in str(caught.value)


def test_ways_beyond_the_hardware() -> None:
    programs = parse_programs(text_of(per_scale={"2": {"bw_gbs_per_node": {"2": 5, "24": 5}}}), "p.json")
    check_ways(programs, 24, "here")
    check_ways(programs, 0, "here")  # a machine that does not say
    with pytest.raises(InputError, match=r"here: the bandwidth at scale 2 of MG has a point at 24 ways, .* has 20"):
        check_ways(programs, 20, "here")
    with pytest.raises(InputError, match="here: the IPC of MG has a point at 20 ways, but the cache has 11"):
        check_ways(programs, 11, "here")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "programs.json.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text_of().encode()))
    assert list(read_programs(path)) == ["MG"]
    with pytest.raises(InputError, match="no such file"):
        read_programs(tmp_path / "absent.json")
    plain = tmp_path / "programs.json"
    plain.write_text(text_of())
    assert read_programs(plain) == read_programs(path)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([*ONE, "per_scale", "1", "2", "20", "ipc_rel", "provenance", "counters"]), inner, max_size=6
    ),
    max_leaves=12,
))  # fmt: skip
def test_anything_at_all_is_read_or_refused(data: Any) -> None:
    """Never anything but programs or an InputError."""
    for document in (
        data,
        {"programs": data},
        {"programs": {"X": data}},
        {"programs": {"X": ONE | {"per_scale": data}}},
    ):
        try:
            parse_programs(json.dumps(document), "p.json")
        except InputError:
            continue


# ---- measured curves ------------------------------------------------------------------------------------------------

HEAD = "BENCH,NR_WAYS,ipc,llcmpki,bandwidth_mbps,stalls_l3_miss,other\n"


def test_a_measured_program() -> None:
    table = HEAD + "lbm,1,0.9,30,4000,0.5,x\nlbm,11,2.0,10,3000,0.25,x\nlbm,2,1.5,20,3500,0.4,x\n"
    one = parse_curves(table, "c.csv")["lbm"]
    assert one.ipc == Curve((1, 2, 11), (0.45, 0.75, 1.0))
    assert one.bandwidth_gbs == Curve((1, 2, 11), (64.0, 56.0, 48.0))
    assert one.miss_rate == Curve((1, 2, 11), (30.0, 20.0, 10.0))
    assert (one.mu, one.ipc_full, one.processes, one.ce_time_s) == (0.25, 2.0, 16, 600.0)
    assert one.scales == (1,)
    assert one.provenance["t"].startswith("A: 600 s")


def test_small_dips_of_measured_curves() -> None:
    table = HEAD + "a,1,1.0,1,1,0,\na,2,0.96,1,1,0,\na,3,1.25,1,1,0,\nb,1,1,1,1,0,\nb,2,1,1,1,0,\n"
    programs = parse_curves(table, "c.csv")
    assert programs["a"].ipc.values == (0.8, 0.8, 1.0)
    assert programs.raised == {"a": 1}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", "no column BENCH"),
        ("BENCH,NR_WAYS,ipc\n", "no column bandwidth_mbps"),
        (HEAD, "has no programs"),
        (HEAD + ",1,1,1,1,0,\n", "line 2, BENCH: the program has no name"),
        (HEAD + "a,1,1,1,1,0,\n", "the IPC of a has 1 point"),
        (HEAD + "a,1,1,1,1,0,\na,1,1,1,1,0,\n", "line 3, NR_WAYS: a has two lines for 1 ways"),
        (HEAD + "a,0,1,1,1,0,\n", "a has a point at 0 ways"),
        (HEAD + "a,1.5,1,1,1,0,\n", "a has a point at 1.5 ways"),
        (HEAD + "a,1,nan,1,1,0,\n", "line 2: ipc of a at 1 ways is nan"),
        (HEAD + "a,1,fast,1,1,0,\n", "line 2: ipc of a at 1 ways is 'fast'"),
        (HEAD + "a,1,1\n", "line 2: bandwidth_mbps of a at 1 ways is None"),
        (HEAD + "a,1,1.0,1,1,0,\na,2,0.94,1,1,0,\n", "the IPC of a falls by 6.0 % to 0.94 at 2 ways"),
        (HEAD + "a,1,1,1,-5,0,\na,2,1,1,1,0,\n", "the bandwidth of a is -0.08 at 1 ways"),
    ],
)
def test_curves_that_cannot_be(table: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_curves(table, "c.csv")
    assert str(caught.value).startswith("c.csv")
    assert "\n" not in str(caught.value)


def test_the_public_curves_load() -> None:
    """PBBCache: 28 programs of SPEC CPU x 11 ways; no IPC falls by more than 3.6 %."""
    programs = read_curves(CURVES)
    assert len(programs) == 28
    assert sum(programs.raised.values()) == 77
    check_ways(programs, 11, "here")
    for one in programs.values():
        assert one.ipc.ways == tuple(range(1, 12))
        assert one.ipc.values[-1] == 1.0
        assert 0 <= one.mu <= 1
        assert max(one.bandwidth_gbs.values) < 130
