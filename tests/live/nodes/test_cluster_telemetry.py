"""Telemetry of a cluster: a row for every node and none for a stranger, files of LDMS that grow, and keys refused."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.steer.cluster_telemetry import (
    ClusterTelemetry,
    ClusterTelemetryTable,
    LdmsSource,
    source_of,
    table_of,
)
from cohabit.backend.steered.marks import stated_type, unknown_type
from cohabit.model.errors import InputError
from cohabit.model.event import Event, TelemetryReduced
from cohabit.model.node_report import Sample
from cohabit.model.profile import ScaleProfile
from cohabit.model.telemetry import decode
from cohabit.policy.gate.variability import shown_by


def now_us() -> int:
    return time.time_ns() // 1000


def test_every_node_has_a_row_of_its_own() -> None:
    told: list[Event] = []

    async def tell(event: Event) -> None:
        told.append(event)

    table = ClusterTelemetryTable(every_s=0.05, window_s=1.0)
    found = ClusterTelemetry(table, ("n0", "n1", "n2"), None, tell, lambda: 77)

    async def go() -> None:
        task = asyncio.create_task(found.live())
        for _ in range(16):
            found.sampled("n0", [Sample(now_us(), {"load.load_1m": 1.0})])
            found.sampled("n1", [Sample(now_us(), {"load.load_1m": 5.0, "disk.in_flight": 2.0})])
            found.sampled("n9", [Sample(now_us(), {"load.load_1m": 9.0})])
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())
    last = told[-1]
    assert isinstance(last, TelemetryReduced)
    window = decode(last.window)
    assert (window.end_us, window.nodes) == (77, 3)
    assert set(window.counters) == {"load.load_1m", "disk.in_flight"}
    column = window.mean[:, window.counters.index("load.load_1m")]
    assert column[:2].tolist() == [1.0, 5.0]
    assert np.isnan(column[2])


def test_a_file_of_ldms_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "loadavg.csv"
    source = LdmsSource([path])
    assert source.fetch(now_us()) == []  # not there yet, which is said
    path.write_text("#Time,Time_usec,ProducerName,load_1m\n100.0,0,n0,1.5\n101.0,0,n0,2.")
    first = [value for one in source.fetch(now_us()) for value in one.values[:, 0].tolist()]
    with path.open("a") as stream:
        stream.write("5\n")
    second = [value for one in source.fetch(now_us()) for value in one.values[:, 0].tolist()]
    assert (first, second) == ([1.5], [2.5]), "half a line waits for its end"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (ClusterTelemetryTable(canary=True, canary_limit_s=1), "canary_limit_s is 1"),
        (ClusterTelemetryTable(source="ganglia"), "source is 'ganglia'"),
        (ClusterTelemetryTable(source="prometheus"), "url is missing"),
        (ClusterTelemetryTable(source="ldms", files=("a",), url="http://x"), "url is given"),
        (ClusterTelemetryTable(), "there is no"),
    ],
)
def test_what_cannot_work_is_refused(table: ClusterTelemetryTable, words: str) -> None:
    with pytest.raises(InputError, match=words):
        table_of(table, gated=True, nodes=False, where="site.toml: telemetry")


def test_a_gate_listens_to_node_daemons_without_a_table() -> None:
    assert table_of(None, gated=True, nodes=True, where="") == ClusterTelemetryTable()
    assert table_of(None, gated=False, nodes=True, where="") is None
    assert source_of(ClusterTelemetryTable(), Path()) is None


def test_the_type_of_work_comes_from_the_comment_or_from_bytes() -> None:
    assert stated_type("mine cohabit:type=network") == "network"
    assert stated_type("cohabit:type=other") == stated_type("type=io") == stated_type("cohabit:type=ios") == ""
    assert unknown_type("a cohabit:type=other b") == "cohabit:type=other"
    assert unknown_type("cohabit:type= b") == "cohabit:type="
    assert unknown_type("cohabit:type=io, mine") == unknown_type("type=other") == ""
    assert shown_by(ScaleProfile(1, 5.0, counters={"network_bytes_mean": 5e7}), 4) == "network"
    assert shown_by(ScaleProfile(1, 5.0, counters={"network_bytes_mean": 5e7}), 8) == "compute"
