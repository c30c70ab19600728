"""Files of LDMS' store_csv: what their columns mean, totals turned into rates, and lines that are broken."""

from __future__ import annotations

import io

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.store import telemetry_ldms
from cohabit.store.telemetry_ldms import LdmsFile

BEGIN = 1_605_312_000
HEAD = "#Time,Time_usec,ProducerName,component_id,job_id,app_id,"
LUSTRE = (
    HEAD + "client.lstats.open#llite.scratch,client.lstats.read_bytes#llite.scratch,client.lstats.odd#llite.scratch\n"
)


def line(second: float, node: str, *values: object) -> str:
    return f"{BEGIN + second:.6f},{round(second % 1 * 1e6)},{node},1,0,0,{','.join(map(str, values))}\n"


def read(text: str | bytes, where: str = "lustre2_client.1605312000", source: str | None = None) -> LdmsFile:
    return LdmsFile(io.BytesIO(text.encode() if isinstance(text, str) else text), where, source)


def rows(file: LdmsFile) -> list[tuple[str, float, list[float]]]:
    """Node, seconds and values of every row."""
    return [
        (block.names[node], time_us / 1e6 - BEGIN, values.tolist())
        for block in file.rows()
        for node, time_us, values in zip(block.nodes.tolist(), block.times_us.tolist(), block.values, strict=True)
    ]


def test_totals_become_amounts_per_second() -> None:
    file = read(LUSTRE + line(0, "quartz1", 100, 5000, 1) + line(60, "quartz1", 160, 65000, 1))
    assert file.counters == ("lustre2_client.open", "lustre2_client.read_bytes")
    assert file.header.left_out == ("client.lstats.odd#llite.scratch",)
    found = rows(file)
    assert found[0][:2] == ("quartz1", 0.0)
    assert np.isnan(found[0][2]).all()
    assert found[1] == ("quartz1", 60.0, [1.0, 1000.0])
    assert not +file.defects


def test_nodes_are_told_apart_and_devices_added_up() -> None:
    head = HEAD + "ib.port_xmit_data#mlx5_0.1,ib.port_xmit_data#mlx5_1.1,ib.port_xmit_data.rate#mlx5_0.1\n"
    text = head + "".join(
        line(second, node, factor * second * 10, factor * second * 5, 99)
        for second in (0, 20, 40) for node, factor in (("a", 1), ("b", 2))
    )  # fmt: skip
    found = rows(read(text, "sysclassib.csv"))
    assert [(node, second) for node, second, _ in found] == [(n, s) for s in (0.0, 20.0, 40.0) for n in ("a", "b")]
    assert [values for _, _, values in found[2:]] == [[15.0], [30.0]] * 2


def test_one_device_that_was_reset_does_not_fall_below_nothing() -> None:
    head = HEAD + "port_xmit_data#a.1,port_xmit_data#b.1\n"
    file = read(head + line(0, "n", 10**9, 100) + line(10, "n", 5, 200) + line(20, "n", 105, 300), "sysclassib")
    assert rows(file)[1:] == [("n", 10.0, [pytest.approx(np.nan, nan_ok=True)]), ("n", 20.0, [20.0])]
    assert file.defects["counters that were reset"] == 1


def test_later_versions_name_sums_and_whole_seconds() -> None:
    head = "#Time,Time_usec,ProducerName,component_id,job_id,app_id,read_bytes.sum,write_bytes.sum\n"
    text = head + f"{BEGIN},500000,n,1,0,0,0,0\n{BEGIN + 10},500000,n,1,0,0,100,200\n"
    assert rows(read(text))[1] == ("n", 10.5, [10.0, 20.0])


def test_broken_lines_are_left_out_and_counted() -> None:
    text = (
        LUSTRE
        + line(0, "n", 0, 0, 0)
        + "1605312010.0,0,n,1,0\n"  # cut
        + line(20, "n", 20, "rubbish", 0)
        + LUSTRE  # the daemon was started again
        + line(30, "n", 30, 300, 0, 7, 7)
        + "soon,0,n,1,0,0,40,400,0\n"
        + line(40, "", 40, 400, 0)
        + "9e99,0,n,1,0,0,40,400,0\n"
        + "\n"
        + line(40, "n", 40, 400, 0)
        + line(40, "n", 40, 400, 0)
        + "1605312050.000000,0,n,1,0,0,5"
    )
    file = read(text.encode() + b"\xff\xfe")
    found = {second: values for _, second, values in rows(file)}
    assert sorted(found) == [0, 20, 40]
    assert found[40.0] == [1.0, pytest.approx(np.nan, nan_ok=True)]  # of the other, the total before is not known
    assert dict(+file.defects) == {
        "lines of another length": 2,
        "values that are not numbers": 1,
        "rows without a time or a node": 3,
        "rows whose time does not advance": 1,
        "lines cut short": 1,
    }


def test_a_gap_longer_than_a_window_gives_no_rate() -> None:
    file = read(LUSTRE + line(0, "n", 0, 0, 0) + line(301, "n", 301, 301, 0) + line(302, "n", 302, 302, 0))
    found = rows(file)
    assert np.isnan(found[1][2]).all()
    assert found[2][2] == [1.0, 1.0]
    assert file.defects["gaps longer than a window"] == 1


def test_blocks_are_seamless(monkeypatch: pytest.MonkeyPatch) -> None:
    text = LUSTRE + "".join(line(second, node, second, 7 * second, 0) for second in range(50) for node in "abc")
    whole = rows(read(text))
    monkeypatch.setattr(telemetry_ldms, "BLOCK_BYTES", 97)
    parts = rows(read(text))
    key = lambda one: (one[1], one[0])  # noqa: E731
    assert str(sorted(parts, key=key)) == str(sorted(whole, key=key))
    assert len(whole) == 150


@pytest.mark.parametrize(
    ("text", "source", "words"),
    [
        ("", None, "does not begin with the header"),
        ("1605312000.0,0,n,1\n", None, "put the header"),
        ("#Time,a,b\n", None, "does not begin with the header"),
        (HEAD + "MemFree,Cached\n", None, "no column is a counter of lustre2_client"),
        (LUSTRE, "lustre", "there is no source 'lustre'"),
        (LUSTRE, "opa_info", "no column is a counter of opa_info"),
    ],
)
def test_files_that_are_something_else(text: str, source: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(text, source=source)


def test_the_source_is_told_by_the_columns_where_the_name_does_not() -> None:
    assert read(HEAD + "DcRcvFcn#hfi1_0,TxWait#hfi1_0\n", "x.csv").counters == ("opa_info.DcRcvFcn", "opa_info.TxWait")
    with pytest.raises(InputError, match="no column is a known counter"):
        read(HEAD + "MemFree\n", "x.csv")
