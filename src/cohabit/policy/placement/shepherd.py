"""Shepherd: put a job where the nodes gain most from it, given that each node's cache is divided as well as can be.

Shepherd (poster, PACT 2017), taken online: a newcomer goes to the node with the largest gain in the sum of speeds
against running alone, as profiles predict it (policy/forecast.py); nothing but cores and memory is booked, because the
cache is divided anew after every change (policy/partition/utility.py). It waits if every node would lose more than
the newcomer brings, or a neighbour its bound. At most `moves` running jobs per decision change their L3 domain within
one server, if their owners allow it. It does badly where profiles are wrong, and on clusters with room for all jobs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohabit.model.plan import Ask, Move
from cohabit.model.profile import Tenant, demand
from cohabit.model.resources import CORES, MEMORY, Dimension, Wish
from cohabit.policy.exploration import Trials
from cohabit.policy.forecast import Forecast, Forecasts, Kept
from cohabit.policy.needs import ALL_ALONE, DIVIDED
from cohabit.policy.placement.wishes import alone, ask_for, trial_run, wants_whole_nodes

if TYPE_CHECKING:
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions

KEPT = "shepherd"  # the key under which kinds of residents are kept between decisions
LEAST_GAIN = 0.01  # of a move, in speeds against running alone: less is not worth refilling a cache
DIGITS = 9  # a mathematical tie must be a tie here


class Shepherd:
    """Placement by forecast gain; jobs without a profile run alone and are measured."""

    exclusive = False
    needs = (ALL_ALONE, DIVIDED)
    picky = True  # it may refuse nodes that have room

    def __init__(self, options: PlacementOptions) -> None:
        self.alpha, self.most_moves = options.bound, options.moves
        self.trials = Trials((1,)) if options.learn else None
        self.dimensions: tuple[Dimension, ...] = (CORES, MEMORY)
        self.forecasts = Forecasts()

    def asks(self, row: int, view: View) -> list[Ask]:
        """Return compact shared footprints if the profile is known; otherwise run alone and measure."""
        job, node = view.job(row), view.node_type(row)
        compact = alone(row, view, self.dimensions)
        if wants_whole_nodes(job) or not node.ways:
            return compact
        found = trial_run(self.trials, row, view, node.cores, self.dimensions)
        profile = view.profile(job.program, job.processes, job.profile_owner)
        wanted = None if profile is None else demand(profile, 1, job.processes, 1.0, node, view.need(row))
        if wanted is not None and not wanted.alone:
            wish = Wish(job, profile, 1, wanted.nodes, wanted.cores, 0, wanted.bandwidth_gbs)
            found.append(ask_for(wish, self.dimensions, view, row))
        return found + compact  # last resort: a job that may use an empty node must not wait for ever

    def why_not(self, row: int, view: View) -> str:
        """Return that nodes have room but would lose by the job, if that is so."""
        ask = next((one for one in view.asks(row, self) if not one.exclusive), None)
        if ask is None:
            return ""
        room = view.ledger.room(ask.takes)
        if room < ask.nodes or self.find(row, ask, ask.takes, view.ledger, view) is not None:
            return ""
        return (
            f"{room} nodes have {ask.cores} cores free, but there its neighbours would lose more speed than it brings, "
            "or a job would fall below the speed promised to it (alpha)"
        )

    def find(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Return the nodes that gain most from the job; None if too few nodes gain."""
        if ask.exclusive:
            return ledger.find(takes, ask.nodes)
        fits = ledger.suitable(takes)
        classes, gains = [], []
        for kind in np.unique(ledger.kind[fits]).tolist():
            kept, there = self._residents(kind, np.flatnonzero(fits & (ledger.kind == kind)), ledger, view)
            forecast = self.forecasts.of(view.kinds.groups[kind])
            newcomer = self._kind(view.tenant(row, kind, ask.cores), forecast)
            if newcomer is not None and len(there):
                classes.append(there)
                gains.append(forecast.gains(kept.nodes, there, newcomer).round(DIGITS))
        if not classes:
            return None
        found, gained = np.concatenate(classes), np.concatenate(gains)
        parts: list[tuple[int, int]] = []
        missing = ask.nodes
        for place in np.lexsort((ledger.first[found], -gained)).tolist():
            if gained[place] <= 0:
                break
            parts.append((int(found[place]), min(missing, int(ledger.count[found[place]]))))
            missing -= parts[-1][1]
            if not missing:
                return tuple(parts)
        return None

    def _residents(
        self, kind: int, classes: NDArray[np.int64], ledger: Ledger, view: View
    ) -> tuple[Kept, NDArray[np.int64]]:
        """Return the residents of these classes, all of one kind, and the classes whose residents are all known."""
        forecast, residents = self.forecasts.of(view.kinds.groups[kind]), ledger.residents
        kept = view.kept.setdefault(KEPT, {}).setdefault(kind, Kept(forecast))
        kept.grow(len(residents))
        seen = kept.seen
        for index in classes.tolist():
            if seen[index] is not residents[index]:
                kinds = [
                    self._kind(view.tenant(row, kind, ledger.takes[row][kind][0]), forecast) for row in residents[index]
                ]
                kept.note(index, residents[index], kinds)
        return kept, classes[kept.known[classes]]

    def _kind(self, tenant: Tenant, forecast: Forecast) -> int | None:
        bounded = tenant if tenant.alpha else tenant._replace(alpha=self.alpha)
        return forecast.kind_of(bounded) if forecast.knows(bounded) else None

    # ---- moves ------------------------------------------------------------------------------------------------------

    def moves(self, ledger: Ledger, touched: Collection[int], view: View) -> list[Move]:
        """Return up to `moves` moves within servers that have changed, each the best one left."""
        if not touched:
            return []
        servers = sorted({int(view.kinds.server_of[node]) for node in touched})
        found: list[Move] = []
        while len(found) < self.most_moves:
            if found:
                ledger = ledger.draft() if len(found) == 1 else ledger  # the first one was decided on the real state
                ledger.move(found[-1].row, found[-1].node)
            best = max(
                (move for server in servers for move in self._moves_within(server, ledger, view)),
                key=lambda move: (move.gain, -move.row, -move.node),
                default=None,
            )
            if best is None:
                break
            found.append(best)
        return found

    def _moves_within(self, server: int, ledger: Ledger, view: View) -> list[Move]:
        """Return every worthwhile move between the nodes of a server; they are all of one kind except for windows."""
        nodes = np.flatnonzero(view.kinds.server_of == server)
        classes = ledger.class_at[nodes].astype(np.int64)
        kind = int(ledger.kind[classes[0]])
        if len(nodes) < 2 or not view.kinds.groups[kind].ways or (ledger.kind[classes] != kind).any():
            return []
        kept, known = self._residents(kind, classes, ledger, view)
        forecast, targets = self.forecasts.of(view.kinds.groups[kind]), known[ledger.up[known]]
        gains: dict[int, dict[int, float]] = {}  # by kind of job, then by class of nodes
        found: list[Move] = []
        for node, index in zip(nodes.tolist(), classes.tolist(), strict=True):
            movable = [(seat, row) for seat, row in enumerate(ledger.residents[index]) if view.may_move(row)]
            if not movable or not kept.known[index]:
                continue
            lost = forecast.losses(kept.nodes.kinds[index])
            for seat, row in movable:
                own = int(kept.nodes.kinds[index, seat])
                if own not in gains:
                    gained = forecast.gains(kept.nodes, targets, own)
                    gains[own] = dict(zip(targets.tolist(), gained.tolist(), strict=True))
                for target, other in zip(nodes.tolist(), classes.tolist(), strict=True):
                    better = gains[own].get(other, -np.inf) - lost[seat]
                    if better > LEAST_GAIN and target != node and _has_room(ledger, other, row, kind):
                        found.append(Move(row, target, round(float(better), DIGITS)))
        return found


def _has_room(ledger: Ledger, index: int, row: int, kind: int) -> bool:
    return bool((ledger.free[:, index] >= ledger.takes[row][kind]).all())
