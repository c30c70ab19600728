"""Shepherd: put a job where the nodes gain most from it, given that each node's cache is divided as well as can be.

Shepherd (poster, PACT 2017), taken online: a newcomer goes to the node with the largest gain in the sum of speeds
against running alone, as profiles predict it (policy/forecast.py); nothing but cores and memory is booked, because the
cache is divided anew after every change (policy/partition/utility.py). It waits where every node would lose more than
the newcomer brings, or a neighbour its bound. At most `moves` running jobs per decision change their L3 domain within
one server, if their owners allow it. It does badly where profiles are wrong, and on clusters with room for everyone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from cohabit.model.plan import Ask, Move
from cohabit.model.profile import Tenant, demand
from cohabit.model.resources import CORES, MEMORY, Dimension, Wish
from cohabit.policy.exploration import Trials
from cohabit.policy.forecast import Forecast, Forecasts
from cohabit.policy.placement.wishes import alone, ask_for, wants_whole_nodes

if TYPE_CHECKING:
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.view import View
    from cohabit.policy.placement.options import PlacementOptions

KEPT = "shepherd"  # under this name kinds of residents are kept between decisions
LEAST_GAIN = 0.01  # of a move, in speeds against running alone: less is not worth refilling a cache
DIGITS = 9  # what is a tie on paper must be one here
Kinds = list[int] | None  # of a node's residents; None: of one of them nothing is known


class Shepherd:
    """Gains by forecast; what has no profile runs alone and is measured."""

    exclusive = False

    def __init__(self, alpha: float = 0.0, moves: int = 0, trials: Trials | None = None) -> None:
        self.alpha, self.most_moves, self.trials = alpha, moves, trials
        self.dimensions: tuple[Dimension, ...] = (CORES, MEMORY)
        self.forecasts = Forecasts()

    @classmethod
    def from_options(cls, options: PlacementOptions) -> Shepherd:
        """Made as the scenario says."""
        return cls(options.bound, options.moves, Trials((1,)) if options.learn else None)

    def asks(self, row: int, view: View) -> list[Ask]:
        """Compact and shared if its profile is known; otherwise alone, and measured."""
        job, node = view.job(row), view.node_type(row)
        compact = alone(row, view, self.dimensions)
        if wants_whole_nodes(job) or not node.ways:
            return compact
        found: list[Ask] = []
        if self.trials is not None and job.program:
            known, under_way = view.profiles_of(job.program), view.trials_of(job.program)
            trial = self.trials.due(job, known, node.cores, under_way)
            if trial is not None:
                found += alone(row, view, self.dimensions, trial.scale, trial.purpose)
        profile = view.profile(job.program, job.processes)
        wanted = None if profile is None else demand(profile, 1, job.processes, 1.0, node, view.need(row))
        if wanted is not None and not wanted.alone:
            wish = Wish(job, profile, 1, wanted.nodes, wanted.cores, 0, wanted.bandwidth_gbs)
            found.append(ask_for(wish, self.dimensions, view, row))
        return found + compact  # the last resort: whoever may use an empty node must never wait for ever

    def find(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """The nodes that gain most from the job; None where too few of them gain at all."""
        if ask.exclusive:
            return ledger.find(takes, ask.nodes)
        gains = self._gains(row, ask.cores, np.flatnonzero(ledger.suitable(takes)).tolist(), ledger, view)
        parts: list[tuple[int, int]] = []
        missing = ask.nodes
        for _, _, index in sorted((-gain, int(ledger.first[index]), index) for index, gain in gains.items()):
            parts.append((index, min(missing, int(ledger.count[index]))))
            missing -= parts[-1][1]
            if not missing:
                return tuple(parts)
        return None

    def _gains(self, row: int, cores: int, classes: list[int], ledger: Ledger, view: View) -> dict[int, float]:
        """What nodes of these classes would gain from the job, where that is anything."""
        found: dict[int, float] = {}
        for kind in sorted({int(ledger.kind[index]) for index in classes}):
            forecast = self.forecasts.of(view.kinds.groups[kind])
            newcomer = self._kind(view.tenant(row, kind, cores), forecast)
            there = [(index, self._residents(index, ledger, view)) for index in classes if ledger.kind[index] == kind]
            known = [(index, kinds) for index, kinds in there if kinds is not None]
            if newcomer is None or not known:
                continue
            gains = forecast.gains([kinds for _, kinds in known], newcomer)
            found |= {
                index: round(float(gain), DIGITS) for (index, _), gain in zip(known, gains, strict=True) if gain > 0
            }
        return found

    def _residents(self, index: int, ledger: Ledger, view: View) -> Kinds:
        """Kinds on the nodes of a class, kept while its residents stay: a new set of residents is a new tuple."""
        kept, residents = view.kept.setdefault(KEPT, {}), ledger.residents[index]
        if index not in kept or kept[index][0] is not residents:
            kind = int(ledger.kind[index])
            forecast = self.forecasts.of(view.kinds.groups[kind])
            kinds = [self._kind(view.tenant(row, kind, ledger.takes[row][kind][0]), forecast) for row in residents]
            kept[index] = (residents, None if None in kinds else kinds)
        found: Kinds = kept[index][1]
        return found

    def _kind(self, tenant: Tenant, forecast: Forecast) -> int | None:
        bounded = tenant if tenant.alpha else tenant._replace(alpha=self.alpha)
        return forecast.kind_of(bounded) if forecast.knows(bounded) else None

    # ---- moves ------------------------------------------------------------------------------------------------------

    def moves(self, ledger: Ledger, touched: Collection[int], view: View) -> list[Move]:
        """Up to `moves` moves within servers on which something has changed, each the best one left."""
        if not self.most_moves or not touched:
            return []
        servers = sorted({int(view.kinds.server_of[node]) for node in touched})
        draft, found = ledger.draft(), list[Move]()
        while len(found) < self.most_moves:
            best = max(
                (move for server in servers for move in self._moves_within(server, draft, view)),
                key=lambda move: (move.gain, -move.row, -move.node), default=None,
            )  # fmt: skip
            if best is None or not draft.move(best.row, best.node):
                break
            found.append(best)
        return found

    def _moves_within(self, server: int, ledger: Ledger, view: View) -> list[Move]:
        """Every move between the nodes of a server that is worth it."""
        nodes = np.flatnonzero(view.kinds.server_of == server).tolist()
        at = {node: ledger.class_of(node) for node in nodes} if len(nodes) > 1 else {}
        found: list[Move] = []
        for node, index in at.items():
            kinds, rows = self._residents(index, ledger, view), ledger.residents[index]
            if kinds is None or not any(view.may_move(row) for row in rows):
                continue
            lost = self.forecasts.of(view.kinds.groups[int(ledger.kind[index])]).losses(kinds)
            for row, loss in zip(rows, lost.tolist(), strict=True):
                if not view.may_move(row):
                    continue
                fits = ledger.suitable(ledger.takes[row])
                open_to = sorted({other for target, other in at.items() if target != node and fits[other]})
                gains = self._gains(row, ledger.takes[row][int(ledger.kind[index])][0], open_to, ledger, view)
                found += [
                    Move(row, target, round(gains[other] - loss, DIGITS)) for target, other in at.items()
                    if target != node and other in gains and gains[other] - loss > LEAST_GAIN
                ]  # fmt: skip
        return found
