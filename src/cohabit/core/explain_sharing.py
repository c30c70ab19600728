"""Explain waits for shared nodes: the scales tried, what the nearest node lacks, which jobs are there, until when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cohabit.core.columns import EXPECTED
from cohabit.core.explain_promises import promised_start, start_of_head
from cohabit.core.kernels.bundles import STRICT
from cohabit.core.ledger import Ledger, Takes
from cohabit.core.protocols import Explaining, GroupPlacer, PolicySet, Remarking, SharedPlacer
from cohabit.core.sharing import open_kinds
from cohabit.core.view import View
from cohabit.model.plan import Ask
from cohabit.model.resources import WITHOUT_LIMIT
from cohabit.model.units import FOREVER, counted, span

MOST_NAMES = 3  # most jobs named in a sentence
MOST_RUNNING = 1000  # with more running jobs it takes too long to compute when there is room


def why_not_shared(view: View, policies: PolicySet, placer: SharedPlacer, row: int, queue: list[int]) -> str:
    """Return the scales tried and what the nearest node lacked, or the job that may not be overtaken."""
    own = placer.why_not(row, view) if isinstance(placer, Explaining) else ""
    if own and isinstance(placer, GroupPlacer):
        return own
    age_limit_us = view.age_limit_us()
    strict = policies.backfill.depth == STRICT
    ahead = queue[: queue.index(row)]
    for other in ahead:
        if strict or view.waited_us(other) >= age_limit_us:
            until = start_of_head(view, policies, other, queue)
            return "; it is ".join(filter(None, (nothing_may_overtake(view, row, other, strict), until)))
    promised = start_of_head(view, policies, row, queue)
    if own:
        return f"{own}; {promised}" if promised else own
    tried = tried_asks(view, row, placer)
    if not tried:
        return "it fits on no number of nodes that is allowed for it"
    several = any(ask.scale > 1 for ask in tried)
    said = [(f"scale {ask.scale}: " if several else "") + _what_is_missing(ask, row, view) for ask in tried]
    said = list(dict.fromkeys(said))
    if promised:
        said.append(promised)
    elif (room_us := _room_at(view, [(open_kinds(ask, row, view), ask.nodes) for ask in tried])) is not None:
        said.append(f"by requested times there is room in {span(room_us - view.now_us)}")
    if ahead:
        kept = next((other for other in ahead if other in view.promises), row)
        when = f", one of them {promised_start(view, kept)}" if kept != row else ""
        said.append(f"{counted(len(ahead), 'job')} ahead of it{when}")
    if isinstance(placer, Remarking) and (remark := placer.remark(row, view)):
        said.append(remark)
    return "; ".join(said)


def nothing_may_overtake(view: View, row: int, other: int, strict: bool) -> str:
    """Return which job ahead may not be overtaken, and why not."""
    why = "nothing may overtake" if strict else "it has reached the age limit and may not be overtaken"
    return f"{named(view, row, [other])} is ahead of it and {why}"


def tried_asks(view: View, row: int, placer: SharedPlacer) -> list[Ask]:
    """Return the ways to run the job that are worth telling: alone only if there is no other."""
    asks = view.asks(row, placer)
    shared = [ask for ask in asks if not ask.exclusive]
    return asks if not shared else asks[: asks.index(shared[-1]) + 1]


class Missing(NamedTuple):
    """How far one way of running a job is from fitting."""

    text: str
    has_room: bool  # enough nodes have room for it
    among_strangers: bool  # too few of them without jobs that it may not run beside


def missing(ask: Ask, row: int, view: View) -> Missing:
    """Return how many nodes of the right kind have room for the job, run in this way."""
    ledger, takes = view.ledger, open_kinds(ask, row, view)
    if not any(takes):
        return Missing("a maintenance window closes the nodes it may use before its time is over", False, False)
    have = ledger.room(takes)
    if ask.exclusive:
        text = f"needs {counted(ask.nodes, 'empty node')}; {_number(have)} {_is(have)} empty"
    else:
        kind = next(kind for kind, wanted in enumerate(takes) if wanted)
        text = _needs(_amounts(ledger, kind, takes[kind]), ask.nodes, have)
    strangers = view.strangers(row)
    if have < ask.nodes or strangers is None:
        return Missing(text, have >= ask.nodes, False)
    trusted = np.array([not any(strangers[other] for other in there) for there in ledger.residents], np.bool_)
    return Missing(text, True, ledger.open_to(trusted).room(takes) < ask.nodes)


def _needs(amounts: list[str], nodes: int, have: int) -> str:
    """Return what a job needs on each of its nodes, and how many nodes have it free."""
    what = joined(amounts)
    if nodes > 1:
        return f"needs {what} on each of {nodes} nodes; {_number(have)} {'has' if have == 1 else 'have'} that free"
    if have:
        return f"needs {what} on one node; {have} {'has' if have == 1 else 'have'} that free"
    if what == "1 core":
        return "needs 1 core; none is free"
    return f"needs {what} on one node; none has {'both' if len(amounts) == 2 else 'that'} free"


def _what_is_missing(ask: Ask, row: int, view: View) -> str:
    """Return how far one way of running the job is from fitting, and what is there."""
    ledger, takes = view.ledger, open_kinds(ask, row, view)
    text, has_room, among_strangers = missing(ask, row, view)
    if not any(takes):
        return text
    if among_strangers:
        return f"{text}, but {view.strangers_there}"
    if has_room:
        if others := [other for other in view.promises if other != row]:
            return f"{text}, but a start now would delay {named(view, row, others)}, promised a start there"
        return text + ", but jobs ahead of it take them"
    if out := sum(int(ledger.count[index]) for index in ledger.classes() if not ledger.up[index]):
        text += f", {counted(out, 'node')} {_is(out)} down or drained"
    nearest = _nearest(ledger, takes)
    if nearest is None:
        return text
    node, lacks = nearest
    text += f"; the nearest, node {view.cluster.called(node)}, " + (
        "is not empty" if ask.exclusive else f"lacks {lacks}"
    )
    tenants = ledger.rows_on(node)
    holding = [other for other in tenants if view.is_holding(other)]
    running = [other for other in tenants if other not in holding]
    said = [f"{named(view, row, running)} {'runs' if len(running) == 1 else 'run'} there"] if running else []
    said += [f"it is {held_for(view, row, holding)}"] if holding else []
    return f"{text}: {joined(said)}" if said else text


def held_for(view: View, row: int, holding: Sequence[int]) -> str:
    """Return for which jobs nodes are held, as `row` may know them."""
    which = "waits for its mates" if len(holding) == 1 else "wait for their mates"
    return f"held for {named(view, row, holding)}, which {which}"


def named(view: View, row: int, others: Sequence[int]) -> str:
    """Name other jobs: those of the same user by name, three at most; job names of other users are private."""
    user = view.job(row).user
    known = others if view.names_all else [other for other in others if view.job(other).user == user]
    own = [view.job_id(other) for other in known]
    words = [f"job {name}" for name in own[:MOST_NAMES]]
    if more := len(own) - len(words):
        words.append(f"{more} more")
    if foreign := len(others) - len(own):
        words.append("a job of another user" if foreign == 1 else f"{foreign} jobs of other users")
    return joined(words)


def _room_at(view: View, wanted: Sequence[tuple[Takes, int]]) -> int | None:
    """Return when running jobs, ending at their limits, leave room for one of these; None: now, or unknown."""
    ledger = view.ledger.draft()

    def has_room() -> bool:
        return any(any(takes) and ledger.room(takes) >= nodes for takes, nodes in wanted)

    running = [other for other in view.running().tolist() if not view.is_holding(other)]
    running.sort(key=lambda other: int(view.jobs[EXPECTED, other]))
    if len(running) > MOST_RUNNING or has_room():
        return None
    for other in running:
        ledger.release(other)
        if has_room():
            end_us = int(view.jobs[EXPECTED, other])
            return None if end_us >= FOREVER else max(end_us, view.now_us)
    return None


def _nearest(ledger: Ledger, takes: Takes) -> tuple[int, str] | None:
    """Return the unsuitable node that lacks least, by the sum of missing fractions, and what it lacks."""
    best: tuple[float, int, str] | None = None
    for index in ledger.classes():
        kind = int(ledger.kind[index])
        if not takes[kind] or not ledger.up[index]:
            continue
        lacking = [max(0, want - int(free)) for want, free in zip(takes[kind], ledger.free[:, index], strict=True)]
        distance = sum(lack / max(int(cap), 1) for lack, cap in zip(lacking, ledger.capacity[kind], strict=True))
        if any(lacking) and (
            best is None or (distance, int(ledger.first[index])) < (best[0], int(ledger.first[best[1]]))
        ):
            best = (distance, index, joined(_amounts(ledger, kind, lacking)) or "a cache partition")
    return None if best is None else (int(ledger.first[best[1]]), best[2])


def _amounts(ledger: Ledger, kind: int, amounts: Sequence[int]) -> list[str]:
    """Return amounts in words, without resources of which this kind of node states no limit."""
    return [
        f"{amount / 1000:.1f} GB/s" if dimension.unit == "MB/s" else _amount(amount, dimension.unit)
        for dimension, amount, capacity in zip(ledger.dimensions, amounts, ledger.capacity[kind], strict=True)
        if amount and dimension.name != "partitions" and capacity < WITHOUT_LIMIT
    ]


def _amount(amount: int, unit: str) -> str:
    """Return an amount with its unit: 1 core, 2 cores; units of measurement have no plural."""
    return f"{amount} {unit[:-1]}" if amount == 1 and unit.endswith("s") and "/" not in unit else f"{amount} {unit}"


def joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _number(number: int) -> str:
    return str(number) if number else "none"


def _is(number: int) -> str:
    return "is" if number <= 1 else "are"
