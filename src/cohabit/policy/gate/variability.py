"""Wait for a calmer machine: a job that would vary if it started now is skipped, a bounded number of times.

RUSH (Nichols et al., 2022), Algorithm 2: where a model, given the counters of the last minutes, puts the start into one
of the `labels`, the job's skip count rises and it stays in the queue; at the threshold it starts whatever the model
says. Asked again about the same counters, a skip is not counted twice. Beyond the paper: `cost_aware` waits only where
the expected loss exceeds the time that noise has lasted so far (`note_spell`), and `choose_nodes` looks for calmer
nodes before it delays. Without fresh telemetry nothing is gated, and the reason is kept. It does badly where noise
lasts longer than the skips allow, and where the model was trained on another machine.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cohabit.core.own_runs import own_runs
from cohabit.core.protocols import Wait
from cohabit.model.errors import InputError
from cohabit.model.telemetry import LAST, WINDOW_US, Window
from cohabit.model.units import SECOND, span
from cohabit.policy.needs import MODEL, TELEMETRY, Need
from cohabit.predict.variability_data import CLASSES

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.model.job import Job
    from cohabit.model.profile import ScaleProfile
    from cohabit.policy.options import GateOptions
    from cohabit.predict.variability import Binding, VariabilityModel

NAME = "variability"
SKIP_THRESHOLD = 10
ASK_AGAIN_US = 60 * SECOND
TOO_OLD_US = 2 * WINDOW_US
PRIOR_RUNS, FEWEST_OWN = 20, 3  # what a model knows of a program weighs as much; own runs needed where it does not
LEAST_FALL, NAMED_MOST = 0.01, 3  # of the probability without a counter, for it to be named; counters named
SPELLS = "spells"  # the key under which they are remembered
FORGOTTEN_US = WINDOW_US  # after this long without a question it is unknown whether a spell went on
# assumed thresholds of the kinds of work; an owner can override them at submission
IO_BYTES = 10e6  # per second and process: a program that reads and writes more counts as bound by storage
IO_COUNTERS = ("io_read_bytes_mean", "io_write_bytes_mean")
NETWORK_BYTES = 10e6  # the same for the network
NETWORK_COUNTER = "network_bytes_mean"
NETWORK_SHARE = 0.2  # of its time: a program that communicates for longer counts as bound by the network


@dataclass(frozen=True)
class Judgement:
    """The expected result of a start."""

    label: str  # of predict.variability_data.CLASSES
    probability: float = 1.0  # of that label
    slowdown: float = 1.0  # expected run time as a multiple of the mean
    unknown: str = ""  # why there is no answer; then nothing is gated
    usual_us: float = 0.0  # the program's mean run time where the judge knows it
    spread: float = 0.0  # deviation of its run times over their mean, where the judge knows it
    relative: float = 1.0  # that spread over the mean of all programs the judge knows


class Judge(Protocol):
    """A predictor of whether a job's run time would vary."""

    def judge(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Return what is expected if the job started now on these nodes."""
        ...

    def calm(self, row: int, idle: NDArray[np.bool_], labels: tuple[str, ...], view: View) -> NDArray[np.bool_] | None:
        """Return the idle nodes that are expected to be calm; None if it cannot tell nodes apart."""
        ...


class VariabilityGate:
    """Algorithm 2 with a memory of skips."""

    name = NAME
    needs: tuple[Need, ...] = (
        Need(MODEL, "nothing is delayed: no model says which start would vary"),
        Need(TELEMETRY, "nothing is delayed: the model is asked about counters of nodes that nothing reports"),
    )

    def __init__(
        self,
        judge: Judge,
        labels: tuple[str, ...] = ("variation",),
        skip_threshold: int = SKIP_THRESHOLD,
        cost_aware: bool = False,
        choose_nodes: bool = False,
        ask_again_us: int = ASK_AGAIN_US,
    ) -> None:
        self.judge, self.labels, self.skip_threshold = judge, labels, skip_threshold
        self.cost_aware, self.choose_nodes, self.ask_again_us = cost_aware, choose_nodes, ask_again_us
        if isinstance(judge, ModelJudge):  # what it looks at
            self.needs = (*self.needs[:1], self.needs[1]._replace(columns=tuple(judge.model.kept)))

    def check(self, row: int, nodes: NDArray[np.int64], view: View, memory: dict[str, Any]) -> Wait | None:
        """Make the job wait while the model expects variation and skips are left."""
        job = view.job(row)
        most = self.skip_threshold if job.skip_threshold < 0 else job.skip_threshold
        if most == 0:
            return None
        about = memory["jobs"].setdefault(job.job_id, {"skips": 0})
        expected = self.judge.judge(row, nodes, view)
        tally(memory, "asked")
        if expected.unknown:
            tally(memory, "without_data")
            memory["why_without_data"] = expected.unknown
            return None
        asked_of, noisy = asked_about(view), expected.label in self.labels
        if self.cost_aware:
            kind = workload_type(row, view)
            note_spell(memory, kind, noisy, asked_of)
            wait_us = expected_wait_us(memory, kind, self.ask_again_us)
            noisy = noisy and loss_us(row, expected, view) > wait_us
        if not noisy:
            return None
        if about.get("counted") != asked_of:  # until newer counters come the model gives the same answer
            if about["skips"] >= most:
                tally(memory, "at_threshold")
                return None
            about |= {"skips": about["skips"] + 1, "counted": asked_of}
            tally(memory, "delayed")
        reason = (
            f"it would probably vary now ({expected.label}, p = {expected.probability:.2f}); "
            f"passed over {about['skips']} of at most {most} times"
        )
        return Wait(reason, view.now_us + self.ask_again_us)

    def calmer(self, row: int, idle: NDArray[np.bool_], view: View) -> NDArray[np.bool_] | None:
        """Return nodes on which the job is not expected to vary, if there are enough."""
        if not self.choose_nodes:
            return None
        found = self.judge.calm(row, idle, self.labels, view)
        return found if found is not None and view.need(row) <= found.sum() < idle.sum() else None

    def because(self, row: int, view: View) -> str:
        """Return which counters tell against a start now; empty where the judge has none."""
        return self.judge.because(row, self.labels, view) if isinstance(self.judge, ModelJudge) else ""


def gate_judge(options: GateOptions) -> Judge:
    """Return the judge of a gate, after a look at what the options say of it."""
    strange = [label for label in options.labels if label not in CLASSES]
    if strange or not options.labels:
        what = f"delay_labels has {strange[0]!r}" if strange else "delay_labels is empty"
        raise InputError(what, "policy.delay_labels", f"use some of {', '.join(CLASSES)}")
    if options.choose_nodes and options.all_nodes:
        what = "choose_nodes has no effect with the telemetry of all nodes"
        raise InputError(what, "policy.choose_nodes", 'leave it out, or use telemetry_nodes = "job"')
    return Unlearned() if options.model is None else ModelJudge(options.model, options.all_nodes)


def by_model(options: GateOptions) -> VariabilityGate:
    """Return the gate as the options say."""
    judge = gate_judge(options)
    if options.skip_threshold < 0:
        raise InputError("skip_threshold is negative", "policy.skip_threshold", "use 0 (never delay) or more")
    return VariabilityGate(judge, options.labels, options.skip_threshold, options.cost_aware, options.choose_nodes)


class ModelJudge:
    """A trained model on the newest window: of all nodes, or of the job's own (RUSH R3)."""

    def __init__(self, model: VariabilityModel, all_nodes: bool = False) -> None:
        self.model, self.all_nodes = model, all_nodes
        self.sees_last = any(name.endswith(f".{LAST}") for name in model.kept)  # of the window
        self._bound: dict[tuple[tuple[str, ...], bool], Binding] = {}  # by what a window has
        norms = model.norms
        spreads = [norms.deviation_s[name] / mean for name, mean in norms.mean_s.items() if mean > 0]
        self._mean_spread = sum(spreads) / max(1, len(spreads))

    def judge(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Judge in one pass over flat arrays; names are looked up once."""
        window, kind = view.window, workload_type(row, view)
        if why := self._unusable(window, kind, view.now_us):
            return Judgement(CLASSES[0], unknown=why)
        assert window is not None
        features = window.of_all_nodes if self.all_nodes else window.features(nodes)
        verdict = self._binding(window).judge(features, kind)
        if verdict.missing:
            return Judgement(CLASSES[0], unknown=f"the telemetry lacks {', '.join(verdict.missing[:3])}")
        usual_s, spread = self._norm(view.job(row), view)
        relative = spread / self._mean_spread if spread and self._mean_spread else 1.0
        chance = verdict.probability[verdict.label]
        return Judgement(CLASSES[verdict.label], chance, verdict.slowdown, "", usual_s * SECOND, spread, relative)

    def _norm(self, job: Job, view: View) -> tuple[float, float]:
        """Return the mean run time of a job's program and its deviation over the mean, by the model and own runs.

        What the model knows counts as PRIOR_RUNS runs; a program that it does not know needs FEWEST_OWN. Zeros: not
        known.
        """
        norms, own = self.model.norms, own_runs(view, job)
        told_s, told = norms.mean_s.get(job.program, 0.0), norms.deviation_s.get(job.program, 0.0) ** 2
        weights = PRIOR_RUNS if told_s > 0.0 else 0, own.runs
        if sum(weights) < FEWEST_OWN:
            return 0.0, 0.0
        share = own.runs / sum(weights)
        mean_s = (1.0 - share) * told_s + share * own.mean_s
        variance = (1.0 - share) * (told + (told_s - mean_s) ** 2) + share * (own.variance + (own.mean_s - mean_s) ** 2)
        return (mean_s, math.sqrt(variance) / mean_s) if mean_s > 0.0 else (0.0, 0.0)

    def calm(self, row: int, idle: NDArray[np.bool_], labels: tuple[str, ...], view: View) -> NDArray[np.bool_] | None:
        """Return calm idle nodes, judged in groups of the job's size as if the job started on each group.

        A single node would not match the training data: the maximum of one value is lower than the maximum of
        sixteen.
        """
        window, kind, need = view.window, workload_type(row, view), view.need(row)
        nodes = np.flatnonzero(idle)
        if self.all_nodes or len(nodes) <= need or self._unusable(window, kind, view.now_us):
            return None
        assert window is not None
        binding = self._binding(window)
        if binding.absent:
            return None
        firsts = sorted({*range(0, len(nodes) - need + 1, need), len(nodes) - need})
        groups = np.stack([nodes[first : first + need] for first in firsts])
        rows = np.repeat(binding.blanks[kind], len(groups), axis=0)
        rows[:, binding.target] = np.stack([window.features(group) for group in groups])[:, binding.source]
        known = np.isfinite(rows).all(axis=1)
        label = self.model.shares(np.nan_to_num(rows)).argmax(axis=1)
        quiet = known & ~np.isin(np.array(CLASSES)[label], labels)
        calm = np.zeros_like(idle)
        calm[groups[quiet].ravel()] = True
        return calm

    def because(self, row: int, labels: tuple[str, ...], view: View) -> str:
        """Name the counters without which (were they 0) a start on the first idle nodes would look calmer."""
        window, kind = view.window, workload_type(row, view)
        if self._unusable(window, kind, view.now_us):
            return ""
        assert window is not None
        binding, idle = self._binding(window), np.flatnonzero(view.idle_nodes())[: view.need(row)]
        found = window.of_all_nodes if self.all_nodes or not len(idle) else window.features(idle)
        now = binding.blanks[kind][0].copy()
        now[binding.target] = found[binding.source]
        if binding.absent or not np.isfinite(now).all():
            return ""
        columns: dict[str, list[int]] = {}
        for at in binding.target.tolist():
            columns.setdefault(self.model.kept[at].rpartition(".")[0], []).append(at)
        rows = np.stack(
            [now, *(np.where(np.isin(np.arange(len(now)), places), 0.0, now) for places in columns.values())]
        )
        chances = self.model.shares(rows)[:, [CLASSES.index(label) for label in labels]].sum(axis=1)
        fall = dict(zip(columns, (chances[0] - chances[1:]).tolist(), strict=True))
        worst = sorted((name for name in columns if fall[name] > LEAST_FALL), key=lambda name: -fall[name])
        said = [f"{self.model.kept[columns[name][-1]]} is {now[columns[name][-1]]:.4g}" for name in worst[:NAMED_MOST]]
        if said:
            return f"mostly as {', '.join(said)}"
        return f"no single counter decides; it looks at {', '.join(list(columns)[:NAMED_MOST])}"

    def _binding(self, window: Window) -> Binding:
        known = window.counters, window.last is not None
        if known not in self._bound:
            self._bound[known] = self.model.bind(window.feature_names)
        return self._bound[known]

    def _unusable(self, window: Window | None, kind: str, now_us: int) -> str:
        if window is None:
            return "there is no telemetry yet"
        if window.end_us > now_us:
            return f"the telemetry's clock is {span(window.end_us - now_us)} ahead"
        if now_us - window.end_us > TOO_OLD_US:
            return f"the telemetry is stale: its newest window ended {span(now_us - window.end_us)} ago"
        return "" if kind else "the job's workload type is not known"


class Unlearned:
    """The judge of a gate without a trained model: it gives no answers."""

    def judge(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Return no answer."""
        return Judgement(CLASSES[0], unknown="no model was given")

    def calm(self, row: int, idle: NDArray[np.bool_], labels: tuple[str, ...], view: View) -> NDArray[np.bool_] | None:
        """Return no answer."""
        return None


class RandomJudge:
    """Predicts variation at a fixed rate, whatever the machine does: the effect of skipping alone (RUSH R61)."""

    def __init__(self, rate: float, seed: int) -> None:
        self.rate, self.seed = rate, seed

    def judge(self, row: int, nodes: NDArray[np.int64], view: View) -> Judgement:
        """Return the same answer to the same question until newer counters come."""
        text = f"{self.seed}:{view.job_id(row)}:{asked_about(view)}"
        draw = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64
        return Judgement(CLASSES[-1] if draw < self.rate else CLASSES[0])

    def calm(self, row: int, idle: NDArray[np.bool_], labels: tuple[str, ...], view: View) -> NDArray[np.bool_] | None:
        """Return no choice: it treats all nodes alike."""
        return None


def loss_us(row: int, expected: Judgement, view: View) -> float:
    """Return the expected extra run time: from the judge, from measurements, or from the owner's request."""
    job = view.job(row)
    profile = view.profile(job.program, job.processes, job.profile_owner)
    one = None if profile is None else profile.at_scale(1)
    measured_us = one.time_s * SECOND if one is not None else 0.0
    return (expected.slowdown - 1.0) * (expected.usual_us or measured_us or float(view.limit_us(row)))


def asked_about(view: View) -> int:
    """Return which counters a question is about; until newer ones come it is the same question."""
    return view.now_us if view.window is None else view.window.end_us


def tally(memory: dict[str, Any], what: str) -> None:
    memory[what] = memory.get(what, 0) + 1


# ---- how long noise lasts -------------------------------------------------------------------------------------------
# A gate that weighs costs must know the expected wait. Noise that has lasted some time is taken to be as likely to end
# in the next minute as before (the exponential law), so the expected wait is the mean length of spells. One spell that
# is over at the next question is assumed, so that the gate begins by waiting and learns what that costs.


def note_spell(memory: dict[str, Any], kind: str, noisy: bool, asked_of_us: int) -> None:
    """Record one answer about this type of work, for counters up to this moment."""
    known = memory.setdefault(SPELLS, {}).setdefault(kind, {"ended": 0, "total_us": 0})
    if asked_of_us - known.get("last_us", asked_of_us) > FORGOTTEN_US:
        known.pop("since_us", None)
    if noisy:
        known.setdefault("since_us", asked_of_us)
    elif "since_us" in known:
        known["total_us"] += asked_of_us - known.pop("since_us")
        known["ended"] += 1
    known["last_us"] = asked_of_us


def expected_wait_us(memory: dict[str, Any], kind: str, assumed_us: int) -> float:
    """Return the mean length of spells, one of which is assumed."""
    known = memory.get(SPELLS, {}).get(kind, {"ended": 0, "total_us": 0})
    return float((assumed_us + known["total_us"]) / (1 + known["ended"]))


# ---- the kind of work of a job: compute, network or io (RUSH R16) ---------------------------------------------------


def workload_type(row: int, view: View) -> str:
    """Return the type its owner states, else the type its profile at the usual scale shows; empty if unknown."""
    job = view.job(row)
    if job.workload_type:
        return job.workload_type
    profile = view.profile(job.program, job.processes, job.profile_owner)
    one = None if profile is None else profile.at_scale(1)
    return "" if profile is None or one is None else shown_by(one, profile.processes)


def shown_by(one: ScaleProfile, processes: int) -> str:
    """Return io by bytes moved, network by the share of time or by bytes, compute where all of them are small.

    Without counters storage cannot be excluded, so only a large share of communication says anything.
    """
    if sum(one.counters.get(name, 0.0) for name in IO_COUNTERS) > IO_BYTES * processes:
        return "io"
    if one.communication >= NETWORK_SHARE or one.counters.get(NETWORK_COUNTER, 0.0) > NETWORK_BYTES * processes:
        return "network"
    return "compute" if one.counters else ""
