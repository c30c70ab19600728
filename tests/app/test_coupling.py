"""Several domains in one scenario: read, tied together, run side by side, and written as one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from cohabit.app.scenario.reading import read_scenario, scenario_from
from cohabit.app.scenario.tables import CouplingConfig, Scenario
from cohabit.app.simulate import simulation
from cohabit.app.simulate.coupling import prepare_domains, run_domains, scheme_of, terms_of
from cohabit.app.simulate.coupling_results import document, merged, metrics_of, write_run
from cohabit.app.simulate.coupling_scenario import domain_scenario, with_policy
from cohabit.app.simulate.sweeping import grid, run_cell
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

HEAD = "job_id,program,processes,submit_s,run_s,limit_s,mate\n"
# ten nodes each; b2 is ready at 0, its mate a1 only when a0 has ended at 100
BIG = HEAD + "a0,,10,0,100,100,\na1,,4,1,50,50,small:b2\na2,,2,2,30,30,\n"
SMALL = HEAD + "b1,,2,0,500,500,\nb2,,6,0,60,60,\nb3,,4,3,40,40,\n"


def tables(tmp_path: Path, big: str = BIG, small: str = SMALL) -> dict[str, Any]:
    (tmp_path / "big.csv").write_text(big)
    (tmp_path / "small.csv").write_text(small)
    return {
        "domain": [
            {"name": "big", "cluster": 10, "jobs": str(tmp_path / "big.csv"), "policy": "ce-easy", "scheme": "yield"},
            {"name": "small", "cluster": 10, "jobs": str(tmp_path / "small.csv"), "policy": "ce-easy"},
        ]
    }


def read(data: dict[str, Any]) -> Scenario:
    return scenario_from(data, "test")


def coupled(**changes: Any) -> Scenario:
    """Both generators, two days."""
    data: dict[str, Any] = {
        "seed": 3,
        "domain": [
            {"name": "intrepid", "jobs": {"generator": "intrepid", "jobs": 400}, "policy": "cosched-yield"},
            {"name": "eureka", "jobs": {"generator": "eureka", "span_days": 1.3}, "policy": "cosched-hold"},
        ],
        "coupling": {"pairing": "vicinity"},
    }
    return read(data | changes)


@pytest.mark.parametrize("scheme", ["hold", "yield", "agree"])
def test_mates_of_a_table_start_together(tmp_path: Path, scheme: str) -> None:
    data = tables(tmp_path)
    for domain in data["domain"]:
        domain["scheme"] = scheme
    run = run_domains(prepare_domains(read(data)))
    big, small = run.tables.values()
    assert big.start_us[1] == small.start_us[1] == 100 * SECOND
    told = metrics_of(small)
    assert told["mates_total"] == told["mates_started"] == 1
    assert told["mean_sync_s"] == 100
    assert told["held_node_hours"] == pytest.approx(6 * 100 / 3600 if scheme == "hold" else 0.0, abs=1e-6)
    assert metrics_of(big)["mean_sync_s"] == 0
    waits = {"hold": 160, "yield": 3, "agree": 3}  # b3 may use the nodes that nobody holds
    assert small.start_us[2] == waits[scheme] * SECOND


def test_everything_is_written_as_one_run(tmp_path: Path) -> None:
    scenario = read(tables(tmp_path))
    run = run_domains(prepare_domains(scenario))
    summary = write_run(run, scenario, tmp_path, 0.0, report=True, title="two domains")
    assert set(summary["domains"]) == {"big", "small"}
    assert summary["coupling"]["groups_together"] == summary["coupling"]["groups"] == 1
    assert summary["jobs"] == 6
    assert summary["metrics"]["jobs_ran"] == 6
    stored = json.loads((tmp_path / "summary.json").read_text())
    assert stored["domains"]["small"]["held_node_hours"] == summary["domains"]["small"]["held_node_hours"]
    frame = pl.read_csv(tmp_path / "jobs.csv")
    assert frame["domain"].to_list() == ["big"] * 3 + ["small"] * 3
    assert frame["group"].to_list() == [None, "big:a1+small:b2", None, None, "big:a1+small:b2", None]
    assert frame["first_ready_s"].to_list() == [None, 100, None, None, 0, None]
    page = (tmp_path / "report.html").read_text()
    for words in ("What starting together cost", "Domain big", "Domain small", "Service-unit loss", "Jobs that wait"):
        assert words in page
    assert page.count('id="gantt0"') == 1
    assert again(stored["settings"], tmp_path).scenario_hash == summary["scenario_hash"]


def again(settings: dict[str, Any], tmp_path: Path) -> Any:
    """The run once more from the settings it left behind."""
    for domain in settings["domain"]:
        domain["jobs"] = {key: value for key, value in domain["jobs"].items() if value not in (None, "")}
    run = run_domains(prepare_domains(scenario_from(settings, str(tmp_path))))
    return merged(run.tables)


def test_the_same_seed_gives_the_same_journals() -> None:
    first, second = (run_domains(prepare_domains(coupled())) for _ in range(2))
    for name, table in first.tables.items():
        assert table.journal_hash == second.tables[name].journal_hash
    other = run_domains(prepare_domains(coupled(seed=4)))
    assert merged(other.tables).journal_hash != merged(first.tables).journal_hash


def test_domains_without_pairs_are_what_they_are_alone() -> None:
    scenario = coupled(coupling={"pairing": "none"})
    prepared = prepare_domains(scenario)
    run = run_domains(prepared)
    assert run.messages == 0
    for domain in scenario.domain:
        alone, _ = simulation.run(simulation.prepare(domain_scenario(scenario, domain)))
        assert np.array_equal(alone.start_us, run.tables[domain.name].start_us)


def test_both_machines_draw_other_numbers_from_one_seed() -> None:
    same = {"generator": "eureka", "span_days": 1.0}
    domains = [{"name": name, "jobs": same} for name in ("one", "two")]
    prepared = prepare_domains(read({"domain": domains, "coupling": {"pairing": "none"}}))
    one, two = (part.workload for part in prepared.domains.values())
    assert one.submit_us.tolist() != two.submit_us.tolist()


def test_merged_tables_number_nodes_on(tmp_path: Path) -> None:
    run = run_domains(prepare_domains(read(tables(tmp_path))))
    whole = merged(run.tables)
    assert whole.cluster_nodes == 20
    assert whole.node_ranges is not None
    owner = np.repeat(np.arange(len(whole)), np.diff(whole.node_ranges.offsets))
    assert (whole.node_ranges.first[owner < 3] < 10).all()
    assert (whole.node_ranges.first[owner >= 3] >= 10).all()
    assert document(run, read(tables(tmp_path)), 0.0)["metrics"]["jobs_total"] == 6


def test_scheme_and_bundles(tmp_path: Path) -> None:
    scenario = read(tables(tmp_path))
    assert [scheme_of(one, one.policy).scheme for one in scenario.domain] == ["yield", "hold"]
    both = [with_policy(one, name="cosched-agree") for one in scenario.domain]
    assert [scheme_of(one, one.policy).scheme for one in both] == ["agree", "agree"]
    kept = [with_policy(one, order="sjf") for one in scenario.domain]
    assert [scheme_of(one, one.policy).scheme for one in kept] == ["yield", "hold"]
    told = msgspec.structs.replace(scenario.domain[0], release_s=60.0, min_hold_s=5.0, max_held=0.5, max_yields=3,
                                   raise_per_yield=0.1, bounded_hold_s=9.0, enabled=False)  # fmt: skip
    scheme = scheme_of(told, told.policy)
    assert (scheme.release_us, scheme.least_hold_us, scheme.bounded_hold_us) == (60 * SECOND, 5 * SECOND, 9 * SECOND)
    assert (scheme.most_held, scheme.most_yields, scheme.raise_per_yield, scheme.enabled) == (0.5, 3, 0.1, False)


def test_disabled_coscheduling_starts_jobs_as_if_they_had_no_mates(tmp_path: Path) -> None:
    data = tables(tmp_path)
    for domain in data["domain"]:
        domain["enabled"] = False
    run = run_domains(prepare_domains(read(data)))
    assert run.tables["small"].start_us[1] == 0
    assert run.tables["big"].start_us[1] == 100 * SECOND


def test_a_window_starts_one_side_later(tmp_path: Path) -> None:
    data = tables(tmp_path)
    data["coupling"] = {"window": [{"first": "small", "second": "big", "least_s": 60.0, "most_s": 60.0}]}
    scenario = read(data)
    run = run_domains(prepare_domains(scenario))
    assert run.tables["big"].start_us[1] - run.tables["small"].start_us[1] == 60 * SECOND
    assert document(run, scenario, 0.0)["coupling"]["groups_together"] == 1


def test_terms_follow_the_scenario() -> None:
    terms = terms_of(CouplingConfig(lease_s=40.0, dead_after_s=7.0, when_dead="fail", overlap_s=-1.0), True)
    assert (terms.lease_us, terms.dead_after_us, terms.when_dead, terms.watch_us) == (
        40 * SECOND,
        7 * SECOND,
        "fail",
        -1,
    )
    assert terms.ask_us * 2 <= terms.lease_us


def test_a_sweep_varies_one_domain(tmp_path: Path) -> None:
    cells = grid(read(tables(tmp_path)), ["domain.small.scheme=hold,yield"])
    held, yielded = (run_cell(cell) for cell in cells)
    assert held["small.held_node_hours"] > 0
    assert yielded["small.held_node_hours"] == pytest.approx(0.0, abs=1e-6)
    assert held["mean_wait_s"] > yielded["mean_wait_s"]


def test_files_of_domains_are_relative_to_the_scenario(tmp_path: Path) -> None:
    tables(tmp_path)
    text = '[[domain]]\nname = "big"\ncluster = 10\njobs = "big.csv"\n[[domain]]\nname = "small"\ncluster = 10\n'
    (tmp_path / "both.toml").write_text(text + 'jobs = { file = "small.csv", shift_s = 5.0 }\n')
    scenario = read_scenario(tmp_path / "both.toml")
    prepared = prepare_domains(scenario)
    assert prepared.domains["small"].workload.submit_us.tolist() == [5 * SECOND, 5 * SECOND, 8 * SECOND]
    assert len(prepared.ties) == 1


def test_logs_can_be_cut_scaled_and_moved(tmp_path: Path) -> None:
    data = tables(tmp_path)
    data["domain"][1]["jobs"] = {"file": str(tmp_path / "small.csv"), "until_s": 3.0, "shift_s": -2.0}
    data["domain"][0]["jobs"] = {"file": str(tmp_path / "big.csv"), "from_s": 1.0, "load": 0.5}
    data["coupling"] = {"pairing": "vicinity"}
    prepared = prepare_domains(read(data))
    assert prepared.domains["small"].workload.submit_us.tolist() == [-2 * SECOND] * 2
    big = prepared.domains["big"].workload.submit_us
    assert big[0] == SECOND
    assert (big[1] - big[0]) / SECOND == pytest.approx((4 * 50 + 2 * 30) / 10 / 0.5)


DOMAINS = [{"name": "a", "cluster": 4, "jobs": "a.swf"}, {"name": "b", "cluster": 4, "jobs": "b.swf"}]


def changed(place: int, **keys: Any) -> dict[str, Any]:
    found = [dict(one) for one in DOMAINS]
    found[place] |= keys
    return {"domain": found}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"domain": DOMAINS[:1]}, "has 1 domain"),
        ({"domain": DOMAINS, "jobs": {"trace": "x.swf"}}, "has both [jobs] and [[domain]]"),
        ({"domain": DOMAINS, "cluster": {"nodes": 4}}, "move cluster into the domains"),
        ({"jobs": {"trace": "x.swf"}, "coupling": {"pairing": "vicinity"}}, "no domains to couple"),
        (changed(1, name="a"), "two domains called 'a'"),
        (changed(1, name="a b"), "domain.name = 'a b' cannot be used"),
        (changed(1, scheme="wait"), "domain b: scheme = 'wait' is unknown"),
        (changed(1, max_held=1.5), "more than the whole machine"),
        (changed(1, release_s=-1), "domain.1.release_s = -1 is negative"),
        (changed(1, shceme="hold"), "did you mean 'scheme'?"),
        (changed(1, jobs={"generator": "eureka", "shift_s": 5.0}), "for jobs that are read"),
        (changed(1, jobs={"trace": "a.swf", "sigma": 5.0}), "option of a generator"),
        (changed(1, jobs={}), "needs exactly one of file, trace or generator"),
        ({"domain": DOMAINS, "coupling": {"pairing": "nearest"}}, "use vicinity, proportion, column"),
        ({"domain": DOMAINS, "coupling": {"pairing": "proportion"}}, "needs coupling.proportion"),
        ({"domain": DOMAINS, "coupling": {"pairing": "proportion", "proportion": 1.5}}, "is impossible"),
        ({"domain": DOMAINS, "coupling": {"proportion": 0.5}}, "no effect with pairing 'column'"),
        ({"domain": DOMAINS, "coupling": {"pairing": "vicinity", "vicinity_s": 0}}, "pairs no jobs"),
        ({"domain": DOMAINS, "coupling": {"loss": 1.5}}, "coupling.loss = 1.5 is not between 0 and 1"),
        ({"domain": DOMAINS, "coupling": {"when_dead": "panic"}}, "use start_alone, wait, fail"),
        ({"domain": DOMAINS, "coupling": {"latency": 1}}, "did you mean 'latency_s'?"),
        ({"domain": DOMAINS, "coupling": {"window": [{"first": "a", "second": "c"}]}}, "unknown domain 'c'"),
        ({"domain": DOMAINS, "coupling": {"window": [{"first": "a", "second": "b", "least_s": 5}]}}, "ends before"),
        ({"domain": DOMAINS, "coupling": {"window": [
            {"first": "a", "second": "b", "least_s": 5.0, "most_s": 9.0},
            {"first": "b", "second": "a", "least_s": 1.0, "most_s": 9.0}]}}, "cannot hold together: "),
        ({"domain": DOMAINS, "coupling": {"overlap_s": -5.0}}, "-1 is the whole run"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_sentence(data: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refusal:
        scenario_from(data, "test.toml")
    assert words in str(refusal.value)
    assert "test.toml" in str(refusal.value)


def test_an_overlap_longer_than_a_limit_is_refused(tmp_path: Path) -> None:
    data = tables(tmp_path) | {"coupling": {"overlap_s": 55.0}}
    with pytest.raises(InputError, match="wants 55 s together"):
        prepare_domains(read(data))


def test_a_rejected_mate_is_not_waited_for(tmp_path: Path) -> None:
    data = tables(tmp_path, small=SMALL.replace("b2,,6", "b2,,60"))
    prepared = prepare_domains(read(data))
    assert not prepared.ties
    assert any("member that was rejected" in note for note in prepared.notes)
    assert run_domains(prepared).tables["big"].start_us[1] == 100 * SECOND
