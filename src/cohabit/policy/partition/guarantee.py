"""Give a job that measurably falls below alpha ways, then bandwidth, then a slower neighbour, until it recovers (ours).

Wraps the usual division of a placement and corrects it by measurements (S36, B-S2 of the specification; the
paper has no such loop). A job whose mean progress and last two windows are below its bound takes ways from the
neighbour that loses least by its profile; has a neighbour held to the bandwidth it booked; or throttled further. Only
neighbours that keep their own bound by measurement give anything. A step that does not help within two windows is
undone and the next kind tried; after a long calm, steps are given back one by one. It does badly where no job
on the node has anything to spare, where progress cannot be measured, and where phases are shorter than two windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cohabit.core.columns import ATTEMPT
from cohabit.core.protocols import Answer, Corrected, Partitioner
from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import Tenant
from cohabit.policy.needs import CHANNEL, Need
from cohabit.policy.partition.giving import (
    FAR_BELOW,
    LARGE_STEP,
    STEP_PERCENT,
    STEP_WAYS,
    Division,
    Place,
    Shares,
    giver_of_bandwidth,
    giver_of_ways,
    speed_kept,
)

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions

WAYS, HOLD, THROTTLE = "ways", "bandwidth", "throttle"
STEPS = (WAYS, HOLD, THROTTLE)
PATIENCE = 2  # windows below the bound before the first step, and after each step
CALM = 6  # windows well above it before something is given back; twice as many after every relapse
MOST_CALM = 96
AIM = 0.015  # of speed alone above the bound: below that a step is taken, before the promise is broken
MARGIN = 0.03  # of speed alone: a job less than this above its bound has nothing to give
HORIZON_US = 600_000_000  # older progress counts for less
LEAST_GAIN = 0.01  # of speed alone: a step that brings less did not help
MOST_LINES = 20  # of a job's story

About = dict[str, Any]


class Guarantee:
    """Corrections of `base`, the default division of the placement."""

    name = "guarantee"
    needs = (Need(CHANNEL, "a job that falls short of its promise gets no more cache", False),)

    def __init__(self, options: PlacementOptions, base: Partitioner | None) -> None:
        self.base, self.alpha = base, options.alpha  # of jobs that state no bound

    def split(self, tenants: Sequence[Tenant], node: NodeGroup) -> Shares:
        """Return the division before corrections: the default one, or one mask for all if nothing is divided."""
        return [(0, node.ways)] * len(tenants) if self.base is None else self.base.split(tenants, node)

    def correct(
        self, rows: Sequence[int], shares: Shares, node: NodeGroup, view: View, memory: dict[str, Any]
    ) -> Corrected:
        """Apply all that jobs on this node have taken from each other."""
        names = [view.job_id(row) for row in rows]
        division = Division(shares, node)
        cores = [view.tenant(row, _kind(node, view)).cores for row in rows]
        caps: dict[str, int] = {}
        for place, name in enumerate(names):
            about = memory["jobs"].get(name, {})
            for giver, ways in about.get("taken", {}).items():
                if giver in names:
                    if division.can_leave(place):
                        division.leave(place, cores)
                    division.give(names.index(giver), place, ways)
            for other, percent in about.get("holds", {}).items():
                if other in names:
                    caps[other] = min(percent, caps.get(other, 100))
        return Corrected(division.shares(), tuple(sorted(caps.items())))

    # ---- measurements -----------------------------------------------------------------------------------------------

    def measured(self, row: int, progress: float, window_us: int, view: View, memory: dict[str, Any]) -> Answer:
        """Count windows below and above the bound; act after enough of them."""
        about, bound = self._about(row, view, memory), self._bound(row, view)
        beside = sorted({view.job_id(other) for other in _neighbours(row, view)})
        if about["beside"] != beside:  # other neighbours: earlier steps no longer say anything
            about |= {"beside": beside, "low": 0, "calm": 0, "spent": [], "trial": None}
        share = min(1.0, HORIZON_US / max(about["span_us"], 1))
        about["span_us"] = round(share * about["span_us"]) + window_us
        about["done_us"] = share * about["done_us"] + progress * window_us
        about["recent"] = [*about["recent"], progress][-PATIENCE:]
        mean, last = _mean(about), _last(about)
        if not beside or mean is None:
            return Answer()
        if max(mean, progress) < bound + AIM:
            about["low"], about["calm"] = about["low"] + 1, 0
        elif mean >= bound + MARGIN and last >= bound:
            about["low"], about["calm"] = 0, about["calm"] + 1
        else:
            about["low"] = 0
        if about["low"] >= PATIENCE and view.now_us >= about["not_before_us"]:
            about["low"] = 0
            return self._help(row, bound, view, memory)
        if about["calm"] >= about["patience"]:
            about["calm"] = 0
            return self._give_back(row, bound, view, memory)
        return Answer()

    def refused(self, rows: Sequence[int], until_us: int, view: View, memory: dict[str, Any]) -> Answer:
        """Drop refused corrections: what these jobs took and what was taken from them."""
        names = {view.job_id(row) for row in rows}
        concerned = list(rows)
        for row in rows:
            about = self._about(row, view, memory)
            about |= {"taken": {}, "holds": {}, "not_before_us": until_us, "low": 0, "calm": 0, "trial": None}
        for about in memory["jobs"].values():
            for key in ("taken", "holds"):
                about[key] = {name: amount for name, amount in about[key].items() if name not in names}
        reason = f"shares of job {', job '.join(sorted(names))} were refused: corrections are taken back"
        for row in rows:
            self._log(self._about(row, view, memory), view, reason)
        return Answer(tuple(concerned), reason)

    def story(self, job_id: str, memory: dict[str, Any]) -> list[tuple[int, str]]:
        """Return what was done for a job or at its cost."""
        return [(at_us, text) for at_us, text in memory["jobs"].get(job_id, {}).get("log", [])]

    # ---- help -------------------------------------------------------------------------------------------------------

    def _help(self, row: int, bound: float, view: View, memory: dict[str, Any]) -> Answer:
        """Take one step for a job that is too slow."""
        about, name = memory["jobs"][view.job_id(row)], view.job_id(row)
        mean, last = _mean(about), _last(about)
        said = f"job {name} makes {last:.2f} of its speed alone, {mean:.2f} on average, and is to keep {bound:.2f}"
        if about["gave_back"]:  # a step was given back too early
            about["gave_back"], about["patience"] = False, min(2 * about["patience"], MOST_CALM)
        if back := _take_back(name, memory):
            return self._done(row, view, memory, f"{said}: it takes back {back}")
        trial, undone = about["trial"], ""
        if trial is not None and last - trial["from"] < LEAST_GAIN:
            about["taken"], about["holds"] = dict(trial["taken"]), dict(trial["holds"])
            about["spent"].append(trial["step"])
            undone = f"{trial['what']} did not help ({trial['from']:.2f} before) and is undone"
        about["trial"] = None
        places = self._places(row, view, memory)
        for step in STEPS:
            if step in about["spent"]:
                continue
            before = {"step": step, "from": last, "taken": dict(about["taken"]), "holds": dict(about["holds"])}
            what = self._take(step, row, places, view, memory)
            if what:
                about["trial"] = before | {"what": what}
                return self._done(row, view, memory, f"{said}: {'; '.join(filter(None, (undone, what)))}")
        if undone:
            return self._done(row, view, memory, f"{said}: {undone}, and no job has anything else to give")
        if not about["stuck"]:
            about["stuck"] = True
            self._log(about, view, f"{said}, but no job beside it has anything to give")
        return Answer()

    def _take(self, step: str, row: int, places: list[Place], view: View, memory: dict[str, Any]) -> str:
        """Take from the neighbour that loses least on each class of its nodes; return what was taken, as text."""
        about = memory["jobs"][view.job_id(row)]
        words: dict[str, str] = {}

        def may_give(row: int, kept: float, untold: bool = False) -> bool:
            return self._may_give(row, kept, view, memory, untold)

        for place in places:
            own = place.rows.index(row)
            if step == WAYS:
                ways = LARGE_STEP if _last(about) < self._bound(row, view) - FAR_BELOW else STEP_WAYS
                giver = giver_of_ways(own, ways, place, may_give)
                if giver is not None and (name := view.job_id(place.rows[giver])) not in words:
                    about["taken"][name] = about["taken"].get(name, 0) + ways
                    kept = speed_kept(place.tenants[giver], place.division.ways_of(giver), ways)
                    words[name] = f"{ways} ways from job {name} ({self._standing(place.rows[giver], view, memory)}"
                    words[name] += f", expected to lose {100 * (1 - kept):.1f} %)"
                continue
            holds = {other: about["holds"].get(view.job_id(other), 0) for other in place.rows}
            found = giver_of_bandwidth(own, step == THROTTLE, place, holds, may_give)
            if found is not None and (name := view.job_id(place.rows[found[0]])) not in words:
                about["holds"][name] = found[1]
                does = "is held to the bandwidth it booked," if step == HOLD else "is throttled to"
                standing = self._standing(place.rows[found[0]], view, memory)
                words[name] = f"job {name} {does} {found[1]} % of what its cores can draw ({standing})"
        for name, text in words.items():
            other = self._about(next(r for p in places for r in p.rows if view.job_id(r) == name), view, memory)
            self._log(other, view, f"for job {view.job_id(row)}: {text}")
        return " and ".join(words.values())

    def _give_back(self, row: int, bound: float, view: View, memory: dict[str, Any]) -> Answer:
        """Undo one step, the harshest first."""
        about, name = memory["jobs"][view.job_id(row)], view.job_id(row)
        about |= {"spent": [], "trial": None, "stuck": False}
        if about["holds"]:
            other = min(about["holds"], key=lambda one: (about["holds"][one], one))
            percent = about["holds"][other] + 2 * STEP_PERCENT
            if percent >= 100:
                del about["holds"][other]
                what = f"job {other} may draw what it likes again"
            else:
                about["holds"][other] = percent
                what = f"job {other} may draw {percent} % of what its cores can"
        elif about["taken"]:
            other = list(about["taken"])[-1]
            ways = min(STEP_WAYS, about["taken"][other])
            about["taken"][other] -= ways
            what = f"{ways} ways go back to job {other}"
            if about["taken"][other] <= 0:
                del about["taken"][other]
        else:
            return Answer()
        about["gave_back"] = True
        calm = f"job {name} makes {_last(about):.2f} of its speed alone, {_mean(about):.2f} on average, above its "
        return self._done(row, view, memory, f"{calm}{bound:.2f} for {about['patience']} windows: {what}")

    # ---- jobs and their nodes ---------------------------------------------------------------------------------------

    def _may_give(self, row: int, kept: float, view: View, memory: dict[str, Any], untold: bool = False) -> bool:
        """Return whether a job keeps its bound at this share of its speed; `untold`: also if it was not measured."""
        about = memory["jobs"].get(view.job_id(row))
        mean = None if about is None else _mean(about)
        if about is None or mean is None:
            return untold
        if about["not_before_us"] > view.now_us:
            return False
        bound = self._bound(row, view)
        return mean * kept >= bound + MARGIN and _last(about) >= bound

    def _bound(self, row: int, view: View) -> float:
        return view.job(row).alpha or self.alpha

    def _standing(self, row: int, view: View, memory: dict[str, Any]) -> str:
        about = memory["jobs"].get(view.job_id(row))
        mean = None if about is None else _mean(about)
        return f"{'not measured' if mean is None else f'at {mean:.2f}'}, bound {self._bound(row, view):.2f}"

    def _places(self, row: int, view: View, memory: dict[str, Any]) -> list[Place]:
        found, ledger = [], view.ledger
        for index in sorted(ledger.classes_of[row], key=lambda one: int(ledger.first[one])):
            rows, kind = ledger.residents[index], int(ledger.kind[index])
            node = view.kinds.groups[kind]
            if len(rows) > 1 and node.ways:
                tenants = [view.tenant(one, kind) for one in rows]
                shares = self.correct(rows, self.split(tenants, node), node, view, memory).shares
                booked = [view.booked_mbs(one) / 1000 for one in rows]
                found.append(Place(rows, tenants, booked, node, Division(shares, node)))
        return found

    def _about(self, row: int, view: View, memory: dict[str, Any]) -> About:
        about: About = memory["jobs"].setdefault(
            view.job_id(row),
            {
                "attempt": int(view.jobs[ATTEMPT, row]),
                "beside": [],
                "low": 0,
                "calm": 0,
                "patience": CALM,
                "span_us": 0,
                "done_us": 0.0,
                "recent": [],
                "taken": {},
                "holds": {},
                "spent": [],
                "trial": None,
                "gave_back": False,
                "stuck": False,
                "not_before_us": 0,
                "log": [],
            },
        )
        return about

    def _done(self, row: int, view: View, memory: dict[str, Any], text: str) -> Answer:
        self._log(memory["jobs"][view.job_id(row)], view, text)
        memory["jobs"][view.job_id(row)]["stuck"] = False
        return Answer((row,), text)

    @staticmethod
    def _log(about: About, view: View, text: str) -> None:
        about["log"] = [*about["log"], [view.now_us, text]][-MOST_LINES:]


def _take_back(name: str, memory: dict[str, Any]) -> str:
    """Give back to this job what others took from it; return that as text, empty if they have nothing."""
    words = []
    for other, about in memory["jobs"].items():
        if (percent := about["holds"].pop(name, 0)) != 0:
            words.append(f"the bandwidth above {percent} % it gave up for job {other}")
        elif (ways := about["taken"].pop(name, 0)) != 0:
            words.append(f"{ways} ways from job {other}")
        else:
            continue
        about |= {"trial": None, "low": 0}
    return " and ".join(words)


def _mean(about: About) -> float | None:
    return about["done_us"] / about["span_us"] if about["span_us"] > 0 else None


def _last(about: About) -> float:
    """Return the mean over the windows after which a step is taken."""
    return float(sum(about["recent"]) / len(about["recent"]))


def _neighbours(row: int, view: View) -> set[int]:
    ledger = view.ledger
    return {other for index in ledger.classes_of.get(row, ()) for other in ledger.residents[index]} - {row}


def _kind(node: NodeGroup, view: View) -> int:
    return view.kinds.groups.index(node)
