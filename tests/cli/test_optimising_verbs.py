"""`cohabit partition` and `cohabit place`: the document, the law recomputed from it, determinism, and wrong input."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_calls import cohabit

from tests.optimise.laws_by_hand import App, Machine, alone, ipcs, random_apps, undivided_shares

KEYS = {
    "scheme", "weighted_speedup", "placement", "partition", "ipc", "swaps", "swap_us", "memo_hit_rate", "solve_s",
    "seed",
}  # fmt: skip
SCHEMES = ("baseline", "part-only", "place-only", "place-only-direct", "shepherd")
BUCKETS = 12


def document_of(apps: list[App], nodes: int, cores: int) -> dict[str, Any]:
    named = [
        {"name": f"app {number}", "mpki": list(app.mpki), "cpi0": app.cpi0, "cycles_per_miss": app.cycles_per_miss}
        for number, app in enumerate(apps)
    ]
    return {"nodes": nodes, "cores_per_node": cores, "buckets": BUCKETS, "bandwidth_cap_gbs": 15, "freq_ghz": 2.4,
            "apps": named}  # fmt: skip


MACHINE = Machine(15.0, 2.4)
APPS = random_apps(np.random.default_rng(11), 12, BUCKETS)
MIX = document_of(APPS, 3, 4)
NODE = document_of(APPS[:4], 1, 4)


def written(folder: Path, document: Any) -> Path:
    path = folder / "mix.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def check_law(document: dict[str, Any], apps: list[App]) -> None:
    """Recompute every IPC and the weighted speedup from placement and partition alone."""
    total = 0.0
    for node in set(document["placement"].values()):
        names = [name for name, where in document["placement"].items() if where == node]
        own = [apps[int(name.split()[1])] for name in names]
        if document["partition"] is None:
            sizes: list[float] = undivided_shares(own, MACHINE)
            tolerance = 1e-4
        else:
            sizes = [document["partition"][str(node)][name] for name in names]
            tolerance = 1e-9
            assert sum(sizes) == pytest.approx(BUCKETS)
        expected = ipcs(own, sizes, MACHINE)
        assert [document["ipc"][name] for name in names] == pytest.approx(expected, rel=tolerance)
        total += sum(ipc / alone(app, MACHINE) for ipc, app in zip(expected, own, strict=True))
    assert document["weighted_speedup"] == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("method", ["dp", "equal", "clusters"])
def test_partition_obeys_the_law(tmp_path: Path, method: str) -> None:
    path = written(tmp_path, NODE)
    document = cohabit("partition", path, "--method", method, "--json").document
    assert document.keys() >= KEYS
    assert document["scheme"] == method
    check_law(document, APPS)
    if method == "dp":
        best = document["weighted_speedup"]
        assert best >= cohabit("partition", path, "--method", "equal", "--json").document["weighted_speedup"]
        assert all(isinstance(size, int) and size >= 1 for size in document["partition"]["0"].values())
    shown = cohabit("partition", path, "--method", method)
    assert shown.code == 0
    assert f"weighted speedup {document['weighted_speedup']:.4f}" in shown.out


def test_partition_objectives_and_bounds(tmp_path: Path) -> None:
    path = written(tmp_path, NODE)
    found = {name: cohabit("partition", path, "--objective", name, "--json").document
             for name in ("weighted", "harmonic", "min")}  # fmt: skip
    assert found["min"]["lowest_speed"] >= found["weighted"]["lowest_speed"]
    assert found["harmonic"]["harmonic_speed"] >= found["weighted"]["harmonic_speed"] - 1e-9
    bounded = copy.deepcopy(NODE)
    bounded["apps"][2]["alpha"] = 0.75
    document = cohabit("partition", written(tmp_path, bounded), "--json").document
    assert document["bounds_missed"] == []
    assert document["ipc"]["app 2"] / document["ipc_alone"]["app 2"] >= 0.75
    for app in bounded["apps"]:
        app["alpha"] = 1.0
    answer = cohabit("partition", written(tmp_path, bounded))
    assert "No division keeps the bounds of" in answer.out


def test_partition_for_hardware(tmp_path: Path) -> None:
    path = written(tmp_path, NODE)
    call = ("partition", path, "--method", "clusters", "--ways", "6", "--groups", "2", "--inseparable", "4-5")
    document = cohabit(*call, "--domains", "0,2", "--json").document
    masks = [int(group["mask"], 16) for group in document["groups"]]
    assert len(masks) <= 2
    assert sum(masks) == 0b111111
    for group in document["groups"]:
        assert group["schemata"] == f"L3:0={group['mask']};2={group['mask']}"
    assert sorted(name for group in document["groups"] for name in group["jobs"]) == sorted(document["ipc"])
    check_law(document, APPS)
    assert "L3:0=" in cohabit(*call).out
    each = cohabit("partition", path, "--ways", "6", "--json").document
    assert [len(group["jobs"]) for group in each["groups"]] == [1, 1, 1, 1]
    check_law(each, APPS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_place_obeys_the_law(tmp_path: Path, scheme: str) -> None:
    path = written(tmp_path, MIX)
    call = ("place", path, "--scheme", scheme, "--seed", "3", "--swaps", "400")
    document = cohabit(*call, "--json").document
    assert document.keys() >= KEYS
    assert (document["scheme"], document["seed"]) == (scheme, 3)
    assert sorted(document["placement"].values()) == [0] * 4 + [1] * 4 + [2] * 4
    assert (document["partition"] is None) == (scheme in ("baseline", "place-only", "place-only-direct"))
    check_law(document, APPS)
    if scheme in ("baseline", "part-only"):
        assert (document["swaps"], document["swap_us"], document["memo_hit_rate"]) == (0, None, None)
    else:
        assert document["swaps"] == 400
        assert document["swap_us"] > 0
        assert 0 <= document["memo_hit_rate"] <= 1
    again = cohabit(*call, "--json").document
    varying = ("swap_us", "solve_s")
    assert {key: value for key, value in document.items() if key not in varying} == {
        key: value for key, value in again.items() if key not in varying
    }
    shown = cohabit(*call)
    assert shown.code == 0
    assert f"scheme {scheme}" in shown.out


def test_the_schemes_stand_in_their_order(tmp_path: Path) -> None:
    path = written(tmp_path, MIX)
    value = {scheme: cohabit("place", path, "--scheme", scheme, "--json").document for scheme in SCHEMES}
    speedup = {scheme: document["weighted_speedup"] for scheme, document in value.items()}
    assert value["baseline"]["placement"] == value["part-only"]["placement"]
    assert value["place-only"]["placement"] == value["shepherd"]["placement"]
    assert speedup["shepherd"] >= speedup["part-only"] > speedup["baseline"]
    assert speedup["place-only-direct"] >= speedup["baseline"]


def test_restarts_do_not_depend_on_cores(tmp_path: Path) -> None:
    path = written(tmp_path, MIX)
    call = ("place", path, "--swaps", "100", "--restarts", "4", "--json")
    one, two = (cohabit(*call, "--workers", workers).document for workers in ("1", "3"))
    assert one["placement"] == two["placement"]
    assert one["swaps"] == two["swaps"] == 400
    single = cohabit("place", path, "--swaps", "100", "--json").document
    assert one["weighted_speedup"] >= single["weighted_speedup"]


def test_place_within_a_budget_by_utility_and_by_ways(tmp_path: Path) -> None:
    path = written(tmp_path, MIX)
    document = cohabit("place", path, "--budget-s", "0.05", "--start", "utility", "--json").document
    assert document["swaps"] > 0
    check_law(document, APPS)
    document = cohabit("place", path, "--swaps", "100", "--ways", "6", "--groups", "2", "--json").document
    assert set(document["groups"]) == {"0", "1", "2"}
    check_law(document, APPS)
    assert "L3:0=" in cohabit("place", path, "--swaps", "100", "--ways", "6").out


def test_lines_for_servers_of_several_caches(tmp_path: Path) -> None:
    """Three nodes as domains of two servers: every job is in the group of its domain's mask."""
    path = written(tmp_path, MIX)
    call = ("place", path, "--swaps", "100", "--ways", "6", "--domains-per-server", "2")
    document = cohabit(*call, "--json").document
    assert set(document["servers"]) == {"0", "1"}
    seen = []
    for server, groups in document["servers"].items():
        for group in groups:
            masks = dict(part.split("=") for part in group["schemata"].removeprefix("L3:").split(";"))
            for name in group["jobs"]:
                node = document["placement"][name]
                assert node // 2 == int(server)
                own = next(one for one in document["groups"][str(node)] if name in one["jobs"])
                assert masks[str(node % 2)] == own["mask"]
                seen.append(name)
    assert sorted(seen) == sorted(document["placement"])
    shown = cohabit(*call).out
    assert ";1=" in shown
    assert "server" in shown


def test_bounds_are_told_where_programs_are_placed(tmp_path: Path) -> None:
    bounded = copy.deepcopy(MIX)
    bounded["apps"][0]["alpha"] = 0.5
    document = cohabit("place", written(tmp_path, bounded), "--json").document
    assert document["bounds_missed"] == []
    assert document["ipc"]["app 0"] >= 0.5 * document["ipc_alone"]["app 0"]
    for app in bounded["apps"]:
        app["alpha"] = 1.0
    answer = cohabit("place", written(tmp_path, bounded), "--swaps", "10")
    assert "Below the speed they must keep: app 0" in answer.out


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(MIX)
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        (json.dumps(MIX)[:-40], "is not JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"nodes": 1' + "0" * 5000 + "}", "cannot be read as JSON"),
        ('{"nodes": 1, "nodes": 2}', "the key 'nodes' comes twice"),
        (changed(("node",), 3), "there is no key \"node\"; did you mean 'nodes'?"),
        (changed(("apps", 2, "colour"), "red"), "app 3 (app 2): there is no key \"colour\"; known keys: name, mpki"),
        ("[1]", "is not a JSON object"),
        (changed(("nodes",), 2), "12 apps do not fit on 2 nodes of 4 cores"),
        (changed(("nodes",), 0), "nodes is 0"),
        (changed(("nodes",), 1.5), "nodes is 1.5"),
        (changed(("nodes",), None), "nodes is missing"),
        (changed(("apps",), []), "there is no job for any node"),
        (changed(("apps",), {}), "apps is {}, not a list"),
        (changed(("apps", 3), 7), "app 4: is 7"),
        (changed(("apps", 3, "name"), "app 1"), "the name 'app 1' is taken by app 2"),
        (changed(("apps", 3, "name"), ""), "name is \"\""),
        (changed(("apps", 3, "mpki"), [1, 2, 3]), "app 4 (app 3): mpki has 3 numbers; with 12 buckets it needs 13"),
        (changed(("apps", 3, "mpki"), "x"), "mpki is \"x\""),
        (changed(("apps", 3, "mpki", 5), -0.5), "mpki[5] is -0.5"),
        (changed(("apps", 3, "mpki", 5), "a"), "mpki[5] is \"a\", not a number"),
        (changed(("apps", 3, "mpki", 5), True), "mpki[5] is true"),
        (changed(("apps", 3, "cpi0"), 0), "cpi0 is 0"),
        (changed(("apps", 3, "cpi0"), None), "cpi0 is missing"),
        (changed(("apps", 3, "cycles_per_miss"), -4), "cycles_per_miss is -4"),
        (changed(("apps", 3, "alpha"), 1.2), "alpha is 1.2"),
        (changed(("bandwidth_cap_gbs",), 0), "bandwidth_cap_gbs is 0"),
        (changed(("bandwidth_cap_gbs",), -3), "bandwidth_cap_gbs is -3"),
        (changed(("bandwidth_cap_gbs",), 1e300), "bandwidth_cap_gbs is 1e+300; no machine has that"),
        (changed(("apps", 3, "cpi0"), 1e-300), "cpi0 is 1e-300; no machine has that"),
        (changed(("apps", 3, "mpki", 0), 10**400), "mpki[0] is "),
        (changed(("freq_ghz",), "fast"), "freq_ghz is \"fast\""),
        (changed(("buckets",), 13), "needs 14"),
        (json.dumps(MIX).replace("2.4", "NaN", 1), "has a number that is NaN"),
        (json.dumps(MIX).replace("2.4", "1e999", 1), "freq_ghz is Infinity"),
    ],
)  # fmt: skip
def test_wrong_files(tmp_path: Path, document: Any, words: str) -> None:
    sentence = cohabit("place", written(tmp_path, document)).sentence()
    assert "mix.json" in sentence
    assert words in sentence


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["place", "mix.json", "--scheme", "sheperd"], "did you mean 'shepherd'?"),
        (["place", "mix.json", "--swaps", "5", "--budget-s", "1"], "do not go together"),
        (["place", "mix.json", "--swaps", "-1"], "--swaps -1"),
        (["place", "mix.json", "--budget-s", "0"], "--budget-s 0"),
        (["place", "mix.json", "--budget-s", "nan"], "--budget-s nan"),
        (["place", "mix.json", "--restarts", "0"], "--restarts 0"),
        (["place", "mix.json", "--seed", "-1"], "--seed -1"),
        (["place", "mix.json", "--start", "best"], "there is no start called 'best'"),
        (["place", "absent.json"], "absent.json: no such file"),
        (["partition", "mix.json"], "nodes is 3; a cache is divided node by node"),
        (["partition", "node.json", "--method", "magic"], "there is no method called 'magic'"),
        (["partition", "node.json", "--objective", "max"], "there is no objective called 'max'"),
        (["partition", "node.json", "--groups", "3"], "add --ways W"),
        (["partition", "node.json", "--ways", "0"], "0 ways"),
        (["partition", "node.json", "--ways", "3"], "4 jobs cannot have ways of their own"),
        (["partition", "node.json", "--ways", "12", "--inseparable", "ten"], "'ten' is not a range of ways"),
        (["partition", "node.json", "--ways", "12", "--inseparable", "11-12"], "ways 11-12 cannot be inseparable"),
        (["partition", "node.json", "--domains", "a"], "--domains 'a'"),
        (["partition", "node.json", "--domains", "1,1"], "--domains '1,1'"),
        (["place", "mix.json", "--domains-per-server", "0"], "--domains-per-server 0"),
        (["place", "mix.json", "--domains-per-server", "2"], "add --ways W"),
        (["place", "mix.json", "--scheme", "baseline", "--ways", "6"], "--ways has no effect with --scheme baseline"),
        (["partition", "crowd.json"], "5 apps do not fit on 1 node of 4 cores"),
        (["partition", "empty.json"], "apps is empty: there is no job for any node"),
    ],
)  # fmt: skip
def test_wrong_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mix.json").write_text(json.dumps(MIX))
    (tmp_path / "node.json").write_text(json.dumps(NODE))
    (tmp_path / "crowd.json").write_text(json.dumps(document_of(APPS[:5], 1, 4)))
    (tmp_path / "empty.json").write_text(json.dumps(NODE | {"apps": []}))
    assert words in cohabit(*arguments).sentence()


def test_no_swaps_is_the_start(tmp_path: Path) -> None:
    path = written(tmp_path, MIX)
    nothing = cohabit("place", path, "--swaps", "0", "--json").document
    assert nothing["placement"] == cohabit("place", path, "--scheme", "part-only", "--json").document["placement"]
