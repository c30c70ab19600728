"""A fake world for one scheduler: plays a list of deeds to it, answers its commands, and checks what it does.

A deed is a kind and a number; the number is read against the present situation (which job, which node, how long), so
that any list of deeds makes sense and a failing list can be shrunk. The rehearsal keeps its own plain account of jobs,
runs and nodes and never reads the scheduler's state to decide what happens next; it only compares the two.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from cohabit.core import checkpoint, invariants
from cohabit.core.columns import RUNNING, STARTING, STATE
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Guarantor, PolicySet, SharedPlacer
from cohabit.core.succession import succeed
from cohabit.model import event as fact
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import CancelJob, Command, MoveJob, SetShares, StartJob, WakeAt
from cohabit.model.event import Event
from cohabit.model.job import Job
from cohabit.model.units import FOREVER, SECOND
from tests.support.builders import Choice, policies
from tests.support.programs import PROFILES, PROGRAMS
from tests.support.tenancy import Salt, Tenancy, measurement, nodes_in, with_program

KINDS = (
    "submit", "wait", "finish", "confirm", "array", "follow", "cancel", "hold", "release", "change", "refuse", "down",
    "drain", "up", "stale", "again", "wake", "close", "open",
)  # fmt: skip
# On machines whose nodes are shared, programs and running jobs are measured as well.
SHARED_KINDS = (*KINDS, "learn", "progress", "progress", "progress", "shares", "drift")


class Deed(NamedTuple):
    """Something that happens; `joined` deeds reach the scheduler in one step with the next."""

    kind: str
    salt: int
    joined: bool = False


@dataclass
class ActiveRun:
    """A start that was commanded and has not ended."""

    attempt: int
    nodes: frozenset[int]
    limit_us: int
    confirmed: bool = False
    cancelling: bool = False


def core_of(cluster: Cluster, choice: Choice, readable: bool = False) -> SchedulerCore:
    """A core at its beginning; where nodes are shared it knows the programs of programs.py."""
    chosen = policies(*choice)
    return SchedulerCore(cluster, chosen, readable, () if chosen.placer.exclusive else PROFILES)


class Rehearsal:
    """One cluster under one choice of policies; with `twin` a second, readable core must give the same orders."""

    def __init__(
        self,
        cluster: Cluster,
        choice: Choice,
        *,
        readable: bool = False,
        twin: bool = False,
        probe: bool = False,
    ) -> None:
        chosen = policies(*choice)
        self.cluster = cluster
        self._group_of = [group for group in cluster.groups for _ in range(group.count)]  # by node
        self.tenancy = self._tenancy(chosen)
        self.core = core_of(cluster, choice, readable)
        self.twin = core_of(cluster, choice, readable=True) if twin else None
        self.probe = probe and not chosen.changing  # after every step an idle wake-up must start nothing more
        self.now_us, self.wake_us = 0, FOREVER
        self.jobs: dict[str, Job] = {}
        self.bounds: dict[str, tuple[str, int]] = {}  # job -> its array and how many of that may run
        self.ended: dict[str, str] = {}
        self.runs: dict[str, ActiveRun] = {}
        self.past: list[tuple[str, int]] = []  # (job, attempt) of every start
        self.held: set[str] = set()
        self.not_before: dict[str, int] = {}
        self.expected: dict[str, str] = {}  # how a job must have ended by the end of this step
        self.node_state = ["up"] * cluster.nodes
        self.announced: dict[str, fact.WindowSet] = {}
        self.log: list[tuple[int, list[Event], list[Command]]] = []
        self._batch: list[Event] = []
        self._named = 0

    def _tenancy(self, chosen: PolicySet) -> Tenancy | None:
        if not isinstance(chosen.placer, SharedPlacer):
            return None
        corrected = isinstance(chosen.partitioner, Guarantor)
        return Tenancy(self.cluster, chosen.partitioner is not None, chosen.placer.dimensions, corrected)

    # ---- playing ----------------------------------------------------------------------------------------------------

    def succeed(self, choice: Choice) -> None:
        """Go on under other policies; what runs stays where it is, and the new policies decide at once."""
        self._flush()
        before, chosen = self.core, policies(*choice)
        cluster = replace(self.cluster, sharing="exclusive" if chosen.placer.exclusive else "shared")
        core = succeed(before, cluster, chosen, self.now_us)
        saved = checkpoint.save(core)
        self.core = checkpoint.load(saved, cluster, chosen)
        assert checkpoint.save(self.core) == saved
        invariants.check(self.core.state, self.now_us)
        self.wake_us = FOREVER
        self.probe = self.probe and not chosen.changing
        self.tenancy = self._tenancy(chosen)
        if self.tenancy is not None:
            state = self.core.state
            crowd = {row for _, rows in state.crowded.values() for row in rows}
            for name, run in self.runs.items():
                row = state.rows[name]
                how = state.placed[row]
                said = StartJob(name, run.attempt, how.ranges, 0, how.scale, how.cores, how.exclusive, how.ways)
                if row not in crowd:
                    self.tenancy.stay(said, self.jobs[name])
        self.step([fact.Woken()])

    def play(self, deeds: Sequence[Deed]) -> None:
        """Play all deeds in order."""
        for deed in deeds:
            events = self._events_of(deed)  # may advance the time, which empties the batch
            self._batch += events
            if not deed.joined:
                self._flush()
        self._flush()

    def finish_everything(self) -> None:
        """Remove all faults: all nodes up, nothing held, every run ends well. Then no job may be left over."""
        kind: list[Event] = [fact.NodeUp(node) for node in range(self.cluster.nodes)]
        kind += [fact.JobReleased(name) for name in sorted(self.held)]
        for event in kind:
            self.step([event])
        for _ in range(20 * len(self.jobs) + 100):
            if self.runs:
                name = next(iter(self.runs))
                self._advance(SECOND)
                if name in self.runs:
                    self.step([fact.JobFinished(name, self.runs[name].attempt)])
            elif self.wake_us < FOREVER:
                self._advance(self.wake_us - self.now_us)
            else:
                break
        left = sorted(set(self.jobs) - set(self.ended))
        assert not left, f"nothing runs, nothing is due, but these still wait: {left}"

    def step(self, events: list[Event]) -> list[Command]:
        """Pass events to the core, check everything, and carry out its commands."""
        self.expected = {}
        for event in events:
            self._foresee(event)
        commands = self.core.step(self.now_us, events)
        self.log.append((self.now_us, events, commands))
        invariants.check(self.core.state, self.now_us)
        if self.twin is not None:
            answer = self.twin.step(self.now_us, events)
            invariants.check(self.twin.state)
            assert commands == answer, f"compiled orders {commands}, readable orders {answer}"
        if self.tenancy is not None:
            self.tenancy.crowded = set(self.core.state.crowded)
        for command in commands:
            self._obey(command)
        self._compare()
        if self.tenancy is not None:
            self.tenancy.check()
        if self.probe and all(run.limit_us for run in self.runs.values()):  # request 0 counts for one pass only
            again = copy.deepcopy(self.core).step(self.now_us, [fact.Woken()])
            late = [command for command in again if isinstance(command, StartJob)]
            assert not late, f"a pass was missed: a wake-up in the same instant starts {late}"
        return commands

    def _flush(self) -> None:
        if self._batch:
            events, self._batch = self._batch, []
            self.step(events)

    def _advance(self, us: int) -> None:
        """Advance the time; the core is woken at the instants it asked for."""
        self._flush()
        until = self.now_us + us
        while self.wake_us <= until:
            self.now_us, self.wake_us = max(self.wake_us, self.now_us), FOREVER
            for core in filter(None, (self.core, self.twin)):
                core.state.wake_us = FOREVER  # as sim/world.py does
            self.step([fact.Woken()])
        self.now_us = until

    # ---- what happens ------------------------------------------------------------------------------------------------

    def _events_of(self, deed: Deed) -> list[Event]:
        salt = Salt(deed.salt)
        alive = [name for name in self.jobs if name not in self.ended]
        match deed.kind:
            case "submit" | "follow" | "array":
                return [fact.JobSubmitted(self._new_job(deed.kind, salt))]
            case "wait":
                self._advance((1, SECOND, 2 * SECOND, 7 * SECOND, 30 * SECOND)[salt.below(5)])
            case "wake" if self.wake_us < FOREVER:
                self._advance(self.wake_us - self.now_us)
            case "finish" if self.runs:
                name = list(self.runs)[salt.below(len(self.runs))]
                run = self.runs[name]
                status = "cancelled" if run.cancelling else ("done", "done", "done", "failed", "killed")[salt.below(5)]
                return [fact.JobFinished(name, run.attempt, status)]
            case "confirm" | "refuse" if waiting := [name for name, run in self.runs.items() if not run.confirmed]:
                name = waiting[salt.below(len(waiting))]
                attempt = self.runs[name].attempt
                if deed.kind == "confirm":
                    return [fact.JobStarted(name, attempt)]
                return [fact.StartRefused(name, attempt, "no", (0, 1, SECOND, 5 * SECOND)[salt.below(4)])]
            case "stale" if self.past:
                name, attempt = self.past[salt.below(len(self.past))]
                if name in self.runs and self.runs[name].attempt == attempt:
                    attempt -= 1
                stale = (
                    fact.JobFinished(name, attempt, "done"),
                    fact.JobFinished(name, attempt, "lost"),
                    fact.StartRefused(name, attempt),
                    fact.JobStarted(name, attempt),
                )
                return [stale[salt.below(4)]]
            case "down" | "drain" | "up":
                node = salt.below(self.cluster.nodes)
                told: dict[str, Event] = {
                    "down": fact.NodeDown(node),
                    "drain": fact.NodeDrained(node),
                    "up": fact.NodeUp(node),
                }
                return [told[deed.kind]]
            case "close":
                first, begin_us = salt.below(self.cluster.nodes), self.now_us + salt.below(25) * SECOND
                count = 1 + salt.below(self.cluster.nodes - first)
                parts = ((first, count), (0, 1)) if first > 1 and not salt.below(3) else ((first, count),)
                return [fact.WindowSet(f"w{salt.below(3)}", begin_us, begin_us + (1 + salt.below(30)) * SECOND, parts)]
            case "open" if self.announced:
                return [fact.WindowCleared(sorted(self.announced)[salt.below(len(self.announced))])]
            case "learn":
                return [measurement(salt)]
            case "progress" if self.runs:  # all that run, some slow for good, some fast, and a measurement too many
                speeds, turn = (0.6, 1.2, 0.85, 1.1, 0.95), salt.below(20) // 16
                measured = [
                    fact.ProgressMeasured(name, run.attempt, speeds[(number + turn) % 5], 10 * SECOND)
                    for number, (name, run) in enumerate(self.runs.items())
                ]
                return [*measured, *measured, fact.ProgressMeasured(measured[0].job_id, measured[0].attempt - 1, 0.1)]
            case "shares" if self.runs and not salt.below(4):
                names = tuple(name for name in self.runs if not salt.below(3))
                return [fact.SharesRefused(names, "no", (0, 5 * SECOND)[salt.below(2)])]
            case "drift" if not salt.below(6):
                return [fact.ProgramDrifted(PROGRAMS[salt.below(len(PROGRAMS))])]
            case "again" if alive and not self._batch:
                return [fact.JobSubmitted(self.jobs[alive[salt.below(len(alive))]])]
            case "cancel" | "hold" | "release" | "change" if self.jobs:
                pool = alive if alive and salt.below(8) else list(self.jobs)
                name = pool[salt.below(len(pool))]
                if deed.kind == "change":
                    limit_us = (None, 0, SECOND, 9 * SECOND)[salt.below(4)]
                    return [fact.JobChanged(name, limit_us, (None, 50)[salt.below(2)])]
                said: dict[str, Event] = {
                    "cancel": fact.JobCancelled(name),
                    "hold": fact.JobHeld(name),
                    "release": fact.JobReleased(name),
                }
                return [said[deed.kind]]
        return []

    def _new_job(self, kind: str, salt: Salt) -> Job:
        most = self.cluster.nodes
        nodes, processes = 1 + salt.below(most), 1
        if not salt.below(6):
            nodes = most + salt.below(2)  # the whole machine, or too much
        elif not salt.below(3):
            nodes, processes = 0, 1 + salt.below(2 * most)
        limit_us = (1, 3, 10, 25, 0, 60)[salt.below(6)] * SECOND
        self._named += 1
        asked = Job(
            f"j{self._named}",
            limit_us,
            processes,
            nodes,
            user=salt.below(4) - 1,
            qos=10 * salt.below(3),
            held=not salt.below(8),
            requeue=bool(salt.below(4)),
        )
        if names := [*self.cluster.partitions]:
            asked = msgspec.structs.replace(asked, partition=["", *names][salt.below(len(names) + 1)])
        if any(group.memory_bytes for group in self.cluster.groups):
            asked = msgspec.structs.replace(asked, memory_bytes=(0, 1, 3)[salt.below(3)])
        if self.tenancy is not None:
            asked = with_program(asked, salt, self.cluster.groups[0].cores)
        if kind == "array":
            count = 1 + salt.below(4)
            return msgspec.structs.replace(
                asked,
                job_id=f"a{self._named}",
                array_first=salt.below(2),
                array_count=count,
                array_at_most=salt.below(3),
            )
        if kind == "follow" and self.jobs:
            names = list(self.jobs)
            after = {names[-1 - salt.below(min(len(names), 8))] for _ in range(1 + salt.below(2))}
            asked = msgspec.structs.replace(asked, after=tuple(sorted(after)), after_any=bool(salt.below(2)))
        return asked

    # ---- the account -------------------------------------------------------------------------------------------------

    def _foresee(self, event: Event) -> None:
        """Apply an event to the plain account."""
        match event:
            case fact.JobSubmitted(asked):
                numbers = range(asked.array_first, asked.array_first + asked.array_count)
                for name in [f"{asked.job_id}_{number}" for number in numbers] or [asked.job_id]:
                    if name in self.jobs:
                        continue  # reported again: it exists already and must not change
                    self.jobs[name] = msgspec.structs.replace(asked, job_id=name, array_count=0)
                    if asked.array_count and asked.array_at_most:
                        self.bounds[name] = asked.job_id, asked.array_at_most
                    if asked.held:
                        self.held.add(name)
            case fact.JobFinished(name, attempt, status) if self._is_active(name, attempt):
                self._end_run(name, status)
            case fact.StartRefused(name, attempt, _, back_off_us) if self._is_active(name, attempt):
                if not self.runs[name].confirmed:
                    self._leave_nodes(name)
                    self.not_before[name] = self.now_us + max(back_off_us, 1)
            case fact.JobStarted(name, attempt) if self._is_active(name, attempt):
                self.runs[name].confirmed = True
            case fact.JobHeld(name) if name not in self.runs:
                self.held.add(name)
            case fact.JobReleased(name):
                self.held.discard(name)
            case fact.NodeUp(node):
                self.node_state[node] = "up"
            case fact.WindowSet(name):
                self.announced[name] = event
            case fact.WindowCleared(name):
                self.announced.pop(name, None)
            case fact.NodeDrained(node):
                self.node_state[node] = "drained"
            case fact.NodeDown(node):
                self.node_state[node] = "down"
                for name in [name for name, run in self.runs.items() if node in run.nodes]:
                    self._end_run(name, "lost")

    def _is_active(self, name: str, attempt: int) -> bool:
        return name in self.runs and self.runs[name].attempt == attempt

    def _leave_nodes(self, name: str) -> None:
        del self.runs[name]
        if self.tenancy is not None:
            self.tenancy.move_out(name)

    def _end_run(self, name: str, status: str) -> None:
        self._leave_nodes(name)
        if status != "lost":
            self.expected[name] = status
        elif self.cluster.on_node_loss == "fail" or not self.jobs[name].requeue:
            self.expected[name] = "failed"

    def _obey(self, command: Command) -> None:
        match command:
            case StartJob():
                self._check_start(command)
                nodes = frozenset(nodes_in(command.nodes))
                self.runs[command.job_id] = ActiveRun(command.attempt, nodes, command.limit_us)
                self.past.append((command.job_id, command.attempt))
            case MoveJob():
                assert self.tenancy is not None, f"{command}: nodes are not shared"
                run = self.runs[command.job_id]
                assert run.confirmed, f"{command}: its start is not confirmed"
                assert run.attempt == command.attempt, f"{command}: another attempt runs"
                self.tenancy.move(command)
                run.nodes = frozenset(nodes_in(command.nodes))
            case SetShares():
                assert self.tenancy is not None, f"{command}: nodes are not shared"
                self.tenancy.divide(command)
            case CancelJob(name, attempt) if self._is_active(name, attempt):
                self.runs[name].cancelling = True
            case WakeAt(at_us):
                assert at_us > self.now_us, f"asked to be woken in the past: {at_us} at {self.now_us}"
                self.wake_us = at_us

    def _check_start(self, command: StartJob) -> None:
        name, nodes = command.job_id, nodes_in(command.nodes)
        asked, finished = self.jobs[name], self.core.state.finished
        assert name not in self.runs, f"{name} is started while it runs"
        assert name not in self.ended, f"{name} is started though it ended as {self.ended.get(name)}"
        assert command.attempt == 1 + sum(other == name for other, _ in self.past), f"{command}: not the next attempt"
        assert name not in self.held, f"{name} is started though it is held"
        assert self.not_before.get(name, 0) <= self.now_us, f"{name} is started during its back-off"
        for other in asked.after:
            assert other in finished, f"{name} is started before {other}"
            assert asked.after_any or finished[other] == "done", f"{name} is started though {other} went wrong"
        assert len(set(nodes)) == len(nodes)
        for node in nodes:
            assert self.node_state[node] == "up", f"{name} is started on node {node}, {self.node_state[node]}"
            owners = [other for other, run in self.runs.items() if node in run.nodes]
            assert self.tenancy or not owners, f"{name} is started on node {node} of {owners}"
            assert self._may_use(asked, node), f"{name} is started on node {node}, which it may not use"
        least = asked.nodes or self._nodes_for(asked)
        if self.tenancy is not None:
            self.tenancy.move_in(command, asked, least)
        else:
            assert len(nodes) == least, f"{command}: wrong number of nodes"
        end_us = max(self.now_us + command.limit_us, self.now_us + 1)
        closings: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [
            (one.begin_us, one.end_us, ((one.first, one.count),)) for one in self.cluster.windows
        ]
        closings += [(one.begin_us, one.end_us, one.nodes) for one in self.announced.values()]
        for begin_us, closed_until_us, closed in closings:
            assert not ({*nodes_in(closed)} & {*nodes} and begin_us < end_us and self.now_us < closed_until_us), (
                f"{name} is started at {self.now_us} for {command.limit_us}, {closed} close at {begin_us}"
            )
        if name in self.bounds:
            array, at_most = self.bounds[name]
            members = [other for other in self.runs if self.bounds.get(other, ("", 0))[0] == array]
            assert len(members) < at_most, f"{name} is started beside {members}, at most {at_most} of them may run"

    def _open_groups(self, asked: Job) -> list[NodeGroup]:
        groups = self.cluster.groups
        if asked.partition:
            return [group for group in groups if asked.partition in group.partitions]
        return [group for group in groups if not group.partitions] or list(groups)

    def _nodes_for(self, asked: Job) -> int:
        return -(-asked.processes // min(group.cores for group in self._open_groups(asked)))

    def _may_use(self, asked: Job, node: int) -> bool:
        group = self._group_of[node]
        per_node = -(-asked.processes // (asked.nodes or self._nodes_for(asked)))
        enough = not group.memory_bytes or asked.memory_bytes * per_node <= group.memory_bytes
        return enough and group in self._open_groups(asked)

    def _compare(self) -> None:
        """Check that every job exists or has ended, once; runs and nodes match the account."""
        state = self.core.state
        for name in self.jobs:
            here, ended = name in state.rows, name in state.finished
            assert here != ended, f"{name} is {'here and ended' if here else 'lost'}"
            if name in self.ended:
                assert state.finished.get(name) == self.ended[name], f"{name} ended twice"
            elif ended:
                self.ended[name] = state.finished[name]
        for name, status in self.expected.items():
            assert self.ended.get(name) == status, f"{name} should have ended as {status}, not {self.ended.get(name)}"
        active = {name: row for name, row in state.rows.items() if state.jobs[STATE, row] in (STARTING, RUNNING)}
        assert active.keys() == self.runs.keys(), f"core runs {sorted(active)}, the world {sorted(self.runs)}"
        for name, row in active.items():
            assert set(nodes_in(state.ranges_of(row))) == self.runs[name].nodes


def retold(core: SchedulerCore, story: Sequence[tuple[int, Sequence[Event], Sequence[Command]]]) -> list[list[Command]]:
    """The commands of a core that is told the same facts."""
    given = []
    for now_us, events, _ in story:
        if any(type(event).__name__ == "Woken" for event in events):
            core.state.wake_us = 2**62  # as sim/world.py does
        given.append(core.step(now_us, events))
        invariants.check(core.state)
    return given
