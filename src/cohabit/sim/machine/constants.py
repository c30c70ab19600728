"""The numbers of the simulated machine, frozen in constants.json before any experiment, and a digest to prove it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib import resources

import msgspec

from cohabit.model.program import WAYS_EXPONENT, Program


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section of a file of constants."""

    why: str = ""


class LawConstants(Section, frozen=True):
    """Contention on one node; see law.py for what each one does."""

    capacity_share: float
    latency_slope: float
    latency_knee: float
    latency_limit: float
    q: float


class PhaseConstants(Section, frozen=True):
    """Variation of a program's demands around its average; see phases.py."""

    shares: tuple[float, float, float]  # of the work, by level: calm, average, burst
    bandwidth_amplitude: float
    sensitivity_amplitude: float
    cycles_per_run: float
    least_ipc_share: float

    def __post_init__(self) -> None:
        calm, average, burst = self.shares
        assert abs(calm + average + burst - 1.0) < 1e-12, "the shares of the levels make up the run"
        assert calm == burst, "calm and burst weigh the same, or the mean would not be the profiled one"


class ProfilerConstants(Section, frozen=True):
    """Measurement of an exclusive run; see profiler.py."""

    sampled_ways: tuple[int, ...]
    episode_s: float
    curve_run_cost: float


class RecorderConstants(Section, frozen=True):
    """Recording of the bandwidth of nodes; see recorder.py."""

    episode_s: float


class Constants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; a study of sensitivity replaces some with msgspec.structs.replace."""

    law: LawConstants
    phases: PhaseConstants
    profiler: ProfilerConstants
    recorder: RecorderConstants


_FILE = resources.files("cohabit.sim.machine").joinpath("constants.json")
CONSTANTS = msgspec.json.decode(_FILE.read_bytes(), type=Constants)


def calibration_hash(programs: Iterable[Program] = (), constants: Constants = CONSTANTS) -> str:
    """Return a digest of everything that was calibrated: the numbers of this file and the programs of a catalogue."""
    sections = msgspec.to_builtins(constants)
    for section in sections.values():
        del section["why"]  # rewording the reasons does not change the calibration
    ordered = sorted(programs, key=lambda program: program.name)
    content = [sections, WAYS_EXPONENT, msgspec.to_builtins(ordered, str_keys=True)]
    return hashlib.blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).hexdigest()
