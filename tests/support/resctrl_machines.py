"""Processors as resctrl shows them, for the enforcing fake: what is in `info`, and what values mean there.

Written by hand from the kernel's documentation and sources, not recorded on such machines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ALL_EVENTS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")


@dataclass(frozen=True)
class Machine:
    """One kind of processor. A `ways` of 0: no cache allocation; `bandwidth_most` of 0: no bandwidth control."""

    domains: tuple[int, ...] = (0, 1)
    ways: int = 11
    min_bits: int = 1
    shareable: int = 0
    sparse: bool = False
    closids: int = 16
    cdp: bool = False
    bandwidth_least: int = 10
    bandwidth_step: int = 10
    bandwidth_most: int = 100
    bandwidth_closids: int = 8
    linear: bool = True
    mba_mbps: bool = False
    rmids: int = 224
    events: tuple[str, ...] = ALL_EVENTS
    moves: bool = True  # monitoring groups can be renamed (kernel 6.5)
    processor: str = "x86_64"

    @property
    def mask(self) -> int:
        """All ways."""
        return (1 << self.ways) - 1

    @property
    def caches(self) -> tuple[str, ...]:
        """The names of its cache resources."""
        if not self.ways:
            return ()
        return ("L3CODE", "L3DATA") if self.cdp else ("L3",)

    @property
    def cache_closids(self) -> int:
        """Classes of the cache; with separate code and data each uses two."""
        return self.closids // 2 if self.cdp else self.closids

    @property
    def classes(self) -> int:
        """Groups there can be, the root included: the resource with the fewest decides."""
        counts = [self.cache_closids] if self.ways else []
        counts += [self.bandwidth_closids] if self.bandwidth_most else []
        return min(counts, default=1)

    @property
    def bandwidth_default(self) -> int:
        """The values of a new group."""
        return 2**32 - 1 if self.mba_mbps else self.bandwidth_most


INTEL = Machine(shareable=0x600)
HASWELL = Machine(
    domains=(0, 1), ways=20, min_bits=2, shareable=0xC0000, closids=4, bandwidth_most=0, events=("llc_occupancy",)
)
INTEL_CDP = replace(INTEL, cdp=True)
INTEL_MBPS = replace(INTEL, mba_mbps=True)
INTEL_OLD_KERNEL = replace(INTEL, moves=False)
INTEL_UNMONITORED = replace(INTEL, events=())
AMD = Machine(
    domains=(0, 1, 2, 3, 8, 9, 10, 11), ways=16, sparse=True, bandwidth_least=0, bandwidth_step=1, bandwidth_most=2048,
    bandwidth_closids=16, linear=False, rmids=256,
)  # fmt: skip
ARM = Machine(
    domains=(1, 5), ways=16, shareable=0xFFFF, sparse=True, closids=64, bandwidth_least=1, bandwidth_step=1,
    bandwidth_closids=64, rmids=64, events=("llc_occupancy", "mbm_total_bytes"), processor="aarch64",
    moves=False,  # a monitoring id belongs to its class there (PMG to PARTID); the careful assumption
)  # fmt: skip
ARM_CACHE_ONLY = replace(ARM, bandwidth_most=0, events=("llc_occupancy",))
MACHINES = {
    "intel": INTEL, "haswell": HASWELL, "intel-cdp": INTEL_CDP, "intel-mbps": INTEL_MBPS,
    "intel-old-kernel": INTEL_OLD_KERNEL, "intel-unmonitored": INTEL_UNMONITORED, "amd": AMD, "arm": ARM,
    "arm-cache-only": ARM_CACHE_ONLY,
}  # fmt: skip
