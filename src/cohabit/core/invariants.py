"""The invariants that hold after every step, cheap enough for every test step; AssertionError has the numbers."""

from __future__ import annotations

import numpy as np

from cohabit.core.columns import BLOCKED, EXPECTED, FREE, HOLDING, LIMIT, NODES, QUEUED, RUNNING, START, STARTING, STATE
from cohabit.core.kernels.ladder import all_rows
from cohabit.core.ledger import STATES, ranges_of
from cohabit.core.state import DOWN, UP, State
from cohabit.core.timeline import planned

ON_NODES = (STARTING, RUNNING, HOLDING)


def check(state: State, now_us: int = 0) -> None:
    """Check that no node has two jobs, every job is in exactly one place, and counts agree with what they count.

    Arrays that kernels take must be contiguous: machine code that is called again does not look (compiled.py).
    """
    taken = [part for bundle in (state.queued, state.machine) for part in bundle] + [state.usage]
    arrays = [one for part in taken for one in (part if isinstance(part, tuple) else (part,))]
    assert all(one.flags.c_contiguous and one.flags.writeable for one in arrays), "kernels cannot take every array"
    if state.ledger is not None:
        check_shared(state)
        check_promises(state, now_us)
        return
    owner = np.full(len(state.node_state), -1)
    queued, running = set(all_rows(state.queue).tolist()), set(all_rows(state.running).tolist())
    for row in state.rows.values():
        where = state.jobs[STATE, row]
        assert where in (BLOCKED, QUEUED, *ON_NODES), f"row {row} is in state {where}"
        assert (row in queued) == (where == QUEUED), f"row {row}: state {where}, queued {row in queued}"
        assert (row in running) == (where in ON_NODES), f"row {row}: state {where}, running {row in running}"
        nodes = [node for first, count in state.ranges_of(row) for node in range(first, first + count)]
        if where not in ON_NODES:
            assert not nodes, f"row {row} waits but has nodes {nodes}"
            continue
        assert len(nodes) == state.jobs[NODES, row], f"row {row} asked for {state.jobs[NODES, row]}, has {len(nodes)}"
        crowded = np.isin(nodes, [node for node, (_, rows) in state.crowded.items() if row in rows])
        assert (crowded | (owner[nodes] < 0)).all(), f"row {row} shares nodes {nodes} with {owner[nodes]}"
        owner[nodes] = row
        usable = state.kinds.eligible(state.spec(row))[0]
        assert usable[state.kinds.of_node[nodes]].all(), f"row {row} is on nodes it may not use"
    idle = state.idle_nodes()
    assert not (idle & (owner >= 0)).any(), "a node is idle and busy"
    assert (idle == ((owner < 0) & (state.node_state == UP))).all(), "the idle set is wrong"
    assert not ((state.node_state == DOWN) & (owner >= 0)).any(), "a job runs on a lost node"
    assert int(idle.sum()) == state.gauges[FREE], f"{int(idle.sum())} idle, counted {state.gauges[FREE]}"
    assert len(queued) + len(running) <= len(state.rows)


def check_promises(state: State, now_us: int) -> None:
    """Check that every promised node has room when its promise begins, if all jobs end by their requests."""
    ledger = state.ledger
    assert ledger is not None
    assert set(ledger.promised_in) == set(state.promises), "a promise has no nodes, or nodes no promise"
    agreed = {} if state.coupled is None else {state.rows[name]: one.agreed_us for name, one in state.coupled.agreed}
    for row, one in state.promises.items():
        assert state.jobs[STATE, row] == QUEUED or row in agreed, f"row {row} has a promise and does not wait"
        assert ranges_of(ledger.nodes_promised_to(row)) == one.ranges, f"row {row} is promised other nodes"
        assert one.expected_us <= one.latest_us
        for index in ledger.promised_in[row]:
            kind, residents = int(ledger.kind[index]), ledger.residents[index]
            assert ledger.up[index], f"row {row} is promised nodes that take no jobs"
            late = any(
                state.jobs[EXPECTED, other] > state.jobs[START, other] + state.jobs[LIMIT, other]
                or state.spec(other).mates is not None  # it may have held its nodes before it started
                for other in residents
            )
            if late or one.latest_us <= now_us:
                continue
            taken = [ledger.takes[other][kind] for other in residents if state.jobs[EXPECTED, other] > one.latest_us]
            for other in ledger.promised[index]:
                begin_us = state.promises[other].latest_us
                if begin_us <= one.latest_us < begin_us + planned(int(state.jobs[LIMIT, other])):
                    taken.append(state.promises[other].ask.takes[kind])
            room = ledger.capacity[kind] - np.sum(taken, axis=0)
            assert (room >= 0).all(), f"row {row} would not find its promised nodes at {one.latest_us}: {room}"


def check_shared(state: State) -> None:
    """Check that nothing is overbooked, every node is in one class, every job in one place on as many nodes as due."""
    ledger = state.ledger
    assert ledger is not None
    seen = np.zeros(len(state.node_state), np.int64)
    for index in ledger.classes():
        nodes, kind = ledger.nodes[index], int(ledger.kind[index])
        assert nodes is not None
        assert len(nodes) == ledger.count[index] > 0
        seen[nodes] += 1
        assert (ledger.class_at[nodes] == index).all(), f"nodes of class {index} are noted elsewhere"
        assert (state.kinds.of_node[nodes] == kind).all(), f"class {index} mixes kinds"
        assert (state.node_state[nodes] == ledger.condition[index] % STATES).all(), f"class {index} mixes conditions"
        rows = ledger.residents[index]
        booked = np.sum([ledger.takes[row][kind] for row in rows], axis=0) if rows else np.zeros(len(ledger.dimensions))
        assert (booked <= ledger.capacity[kind]).all(), f"overbooked on nodes {nodes[:4]}: {booked}"
        others = ledger.condition[index] // STATES
        assert others or (ledger.capacity[kind] - booked == ledger.free[:, index]).all(), f"class {index} miscounts"
        alone = [row for row in rows if state.placed[row].exclusive]
        assert not alone or len(rows) == 1, f"row {alone} is not alone"
        crowd = {one for node in nodes.tolist() if node in state.crowded for one in state.crowded[node][1]}
        circles = {state.trust.circle(row) for row in rows if row not in crowd}
        assert len(circles) <= 1, f"rows {rows} share a node and do not trust each other"
    assert (seen == 1).all(), "a node is in no class or in two"
    queued, running = set(all_rows(state.queue).tolist()), set(all_rows(state.running).tolist())
    for row in state.rows.values():
        where = state.jobs[STATE, row]
        assert where in (BLOCKED, QUEUED, *ON_NODES), f"row {row} is in state {where}"
        assert (row in queued) == (where == QUEUED), f"row {row}: state {where}, queued {row in queued}"
        assert (row in running) == (where in ON_NODES), f"row {row}: state {where}, running {row in running}"
        assert (row in state.placed) == (row in ledger.takes) == (row in running), f"row {row} is half placed"
        if row in running:
            placement = state.placed[row]
            assert len(ledger.nodes_of(row)) == placement.nodes, f"row {row} has lost nodes"
            assert placement.nodes % placement.scale == 0, (
                f"row {row}: {placement.nodes} nodes at scale {placement.scale}"
            )
    assert set(ledger.takes) == running, "a job books nodes without running"
