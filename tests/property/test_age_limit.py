"""First-fit with an age limit: the compiled pass, the event-by-event world and the readable form agree."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.app.simulate.simulation import prepare
from tests.breadth import examples
from tests.support.builders import TraceRow, prepared_trace
from tests.support.engines import ENGINES, schedule
from tests.support.strategies import traces


@settings(max_examples=examples(60), deadline=None)
@given(traces(), st.sampled_from(["age", "fcfs"]), st.sampled_from([{"age_limit_s": 5.0}, {"age_limit_runs": 1.5}]))
def test_every_engine_stops_at_an_old_job(
    trace: tuple[list[TraceRow], int], order: str, limit: dict[str, float]
) -> None:
    rows, nodes = trace
    plain = prepared_trace(rows, nodes)
    policy = msgspec.structs.replace(plain.scenario.policy, order=order, backfill="first-fit", **limit)
    prepared = prepare(msgspec.structs.replace(plain.scenario, policy=policy), plain.workload)
    found = [schedule(prepared, engine) for engine in ENGINES]
    assert found[0].starts_us == found[1].starts_us == found[2].starts_us
    assert found[0].nodes == found[1].nodes == found[2].nodes


def test_an_old_job_is_not_overtaken_any_more() -> None:
    """A wide job waits behind a long narrow one; after 10 s small ones may not pass it any more."""
    second = 1_000_000
    rows = [
        TraceRow(0, 100 * second, 100 * second, 1), TraceRow(1 * second, 5 * second, 5 * second, 2),
        TraceRow(5 * second, 1 * second, 1 * second, 1), TraceRow(20 * second, 1 * second, 1 * second, 1),
    ]  # fmt: skip
    plain = prepared_trace(rows, 2)
    for limit, expected in ((10.0, 105), (1000.0, 20)):
        policy = msgspec.structs.replace(plain.scenario.policy, order="age", backfill="first-fit", age_limit_s=limit)
        prepared = prepare(msgspec.structs.replace(plain.scenario, policy=policy), plain.workload)
        for engine in ENGINES:
            starts = schedule(prepared, engine).starts_us
            assert starts == (0, 100 * second, 5 * second, expected * second), engine
