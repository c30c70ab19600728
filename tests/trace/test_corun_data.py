"""Co-run data as people have it: other targets, gaps, duplicates, groups, families, noise."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.predict import folds
from cohabit.predict.families import BY_COLUMN, BY_NAME, EACH, families_of, family_by_name
from cohabit.predict.features import CoRuns
from cohabit.trace.corun_data import parse_coruns

HEAD = "app,other,target,app_time_s,primary.use_mean,other.use_mean\n"


def read(text: str, kind: str = "percent", average: bool = False) -> CoRuns:
    return parse_coruns(text, "pairs.csv", True, kind=kind, average=average)


def by_pair(data: CoRuns) -> dict[tuple[str, str], float]:
    return dict(zip(zip(data.app, data.other, strict=True), data.truth.tolist(), strict=True))


def test_repeats_are_averaged_and_their_spread_is_said() -> None:
    data = read(HEAD + "a,b,10,5,1,2\na,b,20,5,1,2\nb,a,4,5,2,1\n")
    assert by_pair(data) == {("a", "b"): 15.0, ("b", "a"): 4.0}
    assert "2 rows are repeats of 1 pairs and are averaged, their targets up to 10 points apart" in data.notes


def test_contradictory_repeats_are_refused_unless_averaged() -> None:
    text = HEAD + "a,b,5,5,1,2\nb,a,4,5,2,1\na,b,200,5,1,2\n"
    with pytest.raises(InputError, match=r"a beside b slows by 5 % here and by 200 % in line 4"):
        read(text)
    assert by_pair(read(text, average=True))["a", "b"] == pytest.approx(102.5)


def test_noise_of_runs_alone_is_said() -> None:
    data = read(HEAD + "a,b,10,4,1,2\na,c,20,9,1,2\nb,a,4,5,2,1\n")
    assert any("runs alone vary: a by 54 %" in one for one in data.notes)
    said = read(HEAD.strip() + ",meta.solo_noise_percent\na,b,10,4,1,2,44\nb,a,4,5,2,1,0.2\n")
    assert any("runs alone vary: a by 44 %" in one for one in said.notes)
    assert not read(HEAD + "a,b,10,4,1,2\na,c,20,4,1,2\n").notes


@pytest.mark.parametrize(
    ("kind", "beside_b", "beside_a"), [("throughput", 50.0, 160.0), ("latency", 20.0, 10.0), ("time", 20.0, 10.0)]
)
def test_times_latencies_and_throughputs_become_percent(kind: str, beside_b: float, beside_a: float) -> None:
    """a is half as fast beside b in every unit; b is as fast as alone."""
    alone_a, alone_b = (100.0, 160.0) if kind == "throughput" else (10.0, 10.0)
    head = "app,other,target,primary.use,other.use\n"
    rows = f"a,b,{beside_b},1,2\nb,a,{beside_a},2,1\n"
    data = read(head + rows + f"a,,{alone_a},1,\nb,,{alone_b},2,\n", kind)
    assert by_pair(data) == pytest.approx({("a", "b"): 100.0, ("b", "a"): 0.0})
    columns = "app,other,target,alone,primary.use,other.use\n"
    also = read(columns + f"a,b,{beside_b},{alone_a},1,2\nb,a,{beside_a},{alone_b},2,1\n", kind)
    assert by_pair(also) == pytest.approx(by_pair(data))


def test_ratios_need_no_time_alone() -> None:
    data = read("app,other,target,primary.use,other.use\na,b,0.5,1,2\nb,a,1,2,1\n", "throughput")
    assert by_pair(data) == pytest.approx({("a", "b"): 100.0, ("b", "a"): 0.0})
    assert any("no throughput alone, so targets are read as ratios" in one for one in data.notes)
    with pytest.raises(InputError, match="times as slow as alone, which no co-run is"):
        read("app,other,target,primary.use,other.use\na,b,5000,1,2\nb,a,1,2,1\n", "throughput")
    with pytest.raises(InputError, match="is a throughput of 0"):
        read("app,other,target,primary.use,other.use\na,b,0,1,2\nb,a,1,2,1\n", "throughput")


def test_runs_alone_that_are_missing_are_named() -> None:
    with pytest.raises(InputError, match="the latency of 'b' alone is not known"):
        read("app,other,target,primary.use,other.use\na,b,20,1,2\nb,a,11,2,1\na,,10,1,\n", "latency")


def test_empty_cells_are_filled_or_left_out_and_said() -> None:
    data = read(HEAD + "a,b,10,5,1,2\na,c,,5,1,3\nb,a,4,,2,\nb,c,4,7,2,3\nc,a,3,8,,1\n")
    assert len(data) == 4
    assert any("1 of 5 rows have no target" in one for one in data.notes)
    rows = {pair: row for row, pair in enumerate(by_pair(data))}
    assert data.primary[rows["b", "a"], 0] == 7.0, "b's time from its other row"
    assert data.beside[rows["b", "a"], 0] == 1.0, "a's use from the row of c"
    assert data.primary[rows["c", "a"], 1] == 2.0, "c's use is nowhere: the median of 1, 2 and 2"
    head = "app,other,target,primary.use,primary.rare,other.use\n"
    fewer = read(head + "a,b,10,1,,2\nb,c,4,2,,2\nc,a,4,2,7,2\n")
    assert fewer.schema.primary == ("use",)
    assert any("left out: primary.rare" in one for one in fewer.notes)


def test_groups_of_neighbours_have_the_sum_of_their_counters() -> None:
    head = "app,other,target,primary.use_mean,primary.ipc_mean,other.use_mean,other.ipc_mean\n"
    data = read(head + "a,b,10,1,1,2,0.5\na,c,20,1,1,3,1.5\nb,a,1,2,0.5,1,1\nc,a,1,3,1.5,1,1\na,b+c,32,1,1,,\n")
    assert data.applications == ("a", "b", "c")
    assert data.beside[-1].tolist() == [5.0, 1.0]
    first, second = data.within({"c"})
    assert second.tolist() == [False, True, False, False, True]
    assert first.tolist() == [False, False, False, True, False]
    assert len(data.in_pairs()) == 4
    with pytest.raises(InputError, match=r"tells the counters of all of a\+c"):
        read(head + "a,b,10,1,1,2,0.5\nc,b,1,1,1,2,0.5\nb,a+c,3,2,1,,\n")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("resnet50 (batch size 16)", "resnet50"), ("resnet50-bs32", "resnet50"), ("resnet50_64", "resnet50"),
        ("bt.B.x", "bt"), ("gemm-small", "gemm"), ("graph-walk", "graph-walk"), ("app07", "app07"), ("64", "64"),
    ],
)  # fmt: skip
def test_a_family_is_a_name_without_its_sizes(name: str, family: str) -> None:
    assert family_by_name(name) == family


def test_families_come_from_the_column_else_from_names_else_from_nothing() -> None:
    names = ("a-1", "a-2", "b-1", "c", "d", "e")
    assert families_of(names, {"a-1": "x"})[1] == BY_COLUMN
    found, origin = families_of(names, {})
    assert (found["a-1"], found["a-2"], origin) == ("a", "a", BY_NAME)
    assert families_of(("job-1", "job-2", "job-3"), {})[1] == EACH, "one family would leave none to hold out"
    with pytest.raises(InputError, match="says that a is of the family y, another line x"):
        read(HEAD.strip() + ",family\na,b,1,1,1,1,x\na,c,1,1,1,1,y\n")


def test_no_fold_divides_a_family() -> None:
    rows = [
        f"{one}-{size},{other}-{beside},{at % 7},5,{at},{at % 5}"
        for at, (one, size, other, beside) in enumerate(
            (one, size, other, beside) for one in "klmnopqr" for size in (16, 32) for other in "klmnopqr"
            for beside in (16, 32)
        )
    ]  # fmt: skip
    data = read(HEAD + "\n".join(rows))
    for fold in folds.by_application(data, 0):
        known = {name.split("-")[0] for name in data.only(fold.learn).applications}
        asked = {name.split("-")[0] for name in data.only(fold.ask).applications}
        assert known
        assert asked
        assert not known & asked
    one_family = parse_coruns(HEAD.strip() + ",family\n" + "\n".join(f"{row},same" for row in rows), "x.csv", True)
    with pytest.raises(InputError, match="of one family only"):
        folds.by_application(one_family, 0)
    assert np.isfinite(data.truth).all()
