"""The controller's clock: microseconds that never go back, and whether it is still the same clock after a restart.

It is CLOCK_BOOTTIME (which no administrator sets and which counts sleep) plus a base chosen once per boot and kept in
the store, so that it shows about Unix time; a step of the wall clock does not move it. A controller that restarts
within one boot goes on with exactly the same clock, and so do leases and fuses. After a reboot it is not known how long
the machine was off: a new base is chosen, not before anything the old clock has shown, and `same` is False. A new clock
is kept (`keep_clock`) only after the core was told that the old one is lost: a controller that dies in between would
take leases on the old clock for leases on the new one.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from cohabit.live.controller.journal import Journal

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_KEPT = "clock"  # among the settings of the journal


class Epoch(msgspec.Struct, frozen=True):
    """The values to keep for finding the same clock again."""

    boot_id: str
    base_us: int


def boot_us() -> int:
    """Return the microseconds since the machine was started."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class BootClock:
    """Boot time plus a base."""

    def __init__(self, epoch: Epoch, same: bool) -> None:
        self.epoch, self.same = epoch, same

    def now_us(self) -> int:
        """Return the present instant."""
        return self.epoch.base_us + boot_us()

    def since_boot_us(self, at_us: int) -> int:
        """Return an instant of this clock as CLOCK_BOOTTIME shows it, for processes that outlive the controller."""
        return at_us - self.epoch.base_us


def find_clock(kept: Epoch | None, last_us: int) -> BootClock:
    """Return the kept clock if this is still the same boot and it has gone on (in another time namespace it may not
    have); else a new one that begins after everything seen so far."""
    boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
    if kept is not None and kept.boot_id == boot_id and kept.base_us + boot_us() >= last_us:
        return BootClock(kept, True)
    base_us = max(time.time_ns() // 1000, last_us + 1) - boot_us()
    return BootClock(Epoch(boot_id, base_us), False)


def clock_of(journal: Journal, last_us: int) -> BootClock:
    """Return the clock of a journal whose last batch has this instant."""
    kept = journal.get(_KEPT)
    return find_clock(None if kept is None else msgspec.json.decode(kept, type=Epoch), last_us)


def keep_clock(journal: Journal, clock: BootClock) -> None:
    """Keep a new clock: from now on a restart within this boot finds it."""
    journal.put({_KEPT: msgspec.json.encode(clock.epoch).decode()})
