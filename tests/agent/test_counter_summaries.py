"""From samples to mean, minimum, maximum and deviation, worked out by hand; imported counters; halves of the cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.agent.sensors.imported import read_counters
from cohabit.agent.sensors.summary import Summary, combine, merge, of_totals, summarise
from cohabit.agent.topology import split_cores
from cohabit.model.errors import InputError


def test_amounts_become_rates() -> None:
    samples = [(0.0, {"page_faults": 100.0}), (1.0, {"page_faults": 110.0}), (2.0, {"page_faults": 140.0})]
    one = summarise(samples, "x", 1.0)["page_faults"]
    assert (one.mean, one.low, one.high, one.deviation) == (20.0, 10.0, 30.0, 10.0)


def test_levels_stay_levels_and_the_state_before_the_start_does_not_count() -> None:
    samples = [(0.0, {"threads": 50.0}), (1.0, {"threads": 1.0}), (2.0, {"threads": 3.0})]
    one = summarise(samples, "x", 1.0)["threads"]
    assert (one.mean, one.low, one.high, one.deviation) == (2.0, 1.0, 3.0, 1.0)


def test_a_short_last_interval_is_joined_to_the_one_before() -> None:
    samples = [(0.0, {"page_faults": 0.0}), (1.0, {"page_faults": 10.0}), (1.1, {"page_faults": 110.0})]
    one = summarise(samples, "x", 1.0)["page_faults"]
    assert one.low == one.high == one.mean == pytest.approx(100.0)


def test_ratios_are_of_whole_amounts() -> None:
    samples = [
        (0.0, {"instructions": 0.0, "cycles": 0.0}), (1.0, {"instructions": 10.0, "cycles": 10.0}),
        (2.0, {"instructions": 100.0, "cycles": 40.0}),
    ]  # fmt: skip
    one = summarise(samples, "x", 1.0)["ipc"]
    assert (one.mean, one.low, one.high) == (100 / 40, 1.0, 3.0)


def test_an_idle_interval_has_no_ratio() -> None:
    still = {"instructions": 0.0, "cycles": 0.0, "cache_references": 0.0, "cache_misses": 0.0}
    assert "ipc" not in summarise([(0.0, still), (1.0, still)], "x", 1.0)


def test_totals_have_a_mean_only() -> None:
    found = of_totals({"instructions": 100.0, "cache_misses": 5.0, "cache_references": 20.0}, 2.0, "x")
    assert found["instructions"] == Summary(50.0, None, None, None, "x")
    assert found["miss_ratio"].mean == 0.25
    assert [suffix for suffix, _ in found["instructions"].columns()] == ["mean"]


def test_runs_are_combined() -> None:
    runs = [{"ipc": Summary(1.0, 0.5, 2.0, 0.3, "x")}, {"ipc": Summary(3.0, 1.0, 4.0, 0.4, "x")}]
    one = combine(runs)["ipc"]
    assert (one.mean, one.low, one.high) == (2.0, 0.5, 4.0)
    assert one.deviation == pytest.approx((0.125 + 1.0) ** 0.5)


def test_the_earlier_source_wins() -> None:
    a, b = Summary(1.0, None, None, None, "a"), Summary(2.0, None, None, None, "b")
    assert merge([{"ipc": a}, {"ipc": b, "cycles": b}]) == {"ipc": a, "cycles": b}


def test_imported_counters(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(
        "program,seconds,instructions,cycles,threads\nmg,1,100,50,2\nmg,1,300,150,4\nep,2,10,,1\n", encoding="utf-8"
    )
    found = read_counters(path)
    mg = found["mg"]
    assert (mg["instructions"].mean, mg["instructions"].low, mg["instructions"].high) == (200.0, 100.0, 300.0)
    assert (mg["ipc"].mean, mg["threads"].mean, mg["ipc"].source) == (2.0, 3.0, "imported")
    assert found["ep"]["instructions"].mean == 5.0
    assert "cycles" not in found["ep"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "does not begin with"),
        ("program,seconds\n", "does not begin with"),
        ("program,seconds,nonsense\nx,1,1\n", "'nonsense'"),
        ("program,seconds,ipc\nx,1,1\n", "'ipc'"),
        ("program,seconds,cycles,cycles\nx,1,1,1\n", "'cycles'"),
        ("program,seconds,cycles\nx,1\n", "line 2"),
        ("program,seconds,cycles\nx,0,1\n", "above 0"),
        ("program,seconds,cycles\nx,1,-1\n", "'-1'"),
        ("program,seconds,cycles\nx,1,nan\n", "'nan'"),
        ("program,seconds,cycles\n", "no rows"),
    ],
)
def test_a_bad_file_of_counters_is_one_sentence(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=word):
        read_counters(path)


def test_a_missing_file_of_counters(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_counters(tmp_path / "nowhere.csv")


def topology(folder: Path, rows: list[tuple[int, int, int]]) -> Path:
    """CPU, socket, core."""
    for cpu, *core in rows:
        place = folder / "sys/devices/system/cpu" / f"cpu{cpu}" / "topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{core[0]}\n")
        (place / "core_cpus_list").write_text(",".join(str(other) for other, *its in rows if its == core))
    return folder


def test_threads_of_a_core_stay_together(tmp_path: Path) -> None:
    root = topology(tmp_path, [(0, 0, 0), (1, 0, 1), (2, 0, 0), (3, 0, 1)])
    assert split_cores([0, 1, 2, 3], root) == ((0, 2), (1, 3))


def test_both_halves_are_on_every_socket(tmp_path: Path) -> None:
    root = topology(tmp_path, [(cpu, cpu // 4, cpu % 4) for cpu in range(8)])
    assert split_cores(range(8), root) == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_one_core_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be split"):
        split_cores([0, 1], topology(tmp_path, [(0, 0, 0), (1, 0, 0)]))
    assert split_cores([0, 1], tmp_path / "nothing known") == ((0,), (1,))
