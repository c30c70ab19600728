"""Keep resctrl in the wanted state: it is told which jobs run where and how the cache is divided.

It remembers only what it was told; the actual state is read from the kernel every time. Where resctrl is absent, goes
away or refuses, jobs run on and the reason is said once. It touches no group that is not ours and never mounts
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cohabit.agent.local_nodes import LocalNode
from cohabit.agent.resctrl.bandwidth import Traffic, rates_gbs, shut_valve
from cohabit.agent.resctrl.executing import LATER, LOST, REFUSED, UNMOUNTED, TasksOf, carry_out, no_tasks
from cohabit.agent.resctrl.files import Files, HostFiles, Mount, Patience, find_mount, read_traffic
from cohabit.agent.resctrl.groups import job_name, read_current
from cohabit.agent.resctrl.offer import PERCENT, ResctrlOffer, read_offer
from cohabit.agent.resctrl.planning import ROOT, Plan, plan
from cohabit.agent.resctrl.schemata import Run, Schemata, run_of
from cohabit.agent.resctrl.wanted import Placed, Reach, divisions, unbooked, wanted_shares
from cohabit.agent.resctrl.writes import Make, Write, shell_lines
from cohabit.model.command import SetShares
from cohabit.model.errors import InputError

_PLANS = 12  # a failed plan is made again without its job; more failures than this wait for the next call


@dataclass
class Result:
    """The result of a call: writes, jobs without their share with reasons, and whether calling again may help."""

    writes: list[Write] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    unfinished: bool = False


class Actuator:
    """One per machine. `say` gets each message for people, once until things change.

    A job is held to the bandwidth it booked when the memory is nearly full, which `relieve` finds out;
    with `always`, at any time.
    """

    def __init__(
        self,
        nodes: Sequence[LocalNode],
        say: Callable[[str], None],
        files: Files | None = None,
        mount: Callable[[], Mount | None] = find_mount,
        reach: Reach = unbooked,
        processor: str = "",
        patience: Patience | None = None,
        always: bool = False,
    ) -> None:
        self.nodes, self.files, self.reach = tuple(nodes), files or HostFiles(), reach
        self._say, self._mount, self._processor, self._patience = say, mount, processor, patience
        self._held, self._always = set[tuple[str, int]](), always  # (job, domain)
        self._traffic: tuple[float, Traffic] | None = None
        self._said: set[str] = set()
        self._placed: dict[str, Placed] = {}
        self._divided: dict[int, dict[str, Run]] = {}
        self._capped: dict[int, dict[str, int]] = {}
        self._homes: dict[str, str] = {}
        self._root: Path | None = None
        self._monitored = False

    def place(self, job: Placed) -> None:
        """Record that the job is on these nodes, or about to be; a second call replaces the first."""
        if not all(0 <= number < len(self.nodes) for number in job.nodes):
            raise InputError(
                f"job {job.job_id} is placed on nodes {job.nodes}",
                "",
                f"this machine has nodes 0 to {len(self.nodes) - 1}",
            )
        self._placed[job.job_id] = job

    def divide(self, command: SetShares) -> None:
        """Set a new division of the cache of these nodes."""
        for node, shares in divisions(command).items():
            if node < len(self.nodes):
                self._divided[node], self._capped[node] = shares, dict(command.caps)

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended."""
        self._placed.pop(job_id, None)
        self._homes.pop(job_id, None)
        self._held = {one for one in self._held if one[0] != job_id}

    def adopt(self) -> None:
        """Adopt the jobs just placed after a restart: they keep what the kernel says they have until told otherwise."""
        offer = self._offer()
        if offer is None:
            return
        for group in read_current(self.files, offer.root).groups.values():
            for job in group.jobs:
                for number in self._placed[job].nodes if job in self._placed else ():
                    self._adopt(job, number, group.schemata, offer)

    def _adopt(self, job: str, number: int, values: Schemata, offer: ResctrlOffer) -> None:
        node, cache, band = self.nodes[number], offer.cache, offer.bandwidth
        if not node.domains:
            return
        if cache is not None and (mask := values.get(cache.resources[0], {}).get(node.domains[0], 0)) != cache.mask:
            run = run_of(mask)
            if run is not None and run.first >= node.first_way:
                own = Run(run.first - node.first_way, run.ways)
                self._divided[number] = {**self._divided.get(number, {}), job: own}
        if band is not None and band.kind == PERCENT and band.per_core:
            value = values.get("MB", {}).get(node.domains[0], band.most)
            if value < band.most:
                self._capped[number] = {**self._capped.get(number, {}), job: value}

    def joins(self, job_id: str) -> tuple[Path, ...]:
        """Return the files into which the job's first process writes its id between fork and exec, the class first."""
        home = self._homes.get(job_id)
        if home is None or self._root is None or (home == ROOT and not self._monitored):
            return ()
        own = self._root / home / "tasks"
        inner = self._root / _home(home, job_id) / "tasks"
        return (own,) if inner == own else (own, inner)

    def relieve(self, now_s: float) -> bool:
        """Look at the traffic since the last call and choose the jobs to hold to their booking; True: `apply` has
        work."""
        if self._root is None:
            return False
        if self._always:
            held = {(job, domain) for domain in self._domains() for job in self._booked_gbs(domain)}
            changed, self._held = held != self._held, held
            return changed
        seen = {job: read_traffic(self.files, self._root / _home(home, job)) for job, home in self._homes.items()}
        before, self._traffic = self._traffic, (now_s, seen)
        if before is None or now_s <= before[0]:
            return False
        rates = rates_gbs(before[1], seen, now_s - before[0])
        was = {job for job, _ in self._held}
        for domain in self._domains():
            measured, shut = rates.get(domain, {}), {job for job, place in self._held if place == domain}
            if shut <= measured.keys():  # otherwise a held job could not be measured: nothing changes there
                shut = set(shut_valve(measured, self._booked_gbs(domain), self._peak_gbs(domain), shut))
                self._held = {one for one in self._held if one[1] != domain} | {(job, domain) for job in shut}
        return {job for job, _ in self._held} != was

    def preview(self) -> list[str]:
        """Return what `apply` would write now, as shell lines; nothing is written."""
        offer = self._offer()
        if offer is None:
            return []
        return shell_lines(self._plan(offer, {}, {}, no_tasks)[0].writes, offer.root)

    def apply(self, tasks_of: TasksOf = no_tasks) -> Result:
        """Write the wanted state. Call after any change, after `unfinished`, and at intervals."""
        result = Result()
        try:
            self._apply(result, tasks_of)
        except OSError as error:  # resctrl went away while it was read
            self._lose(f"resctrl cannot be read any more ({error.strerror}): jobs run on, the cache is not divided")
            result.unfinished = True
        return result

    def _apply(self, result: Result, tasks_of: TasksOf) -> None:
        """Plan and carry out; if a write fails for a job, repeat without its share, then without a group for it."""
        bare: dict[str, str] = {}
        absent: dict[str, str] = {}
        for _ in range(_PLANS):
            offer = self._offer()
            if offer is None:
                return
            made, problems = self._plan(offer, bare, absent, tasks_of)
            outcome = carry_out(self.files, offer.root, made.writes, tasks_of, self._patience)
            result.writes += outcome.done
            result.refused = {**problems, **made.refused, **bare, **absent}
            failure = outcome.failure
            if failure is None:
                break
            result.unfinished = result.unfinished or failure.kind != REFUSED
            if failure.kind == LOST:
                self._lose(failure.sentence)
                return
            left_out = [job for job in failure.write.jobs if job not in absent]
            if not left_out or (failure.kind == LATER and not isinstance(failure.write, Make)):
                self._speak([failure.sentence])  # the state stays as it is until the next call
                break
            for job in left_out:
                (absent if job in bare else bare)[job] = failure.sentence
        self._speak(result.refused.values())
        assert self._root is not None
        current = read_current(self.files, self._root)
        self._homes = dict.fromkeys(current.root_jobs, ROOT)
        self._homes |= {job: name for name, group in current.groups.items() for job in group.jobs}

    def _plan(
        self, offer: ResctrlOffer, bare: Mapping[str, str], absent: Mapping[str, str], tasks_of: TasksOf
    ) -> tuple[Plan, dict[str, str]]:
        """Return the plan; `bare` jobs are only monitored, `absent` ones not even that."""
        held = {job for job, _ in self._held}
        placed = [one if one.job_id in held else replace(one, bandwidth_gbs=0.0) for one in self._placed.values()]
        wanted = wanted_shares(self.nodes, placed, self._divided, offer, self.reach, self._capped)
        needs = {job: {} if job in bare else need for job, need in wanted.needs.items() if job not in absent}
        running = [job for job in needs if tasks_of(job)]
        return plan(read_current(self.files, offer.root), needs, offer, running), wanted.problems

    def _booked_gbs(self, domain: int) -> dict[str, float]:
        """Return the bookings of one domain: a booking is for a node, and each domain of the node carries its part."""
        found: dict[str, float] = {}
        for job in self._placed.values():
            there = [self.nodes[number] for number in job.nodes if domain in self.nodes[number].domains]
            if there and job.bandwidth_gbs > 0:
                found[job.job_id] = sum(job.bandwidth_gbs / len(node.domains) for node in there)
        return found

    def _domains(self) -> set[int]:
        return {one for node in self.nodes for one in node.domains}

    def _peak_gbs(self, domain: int) -> float:
        return sum(
            self.reach(number, len(node.cores)) / len(node.domains)
            for number, node in enumerate(self.nodes)
            if domain in node.domains
        )

    def _offer(self) -> ResctrlOffer | None:
        """Return the current offer; None, with a message, if resctrl is not mounted."""
        mount = self._mount()
        if mount is None:
            self._lose("resctrl is not mounted: jobs run, the cache is not divided")
            return None
        try:
            offer = read_offer(self.files, mount, self._processor)
        except OSError:
            self._lose(UNMOUNTED)
            return None
        if self._root is None and self._said:
            self._said.clear()
            self._say("resctrl is there (again): the cache is divided as ordered")
        self._root, self._monitored = offer.root, offer.monitored
        return offer

    def _lose(self, sentence: str) -> None:
        self._root = None
        self._homes.clear()
        self._speak([sentence])

    def _speak(self, sentences: Iterable[str]) -> None:
        for one in sentences:
            if one not in self._said:
                self._said.add(one)
                self._say(one)


def _home(home: str, job_id: str) -> str:
    """Return the group that counts for the job alone: a class named after it, or its monitoring group in a class."""
    name = job_name(job_id)
    return home if home == name else str(Path(home) / "mon_groups" / name)
