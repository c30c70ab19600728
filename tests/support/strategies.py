"""Hypothesis strategies: random traces, choices of policies, machines and sequences of events."""

from __future__ import annotations

from hypothesis import strategies as st

from cohabit.model.units import SECOND
from cohabit.policy.registry import ORDERS, PLACEMENTS
from tests.support.builders import Choice, TraceRow
from tests.support.randomised import BACKFILLS, takes_backfill_order
from tests.support.rehearsal import KINDS, Deed

__all__ = ["choices", "deeds", "shared_choices", "traces"]


@st.composite
def traces(draw: st.DrawFn, most_jobs: int = 14, most_nodes: int = 10) -> tuple[list[TraceRow], int]:
    """Jobs in file order (not sorted by submission) and a machine; at least one job fits."""
    nodes = draw(st.integers(1, most_nodes))
    unit = draw(st.sampled_from([SECOND, SECOND, SECOND, 250_000, 1]))
    latest = draw(st.sampled_from([0, 5, 20, 60]))
    times = st.integers(0, draw(st.sampled_from([3, 12, 40])))
    sizes = st.one_of(st.integers(1, nodes), st.just(nodes), st.just(1), st.integers(1, nodes + 1))

    @st.composite
    def job(draw: st.DrawFn) -> TraceRow:
        run = draw(times)
        limit = draw(st.one_of(st.just(run), times, times.map(lambda more: run + more)))
        submit, user = draw(st.integers(0, latest)), draw(st.integers(-1, 2))
        return TraceRow(submit * unit, run * unit, limit * unit, draw(sizes), user)

    rows = draw(st.lists(job(), min_size=1, max_size=most_jobs))
    if all(row.size > nodes for row in rows):
        rows[0] = rows[0]._replace(size=nodes)
    return rows, nodes


@st.composite
def choices(draw: st.DrawFn, orders: tuple[str, ...] = tuple(ORDERS), backfills: tuple[str, ...] = BACKFILLS) -> Choice:
    """Any order, backfill and backfill order that go together."""
    order, backfill = draw(st.sampled_from(orders)), draw(st.sampled_from(backfills))
    second = draw(st.one_of(st.none(), st.sampled_from(orders))) if takes_backfill_order(backfill) else None
    return Choice(order, backfill, second)


@st.composite
def shared_choices(draw: st.DrawFn, orders: tuple[str, ...] = tuple(ORDERS)) -> Choice:
    """Any placement that shares nodes, with an order, with and without overtaking and an age limit."""
    placement = draw(st.sampled_from([name for name in PLACEMENTS if name != "exclusive"][::-1]))
    order, backfill = (
        draw(st.sampled_from(orders)),
        draw(st.sampled_from(["first-fit", "none", "easy", "2", "conservative"])),
    )
    limit_s = draw(st.sampled_from([0.0, 1.0, 20.0])) if backfill == "first-fit" else 0.0
    moves = draw(st.sampled_from([0, 2])) if placement == "shepherd" else 0
    return Choice(order, backfill, None, placement, limit_s, moves)


def deeds(most: int = 40, kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[list[Deed]]:
    """A sequence of events for a Rehearsal; plain submissions and waits are the simplest."""
    usual = tuple(kind for kind in ("submit", "wait", "finish", "confirm") if kind in kinds)
    kind = st.sampled_from([*usual, *usual, *kinds])
    deed = st.builds(Deed, kind, st.integers(0, 2**40), st.sampled_from([False, False, True]))
    return st.one_of(st.lists(deed, min_size=most // 2, max_size=most), st.lists(deed, min_size=1, max_size=most))
