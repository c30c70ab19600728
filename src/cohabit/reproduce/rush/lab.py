"""One trial of one experiment: 512 nodes, the noise job, 150 to 190 jobs, with or without a gate. Nothing here judges.

All policies meet the same weather: background and noise are drawn from the trial's seed alone. Every question to the
gate is recorded, with what would have happened if the job had started at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario import policies
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Gate
from cohabit.core.view import View
from cohabit.model import event as fact
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.job import Job
from cohabit.model.plan import Ranges
from cohabit.model.telemetry import WINDOW_US
from cohabit.model.units import SECOND
from cohabit.policy.gate.paying import PRICE_US, PayingGate, lag_of
from cohabit.policy.gate.variability import Judge, Judgement, ModelJudge, RandomJudge, VariabilityGate
from cohabit.predict.variability import VariabilityModel
from cohabit.predict.variability_data import CLASSES, NONE, VARIATION, Norms
from cohabit.reproduce.papers import digest
from cohabit.sim.runs import Outcome, TracedJob
from cohabit.sim.streams import stream
from cohabit.sim.weather.constants import CONSTANTS, Constants
from cohabit.sim.weather.weather import Weather, weather_of
from cohabit.sim.world import World
from cohabit.trace.rush_programs import STRONG, TEMPERS, WEAK, Temper, by_name, scaled

NODES = 512  # also of the machine with the control jobs: minimum, maximum and mean over 2,988 would be much the same
CORES = 32  # used on each node: 512 processes on 16 nodes
BASELINE = "ce-easy"  # FCFS with EASY backfilling
AT_ONCE = 0.2  # of the jobs are there at the start,
OVER_S = 20 * 60  # the others come evenly over this time
BEGIN_US = 2 * WINDOW_US  # telemetry is available by then
LIMIT = 2.0  # assumed: users ask for twice the undisturbed time
SKIPS = 10
SUBSET = ("Laghos", "LBANN", "PENNANT")
TAUGHT = ("AMG", "Kripke", "sw4lite", "SWFFT")  # PDPA: all the model has seen
ADAA, ADPA, PDPA, WS, SS = EXPERIMENTS = ("ADAA", "ADPA", "PDPA", "WS", "SS")
FCFS, RUSH, RANDOM, ORACLE, NEVER, JOB_NODES = ("fcfs", "rush", "random", "oracle", "never", "job nodes")
COST_AWARE, CALM_NODES = ("cost aware", "calm nodes")  # ours: RUSH that weighs costs, JOB_NODES that chooses nodes
PAYING = "paying"  # ours: RUSH with the gate of rush-paying and a model of its own
PAYING_CALM = "paying calm"  # ours: the same, that sees the job's nodes and chooses calm ones first
UNGATED = (FCFS, NEVER)  # or equivalent: no canaries, no telemetry


def world_hash() -> str:
    """A digest of all that was assumed and calibrated: the weather's constants and the applications."""
    content = [msgspec.to_builtins(CONSTANTS), [asdict(one) for one in TEMPERS]]
    return digest(msgspec.json.encode(content, order="deterministic"))


def core_of(nodes: int, gates: tuple[Gate, ...] = ()) -> SchedulerCore:
    """FCFS and EASY, with gates or without."""
    bundle = replace(policies.build(PolicyConfig(name=BASELINE)), gates=gates)
    return SchedulerCore(Cluster((NodeGroup(nodes, CORES),)), bundle)


def traced(job_id: str, one: Temper, submit_us: int, limit_us: int) -> TracedJob:
    """One run of a program."""
    job = Job(job_id, limit_us, one.nodes * CORES, program=one.name, workload_type=one.workload_type)
    return TracedJob(job, submit_us, round(one.run_s * SECOND))


def run_seconds(outcome: Outcome, job: TracedJob, canary_s: float) -> float:
    """The program's own time; its canary ran before it, as slowed as the rest."""
    assert outcome.start_us is not None and outcome.end_us is not None, f"job {job.job.job_id} did not run"
    elapsed_s, work_s = (outcome.end_us - outcome.start_us) / SECOND, job.work_us / SECOND
    return elapsed_s * work_s / (work_s + canary_s)


@dataclass(frozen=True)
class Experiment:
    """An experiment to run."""

    name: str
    jobs: int
    programs: tuple[Temper, ...]
    partial: bool = False  # whether the model knows only the applications of TAUGHT


def _sizes(scaling: str) -> tuple[Temper, ...]:
    return tuple(scaled(one, nodes, scaling) for nodes in (8, 16, 32) for one in TEMPERS)


def experiments(most_jobs: int = 190) -> dict[str, Experiment]:
    """The paper's five (R31), or the same with fewer jobs."""
    some = tuple(one for one in TEMPERS if one.name in SUBSET)
    few = min(150, most_jobs)
    return {
        ADAA: Experiment(ADAA, most_jobs, TEMPERS),
        ADPA: Experiment(ADPA, few, some),
        PDPA: Experiment(PDPA, few, some, partial=True),
        WS: Experiment(WS, most_jobs, _sizes(WEAK)),
        SS: Experiment(SS, most_jobs, _sizes(STRONG)),
    }


def queue_of(one: Experiment, seed: int) -> list[TracedJob]:
    """The jobs, every program as often as the others, in random order."""
    rng = stream(seed, f"queue {one.name}")
    programs = [one.programs[at % len(one.programs)] for at in range(one.jobs)]
    order = rng.permutation(one.jobs)
    first = round(AT_ONCE * one.jobs)
    late_s = np.sort(rng.uniform(0.0, OVER_S, one.jobs - first))
    submit_us = [BEGIN_US] * first + [BEGIN_US + round(second * SECOND) for second in late_s.tolist()]
    return [
        traced(str(number), programs[at], submit_us[number], round(LIMIT * programs[at].run_s * SECOND))
        for number, at in enumerate(order.tolist())
    ]


@dataclass
class Asked:
    """Every decision of a judge, its answer, and the truth.

    Between two windows of telemetry the scheduler asks many times about a job that waits; that is one decision.
    """

    judge: Judge
    truth: Callable[[str, NDArray[np.int64], int], bool]
    answers: dict[tuple[str, int, bool], bool] = field(default_factory=dict)  # (job, counters up to, answer) -> truth

    def judge_and_note(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Ask the judge, and look up what would have happened."""
        found = self.judge.judge(row, nodes, view)
        if not found.unknown:
            asked_of = view.now_us if view.window is None else view.window.end_us
            key = view.job_id(row), asked_of, found.label == CLASSES[VARIATION]
            if key not in self.answers:
                self.answers[key] = self.truth(view.job_id(row), nodes, view.now_us)
        return found


class NotingJudge:
    """A judge whose answers are recorded."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked

    def judge(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Return the answer of the judge."""
        return self.asked.judge_and_note(row, nodes, view)

    def calm(self, row: int, idle: NDArray[np.bool_], labels: tuple[str, ...], view: View) -> NDArray[np.bool_] | None:
        """Return the answer of the judge."""
        return self.asked.judge.calm(row, idle, labels, view)


class OracleJudge:
    """Knows future weather: the best possible skipping, except for the effect of later jobs (R61)."""

    def __init__(self, truth: Callable[[str, NDArray[np.int64], int], bool]) -> None:
        self.truth = truth

    def judge(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Return what would happen."""
        return Judgement(CLASSES[VARIATION if self.truth(view.job_id(row), nodes, view.now_us) else NONE])

    def calm(self, row: int, idle: NDArray[np.bool_], labels: tuple[str, ...], view: View) -> NDArray[np.bool_] | None:
        """Return no choice: it judges times, not nodes."""
        return None


class ConstantJudge:
    """Always says no variation (R62)."""

    def judge(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Return no variation."""
        return Judgement(CLASSES[NONE])

    def calm(self, row: int, idle: NDArray[np.bool_], labels: tuple[str, ...], view: View) -> NDArray[np.bool_] | None:
        """Return no choice: it treats all nodes alike."""
        return None


class Models(Protocol):
    """The models of gates: of all runs, of some applications, of counters of the job's own nodes; rush-paying's."""

    @property
    def full(self) -> VariabilityModel: ...
    @property
    def partial(self) -> VariabilityModel: ...
    @property
    def job_nodes(self) -> VariabilityModel | None: ...
    @property
    def paying(self) -> VariabilityModel: ...


def would_vary(weather: Weather, jobs: dict[str, TracedJob], norms: Norms) -> Callable[..., bool]:
    """Return whether a job started now on these nodes would vary, on a machine that stays as full as usual."""
    there = [weather.tempers[one.job.program] for one in jobs.values()]
    free, nodes_asked = NODES - len(weather.noise_nodes), sum(one.nodes for one in there)
    usual = (
        free * sum(one.network * one.nodes for one in there) / nodes_asked,
        free * sum(one.filesystem * one.nodes for one in there) / nodes_asked,
    )

    def truth(job_id: str, nodes: NDArray[np.int64], now_us: int) -> bool:
        one = jobs[job_id]
        took_us = weather.would_take_us(job_id, one.job.program, _ranges(nodes), now_us, float(one.work_us), usual)
        return bool(norms.varies((one.job.program,), np.array([took_us / SECOND]))[0])

    return truth


def _ranges(nodes: NDArray[np.int64]) -> Ranges:
    return tuple((int(node), 1) for node in nodes)


def run_trial(
    one: Experiment,
    seed: int,
    policy: str,
    norms: Norms,
    models: Models | None = None,
    rate: float = 0.0,
    skip_threshold: int = SKIPS,
    constants: Constants = CONSTANTS,
    price_us: int = PRICE_US,
) -> dict[str, Any]:
    """Run the queue; `rate` is how often a random judge says variation."""
    jobs = queue_of(one, seed)
    gated = policy not in UNGATED
    weather = weather_of(seed, NODES, by_name(one.programs), canaries=gated, telling=gated, constants=constants)
    known = {job.job.job_id: job for job in jobs}
    truth = would_vary(weather, known, norms)
    asked = Asked(_judge(policy, one, models, rate, seed, truth), truth)
    gate = _gate(policy, NotingJudge(asked), skip_threshold, price_us)
    gates = () if policy == FCFS else (gate,)
    world = World(core_of(NODES, gates), kill=False, weather=weather)
    skips = _count_skips(world, gate)
    world.add(jobs, [(0, fact.NodeDrained(int(node))) for node in weather.noise_nodes])
    world.run()
    return _figures(world, jobs, norms, weather.canary_us / SECOND) | _of_gate(world, gate, asked, skips)


def _gate(policy: str, judge: NotingJudge, skip_threshold: int, price_us: int) -> VariabilityGate:
    if policy in (PAYING, PAYING_CALM):
        lag_us = lag_of(judge.asked.judge)
        return PayingGate(judge, price_us=price_us, choose_nodes=policy == PAYING_CALM, lag_us=lag_us)
    cost_aware, choose_nodes = policy == COST_AWARE, policy == CALM_NODES
    return VariabilityGate(judge, skip_threshold=skip_threshold, cost_aware=cost_aware, choose_nodes=choose_nodes)


def _judge(
    policy: str, one: Experiment, models: Models | None, rate: float, seed: int, truth: Callable[..., bool]
) -> Judge:
    if policy == RANDOM:
        return RandomJudge(rate, seed)
    if policy == ORACLE:
        return OracleJudge(truth)
    if policy in (RUSH, PAYING, PAYING_CALM, JOB_NODES, COST_AWARE, CALM_NODES):
        assert models is not None
        if policy in (PAYING_CALM, JOB_NODES, CALM_NODES):
            assert models.job_nodes is not None
            return ModelJudge(models.job_nodes)
        if policy == PAYING:
            return ModelJudge(models.paying, all_nodes=True)
        return ModelJudge(models.partial if one.partial else models.full, all_nodes=True)
    return ConstantJudge()


def _count_skips(world: World, gate: VariabilityGate) -> dict[str, int]:
    """The most skips every job has had, as the gate remembers them while it waits."""
    most: dict[str, int] = {}

    def watch(now_us: int, events: Any, commands: Any) -> None:
        memory = world.core.state.memory.get(gate.name, {})
        for job_id, about in memory.get("jobs", {}).items():
            most[job_id] = max(most.get(job_id, 0), int(about.get("skips", 0)))

    world.observe = watch
    return most


def _figures(world: World, jobs: list[TracedJob], norms: Norms, canary_s: float) -> dict[str, Any]:
    outcomes = [world.outcomes[one.job.job_id] for one in jobs]
    run_s = np.array([run_seconds(out, one, canary_s) for out, one in zip(outcomes, jobs, strict=True)])
    start_s = np.array([(out.start_us or 0) / SECOND for out in outcomes])
    submit_s = np.array([one.submit_us / SECOND for one in jobs])
    programs = tuple(one.job.program for one in jobs)
    end_s = max((out.end_us or 0) / SECOND for out in outcomes)
    return {
        "program": programs,
        "run_s": run_s,
        "start_s": start_s,
        "varies": norms.varies(programs, run_s).astype(bool),
        "late": submit_s > submit_s.min(),
        "wait_s": start_s - submit_s,
        "makespan_s": end_s - float(submit_s.min()),
    }


def _of_gate(world: World, gate: VariabilityGate, asked: Asked, skips: dict[str, int]) -> dict[str, Any]:
    memory = world.core.state.memory.get(gate.name, {})
    confusion = np.zeros((2, 2), np.int64)
    for (_, _, answer), truth in asked.answers.items():
        confusion[int(truth), int(answer)] += 1
    return {
        "decisions": len(asked.answers),
        "delayed": int(memory.get("delayed", 0)),
        "without_data": int(memory.get("without_data", 0)),
        "skipped_jobs": len([count for count in skips.values() if count]),
        "at_threshold": len([count for count in skips.values() if count >= gate.skip_threshold]),
        "confusion": confusion,  # [it would have varied, the judge said so]
    }
