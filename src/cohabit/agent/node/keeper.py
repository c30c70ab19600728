"""The work of the node daemon, one look at a time: the jobs on this node, their cores and groups, and what they use.

A job that its prolog reported gets a resctrl group at once. Its slurmstepd enters the group as soon as Slurm has
started it, and child processes inherit it. The cache is divided as the controller ordered. When a job has ended, its
groups are removed and what it used is passed on. The daemon never stops a job and never makes one wait: whatever fails
here, jobs run on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cohabit.agent.node import job_notices
from cohabit.agent.node.cores import Given, find_cores
from cohabit.agent.node.job_notices import Notice
from cohabit.agent.node.meter import JobMeter, Meter
from cohabit.agent.node.orders import Division, read_division
from cohabit.agent.node.processes import Processes
from cohabit.agent.node.stepping import Stepping
from cohabit.agent.profiling.episodes import Episode, tour_of
from cohabit.agent.resctrl.actuator import Actuator
from cohabit.agent.resctrl.wanted import Placed
from cohabit.agent.topology import Topology
from cohabit.model.command import SetShares

RELIEVE_S = 1.0  # interval at which memory traffic is compared with what jobs have booked
SETTLE_S = 15.0  # interval at which changes by others in resctrl are corrected
LOST_S = 30.0  # a job without an epilog counts as ended after its step daemons have been gone for so long
YOUNG_S, SELDOM_S = 10.0, 2.0  # while a job is young its processes are looked for at every step, later at this interval
Ask = Callable[[str], Given | None]  # the cores Slurm names for a job, where the kernel does not; None: wait


@dataclass(frozen=True)
class NodeRun:
    """A job that has left this node. `words` is Slurm's part of its environment; `alone`: no job was beside it."""

    notice: Notice
    given: Given
    cores: int
    alone: bool
    words: dict[str, str]
    means: dict[str, float]
    episodes: tuple[Episode, ...] = ()  # by ways, of a run whose curves were wanted

    @property
    def seconds(self) -> float:
        """Seconds from its prolog to its epilog."""
        return self.notice.ended_s - self.notice.begun_s


@dataclass
class Resident:
    """A job on this node."""

    notice: Notice
    meter: JobMeter
    given: Given = field(default_factory=Given)
    asked: bool = False
    alone: bool = True
    words: dict[str, str] = field(default_factory=dict)
    step_daemons: set[int] = field(default_factory=set)  # all that have been seen
    present: tuple[int, ...] = ()  # those of the last look: the kernel reuses process ids
    entered: set[int] = field(default_factory=set)  # threads that were put into its groups
    seen_s: float = 0.0  # when one of its step daemons was last seen
    stepping: Stepping | None = None  # its curves are wanted


class Keeper:
    """One node. `place` is its folder of notices, `orders` the source of divisions (None: the cache is not divided),
    `ways` what may be stepped for curves (0: nothing), `look` how a look at the manager's processes is taken."""

    def __init__(
        self,
        node: str,
        place: Path,
        topology: Topology,
        actuator: Actuator,
        meter: Meter,
        ask: Ask,
        done: Callable[[NodeRun], None],
        orders: Path | None = None,
        ways: int = 0,
        look: Callable[[], Processes] = Processes,
    ) -> None:
        self.node, self.place, self.topology, self.actuator, self.meter = node, place, topology, actuator, meter
        self._ask, self._done, self._orders, self._ways = ask, done, orders, ways
        self._look = look
        self.residents: dict[str, Resident] = {}
        self._division = Division()
        self._settled_s = self._looked_s = self._relieved_s = 0.0
        self._unfinished, self._fresh = False, True

    def step(self, now_s: float) -> None:
        """Do one look; `now_s` is Unix time, as in files."""
        notices = job_notices.read(self.place)
        for number in job_notices.unknown_ends(self.place):
            job_notices.forget(self.place, number)
        changed = self._arrivals(notices, now_s)
        if self._fresh:  # jobs of an earlier daemon keep what the kernel says they have
            self.actuator.adopt()
            self._fresh = False
        running = {number: one for number, one in notices.items() if not one.ended_s}
        processes = self._processes(running, now_s)
        if processes is not None:
            for number in running:
                self._tend(self.residents[number], processes, now_s)
        ended = [number for number, one in notices.items() if one.ended_s]
        known = ((number, self.residents[number]) for number in running)
        ended += [number for number, one in known if one.step_daemons and now_s - one.seen_s > LOST_S]
        changed = self._order() or changed
        for number in running.keys() - set(ended):
            changed = self._step_ways(self.residents[number], now_s) or changed
        for number in ended:
            self._leave(number, notices[number])
        if now_s - self._relieved_s > RELIEVE_S:
            self._relieved_s = now_s
            changed = self.actuator.relieve(now_s) or changed
        if changed or ended or self._unfinished or now_s - self._settled_s > SETTLE_S:
            self._apply(now_s)
        if processes is not None:
            for number in running.keys() - set(ended):
                self._enter(self.residents[number], processes)

    def _processes(self, running: dict[str, Notice], now_s: float) -> Processes | None:
        """Look at all processes, which costs milliseconds: often only while a job is young."""
        young = any(now_s - one.begun_s < YOUNG_S for one in running.values())
        if not running or (not young and now_s - self._looked_s < SELDOM_S):
            return None
        self._looked_s = now_s
        return self._look()

    def _arrivals(self, notices: dict[str, Notice], now_s: float) -> bool:
        new = [number for number in notices if number not in self.residents]
        for number in new:
            notice = notices[number]
            self.residents[number] = Resident(notice, JobMeter(self.meter, notice.begun_s), seen_s=now_s)
            self._place(self.residents[number])
        for one in self.residents.values():  # all jobs that were here at any time of its run
            one.alone = one.alone and len(self.residents) == 1
        return bool(new)

    def _tend(self, one: Resident, processes: Processes, now_s: float) -> None:
        """Find the job's processes and cores, and read what it uses."""
        found = self._step_daemons(one, processes)
        one.present = tuple(found)
        if found:
            one.seen_s = now_s
        for step_daemon in found:
            if step_daemon not in one.step_daemons:
                one.step_daemons.add(step_daemon)
                one.meter.follow(step_daemon, processes.threads(processes.below([step_daemon])))
        below = processes.below(found)
        one.words = one.words or processes.words(below)
        if not one.given.cpus and found:
            self._find_cores(one, processes)
        home = self.actuator.joins(one.notice.name)
        one.meter.look(now_s, home[-1].parent if home else None)

    def _step_daemons(self, one: Resident, processes: Processes) -> list[int]:
        return processes.step_daemons(one.notice.number, self.node, one.notice.conf)

    def _find_cores(self, one: Resident, processes: Processes) -> None:
        notice = one.notice
        one.given = find_cores(notice.number, self.node, notice.uid, one.present, processes)
        if not one.given.cpus and not one.asked:
            told = self._ask(notice.number)
            one.asked, one.given = told is not None, told or Given()
        if one.given.cpus:
            self._place(one)

    def _enter(self, one: Resident, processes: Processes) -> None:
        """Put its threads into its groups, the class first; later threads inherit them."""
        joins = self.actuator.joins(one.notice.name)
        if not joins:
            one.entered.clear()  # if groups are made again, all threads enter
            return
        below = processes.below(one.present)
        for thread in set(processes.threads(below)) - one.entered:
            for file in joins:
                with contextlib.suppress(OSError):  # it has ended, or the group has gone: the next look sees that
                    self.meter.files.write(file, f"{thread}\n")
                    one.entered.add(thread)

    def _leave(self, number: str, notice: Notice) -> None:
        one = self.residents.pop(number)
        one.meter.stop()
        self.actuator.forget(notice.name)
        job_notices.forget(self.place, number)
        if notice.ended_s:  # without an epilog the run time is unknown
            cores = one.given.cores(self.topology)
            episodes = () if one.stepping is None else tuple(one.stepping.episodes)
            self._done(NodeRun(notice, one.given, cores, one.alone, one.words, one.meter.means(), episodes))

    def _order(self) -> bool:
        """Return whether the controller has ordered another division."""
        found = None if self._orders is None else read_division(self._orders, self.node)
        if found is None or found == self._division:
            return False
        self._division = found
        for one in self.residents.values():
            self._place(one)
        self.actuator.divide(found.command())
        for one in self.residents.values():
            if one.stepping is not None:
                one.stepping.give_again()
        return True

    def _step_ways(self, one: Resident, now_s: float) -> bool:
        """Give a job whose curves are wanted its next ways if they are due; True: the actuator has work."""
        wanted = dict(self._division.curves).get(one.notice.name)
        if wanted is None or not self._ways or not one.step_daemons:
            return False
        if not one.alone:
            return one.stepping is not None and self._stop_stepping(one.stepping, "another job came to the node")
        if one.stepping is None:
            one.stepping = Stepping(tour_of(self._ways, self.actuator.nodes[0].min_ways, wanted))
        home = self.actuator.joins(one.notice.name)
        ways = one.stepping.look(now_s, lambda: one.meter.read(home[-1].parent if home else None))
        if ways:
            self.actuator.divide(SetShares(((0, 1),), ((one.notice.name, 0, ways),)))
        return bool(ways)

    def _stop_stepping(self, stepping: Stepping, why: str) -> bool:
        """Give the job what the controller divided; False: that was done before."""
        if stepping.trouble:
            return False
        stepping.stop(why)
        self.actuator.divide(self._division.command())
        return True

    def _place(self, one: Resident) -> None:
        """Tell the actuator the cores of a job, as far as they are known, and the bandwidth it has booked."""
        booked_mbs = dict(self._division.booked).get(one.notice.name, 0)
        cores = one.given.cores(self.topology) if one.given.cpus else 0
        self.actuator.place(Placed(one.notice.name, (0,), cores, booked_mbs / 1000.0))

    def _apply(self, now_s: float) -> None:
        def tasks_of(name: str) -> list[int]:
            resident = next((one for one in self.residents.values() if one.notice.name == name), None)
            if resident is None:
                return []
            now = self._look()  # a new look: the caller asks again until no new thread appears
            return now.threads(now.below(self._step_daemons(resident, now)))

        result = self.actuator.apply(tasks_of)
        self._unfinished, self._settled_s = result.unfinished, now_s
        for one in self.residents.values():
            if one.stepping is not None and one.notice.name in result.refused:
                self._unfinished = (
                    self._stop_stepping(one.stepping, result.refused[one.notice.name]) or self._unfinished
                )
