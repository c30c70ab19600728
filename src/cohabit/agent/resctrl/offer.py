"""Read what a mounted resctrl offers: ways, classes of service, bandwidth control, monitoring. Only reads.

Intel, AMD and ARM differ in the content of `info` and in the meaning of the numbers; here those differences become
plain data. A resource with absent or odd files is not offered.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent.resctrl.files import Files, Mount, read_if_there
from cohabit.agent.resctrl.schemata import Run, longest_run, parse, run_of

PERCENT, UNITS, MIBS = "percent", "eighths of GB/s", "MiB/s"


@dataclass(frozen=True)
class CacheOffer:
    """The last-level cache as it can be divided. `io_mask` are the ways that devices also write into."""

    resources: tuple[str, ...]  # lines to write: L3, or L3CODE and L3DATA
    mask: int
    min_ways: int
    io_mask: int
    sparse: bool
    domains: tuple[int, ...]

    @property
    def private(self) -> Run:
        """Return the ways to divide between jobs: those devices do not use, or all if devices may use every way."""
        free = longest_run(self.mask & ~self.io_mask)
        return free if free.ways >= self.min_ways else longest_run(self.mask)

    def refuses(self, mask: int) -> str:
        """Return why the kernel would refuse this mask; empty: it would accept it."""
        if mask & ~self.mask or mask == 0:
            return f"mask {mask:x} is not within {self.mask:x}"
        if not self.sparse and run_of(mask) is None:
            return f"mask {mask:x} has gaps, and this processor needs consecutive ways"
        # The kernel counts the first run of ones only, also where gaps are allowed.
        lowest = mask >> ((mask & -mask).bit_length() - 1)
        first_run = (~lowest & (lowest + 1)).bit_length() - 1
        if first_run < self.min_ways:
            return f"mask {mask:x} has {first_run} ways in a row, the least is {self.min_ways}"
        return ""


@dataclass(frozen=True)
class BandwidthOffer:
    """Memory bandwidth control: the meaning of a value, its minimum, maximum and steps.

    `per_core`: the percentage slows every core down (Intel); otherwise the group as a whole has a limit.
    """

    kind: str  # PERCENT, UNITS or MIBS
    least: int
    step: int
    most: int
    per_core: bool
    domains: tuple[int, ...]


@dataclass(frozen=True)
class ResctrlOffer:
    """The whole offer. `classes` are groups that can exist beside the root, ours and others' together."""

    root: Path
    cache: CacheOffer | None
    bandwidth: BandwidthOffer | None
    classes: int
    monitored: bool
    events: tuple[str, ...] = ()
    monitoring_ids: int = 0


def read_offer(files: Files, mount: Mount, processor: str = "") -> ResctrlOffer:
    """Read `info` and the root's schemata; OSError if nothing is mounted any more.

    `processor` is what `uname -m` says, of this machine if empty: percentages mean something else on ARM.
    """
    info, names = mount.root / "info", files.names(mount.root / "info")
    schemata = parse(files.read(mount.root / "schemata")) if "schemata" in files.names(mount.root) else {}
    caches = [name for name in ("L3", "L3CODE", "L3DATA") if name in names and name in schemata]
    cache = _cache(files, info, tuple(caches), tuple(schemata[caches[0]])) if caches else None
    band = None
    if "MB" in names and "MB" in schemata:
        per_core = not (processor or os.uname().machine).startswith(("aarch64", "arm"))
        band = _bandwidth(files, info / "MB", schemata["MB"], mount.options, per_core)
    # The kernel offers as many classes as the resource with the fewest has; one is the root's.
    counts = [_number(files, info / name / "num_closids") for name in names if not name.endswith("_MON")]
    classes = min((count for count in counts if count > 0), default=1) - 1
    monitored = "L3_MON" in names and "mon_groups" in files.names(mount.root)
    events = tuple(read_if_there(files, info / "L3_MON" / "mon_features").split()) if monitored else ()
    ids = _number(files, info / "L3_MON" / "num_rmids") if monitored else 0
    return ResctrlOffer(mount.root, cache, band, classes, monitored, events, ids)


def describe(offer: ResctrlOffer) -> list[str]:
    """Return the offer in plain sentences."""
    said = []
    if (cache := offer.cache) is None:
        said.append("the cache cannot be divided")
    else:
        own, total = cache.private, cache.mask.bit_count()
        shared = f", {total - own.ways} of them also used by devices" if own.ways < total else ""
        code = ", code and data apart" if len(cache.resources) > 1 else ""
        said.append(
            f"cache: {total} ways{shared}, at least {cache.min_ways} per group, {len(cache.domains)} domains{code}"
        )
        said.append(f"{offer.classes} groups beside the root (classes of service)")
    if (band := offer.bandwidth) is None:
        said.append("memory bandwidth cannot be limited")
    elif band.kind == PERCENT:
        of = "each core's requests" if band.per_core else "the memory's maximum"
        said.append(f"memory bandwidth: {band.least} to {band.most} % of {of} in steps of {band.step}")
    else:
        said.append(f"memory bandwidth: limits in {band.kind}")
    said.append(
        f"monitoring: {', '.join(offer.events)} ({offer.monitoring_ids} ids)" if offer.events else "no monitoring"
    )
    return said


def _cache(files: Files, info: Path, names: tuple[str, ...], domains: tuple[int, ...]) -> CacheOffer | None:
    place = info / names[0]
    mask = _number(files, place / "cbm_mask", 16)
    if mask <= 0:
        return None
    return CacheOffer(
        resources=names,
        mask=mask,
        min_ways=max(_number(files, place / "min_cbm_bits"), 1),
        io_mask=max(_number(files, place / "shareable_bits", 16), 0),
        sparse=_number(files, place / "sparse_masks") == 1,
        domains=domains,
    )


def _bandwidth(
    files: Files, place: Path, now: dict[int, int], options: tuple[str, ...], per_core: bool
) -> BandwidthOffer | None:
    least, step = _number(files, place / "min_bandwidth"), max(_number(files, place / "bandwidth_gran"), 1)
    if least < 0 or not now:
        return None
    domains = tuple(now)
    if "mba_MBps" in options:
        return BandwidthOffer(MIBS, 1, 1, 2**32 - 1, False, domains)
    if least == 0 or max(now.values()) > 100:  # AMD: absolute values, not fractions
        return BandwidthOffer(UNITS, 1, step, max(2048, *now.values()), False, domains)
    return BandwidthOffer(PERCENT, least, step, 100, per_core, domains)


def _number(files: Files, path: Path, base: int = 10) -> int:
    """Return the integer in a file; -1 if the file is missing or holds something else."""
    try:
        return int(read_if_there(files, path), base)
    except ValueError:
        return -1
