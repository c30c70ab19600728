"""The numbers of the weather, in constants.json with their reasons: all assumed but one, which is calibrated."""

from __future__ import annotations

from importlib import resources

import msgspec

from cohabit.sim.machine.constants import Section

SWITCH, STORAGE, NODE = PLACES = ("switch", "storage", "node")  # where noise may be


class SeriesConstants(Section, frozen=True):
    """Changes of the load of one shared resource with time; see series.py."""

    base: float
    drift: float
    memory_h: float
    daily: float
    episodes_per_day: float
    episode_h: float
    height: float
    height_spread: float
    jitter: float


class SpikeConstants(Section, frozen=True):
    """Some bad days in a long time."""

    begins: float  # share of the whole time
    days_per_half_year: float
    more_often: float
    higher: float


class PodConstants(Section, frozen=True):
    """A reserved part of the machine."""

    network_share: float
    filesystem_share: float
    leaf_nodes: int


class NoiseConstants(Section, frozen=True):
    """The job that only makes traffic."""

    node_share: float
    hold_min: float
    near: float
    light: float
    strength: float
    heavy: float  # calibrated
    place: str  # one of PLACES; "": every job feels it


class PlaceConstants(Section, frozen=True):
    """For noise with a place: nodes behind one of a kind, and the share of the machine that it hits at once."""

    switch_nodes: int
    switch_share: float
    storage_nodes: int
    storage_share: float
    node_nodes: int
    node_share: float

    def of(self, place: str) -> tuple[int, float]:
        """Return the numbers of one kind of place."""
        return getattr(self, f"{place}_nodes"), getattr(self, f"{place}_share")


class LawConstants(Section, frozen=True):
    """The effect of load on the jobs that depend on it."""

    knee: float
    early: float  # share of its work in which a program depends on others; 1: all of it


class TelemetryConstants(Section, frozen=True):
    """Intervals at which counters are read and reported."""

    sample_s: int
    tell_s: int


class CanaryConstants(Section, frozen=True):
    """The two small MPI programs run before a job."""

    send_s: float
    receive_s: float
    reduce_s: float
    cost_s: float
    spread: float


class Constants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; a study of sensitivity replaces some with msgspec.structs.replace."""

    network: SeriesConstants
    filesystem: SeriesConstants
    spike: SpikeConstants
    pod: PodConstants
    noise: NoiseConstants
    places: PlaceConstants
    law: LawConstants
    telemetry: TelemetryConstants
    canary: CanaryConstants


_FILE = resources.files("cohabit.sim.weather").joinpath("constants.json")
CONSTANTS = msgspec.json.decode(_FILE.read_bytes(), type=Constants)
