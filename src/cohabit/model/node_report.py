"""What the daemon of a node tells the controller: runs that have ended there, and samples of the node's counters.

A report has no authority of its own: it never says who owns a job or which program ran. Its signature covers the name
of the node, the number, the instant and the content, because all of them are in the signed bytes.
"""

from __future__ import annotations

import math
import re

import msgspec

from cohabit.model.errors import InputError
from cohabit.model.telemetry_counters import BY_NAME

VERSION = 1
MOST_RUNS, MOST_SAMPLES, MOST_MEANS = 16, 12, 64  # a full report is below the bound on a message
MOST_STEPS, MOST_AMOUNTS, MOST_WAYS = 4, 8, 1024  # of the cache, in one run; the ways of any cache
LONGEST_S = 366 * 86_400.0
MOST_CORES = 65_536
_CONTEXT = b"cohabit node reports\0"
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_JOB = re.compile(r"[0-9]{1,19}(_[0-9]{1,10})?")
_COUNTER = re.compile(r"[a-z0-9_]{1,64}")


class AtWays(msgspec.Struct, frozen=True):
    """What a run used in all the seconds in which it had this many ways of the cache."""

    ways: int
    seconds: float
    amounts: dict[str, float] = {}


class NodeMeters(msgspec.Struct, frozen=True):
    """What a node can measure of a run: its cache in so many ways (0: it cannot be divided), instructions, traffic."""

    ways: int = 0
    instructions: bool = False
    traffic: bool = False


def lacks(meters: NodeMeters) -> tuple[str, ...]:
    """Return what a node cannot measure, in words; empty: curves and bandwidth of programs are measured there."""
    return tuple(
        words
        for words, there in (
            ("its cache is not divided (no resctrl, or no folder of orders)", meters.ways > 0),
            ("instructions are not counted (no hardware counters)", meters.instructions),
            ("memory traffic is not counted (neither resctrl nor hardware counters)", meters.traffic),
        )
        if not there
    )


class EndedRun(msgspec.Struct, frozen=True):
    """A job that has left the node: the manager's name of it, and what was measured here."""

    job: str
    seconds: float
    ended_us: int  # by the node's clock
    alone: bool  # no other job was on the node meanwhile
    cores: int  # that the job had here; 0: not known
    means: dict[str, float] = {}  # counters per second
    steps: tuple[AtWays, ...] = ()  # of a run that the controller wanted to know the curves of, by rising ways


class Sample(msgspec.Struct, frozen=True):
    """The node's own counters at an instant: amounts per second and levels, by full name."""

    at_us: int
    values: dict[str, float]


class Report(msgspec.Struct, frozen=True):
    """One message. `number` rises with every message of a node, across restarts of its daemon."""

    node: str
    number: int
    instant_us: int  # when it was signed, by the node's clock
    runs: tuple[EndedRun, ...] = ()
    samples: tuple[Sample, ...] = ()
    meters: NodeMeters | None = None  # None: the daemon does not say
    version: int = VERSION


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Report)


def is_node(name: str) -> bool:
    """Return whether this can be the name of a node."""
    return _NODE.fullmatch(name) is not None


def encode(report: Report) -> bytes:
    """Encode for the wire."""
    return _encoder.encode(report)


def signed_bytes(content: bytes) -> bytes:
    """Return the bytes to sign: the whole report, marked so that it cannot pass for anything else."""
    return _CONTEXT + content


def decode(content: bytes) -> Report:
    """Decode a report; raise InputError if it is none. Its numbers are checked by `what_is_wrong`."""
    try:
        report = _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not a report of a node: {error}", "report") from error
    if report.version != VERSION:
        raise InputError(f"is in version {report.version}, known is {VERSION}", "report", "use the same release")
    if not is_node(report.node):
        raise InputError("has no usable name of a node", "report")
    return report


def what_is_wrong(report: Report) -> str:
    """Return what cannot be true in a report; empty: nothing."""
    if len(report.runs) > MOST_RUNS or len(report.samples) > MOST_SAMPLES:
        return f"it has more than {MOST_RUNS} runs or {MOST_SAMPLES} samples"
    if report.meters is not None and not 0 <= report.meters.ways <= MOST_WAYS:
        return "the ways of the node are out of range"
    for run in report.runs:
        if not _JOB.fullmatch(run.job):
            return "a job has no usable name"
        if not (0 <= run.seconds <= LONGEST_S and 0 <= run.cores <= MOST_CORES and 0 <= run.ended_us < 2**62):
            return f"the time or the cores of job {run.job} are out of range"
        if len(run.means) > MOST_MEANS or not all(map(_COUNTER.fullmatch, run.means)):
            return f"job {run.job} has too many counters, or one with an impossible name"
        if not all(_amount(value) for value in run.means.values()):
            return f"a counter of job {run.job} is out of range"
        if len(run.steps) > MOST_STEPS or not all(map(_possible, run.steps)):
            return f"what job {run.job} used by ways of the cache is out of range"
        if sum(step.seconds for step in run.steps) > run.seconds + 1.0:
            return f"the steps of job {run.job} took longer than the job"
    for sample in report.samples:
        if not 0 <= sample.at_us < 2**62:
            return "the instant of a sample is out of range"
        if unknown := next((name for name in sample.values if name not in BY_NAME), ""):
            return f"there is no counter {unknown[:64]!r}"
        if not all(_amount(value) for value in sample.values.values()):
            return "a counter of the node is out of range"
    return ""


def _possible(step: AtWays) -> bool:
    named = len(step.amounts) <= MOST_AMOUNTS and all(map(_COUNTER.fullmatch, step.amounts))
    within = 0 < step.ways <= MOST_WAYS and 0 < step.seconds <= LONGEST_S
    return named and within and all(map(_amount, step.amounts.values()))


def _amount(value: float) -> bool:
    return math.isfinite(value) and 0.0 <= value < 1e18
