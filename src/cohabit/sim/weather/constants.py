"""The numbers of the weather, in constants.json with their reasons: all assumed but one, which is calibrated."""

from __future__ import annotations

from importlib import resources

import msgspec


class SeriesConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the load of one shared resource changes with time; see series.py."""

    base: float
    drift: float
    memory_h: float
    daily: float
    episodes_per_day: float
    episode_h: float
    height: float
    height_spread: float
    jitter: float
    why: str = ""


class SpikeConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some bad days in a long time."""

    begins: float  # share of the whole time
    days_per_half_year: float
    more_often: float
    higher: float
    why: str = ""


class PodConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reserved part of the machine."""

    network_share: float
    filesystem_share: float
    leaf_nodes: int
    why: str = ""


class NoiseConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The job that only makes traffic."""

    node_share: float
    hold_min: float
    near: float
    light: float
    strength: float
    heavy: float  # calibrated
    why: str = ""


class LawConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The effect of load on the jobs that depend on it."""

    knee: float
    early: float  # share of its work in which a program depends on others; 1: all of it
    why: str = ""


class TelemetryConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often counters are read and reported."""

    sample_s: int
    tell_s: int
    why: str = ""


class CanaryConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The two small MPI programs run before a job."""

    send_s: float
    receive_s: float
    reduce_s: float
    cost_s: float
    spread: float
    why: str = ""


class Constants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; a study of sensitivity replaces some with msgspec.structs.replace."""

    network: SeriesConstants
    filesystem: SeriesConstants
    spike: SpikeConstants
    pod: PodConstants
    noise: NoiseConstants
    law: LawConstants
    telemetry: TelemetryConstants
    canary: CanaryConstants


def frozen_constants() -> Constants:
    """Return the numbers of the file."""
    text = resources.files("cohabit.sim.weather").joinpath("constants.json").read_bytes()
    return msgspec.json.decode(text, type=Constants)


CONSTANTS = frozen_constants()
