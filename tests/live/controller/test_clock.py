"""The controller's clock: the same one within a boot, never earlier than what was seen after a reboot."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from cohabit.app.serve.serving import ServeConfig, Service, open_parts
from cohabit.live.controller import clock
from cohabit.live.controller.clock import Epoch, boot_us, find_clock
from cohabit.model.units import SECOND

STEP_US = 30 * SECOND


def test_a_restart_within_one_boot_finds_the_same_clock() -> None:
    first = find_clock(None, 0)
    assert not first.same
    second = find_clock(first.epoch, first.now_us())
    assert second.same
    before, between, after = first.now_us(), second.now_us(), first.now_us()
    assert before <= between <= after


def test_a_new_clock_shows_about_unix_time() -> None:
    before_us = time.time_ns() // 1000
    shown_us = find_clock(None, 0).now_us()
    assert before_us - 1_000_000 < shown_us < time.time_ns() // 1000 + 1_000_000


def test_after_a_reboot_the_clock_does_not_go_back() -> None:
    future_us = time.time_ns() // 1000 + 10**12
    found = find_clock(Epoch("another boot", 5), future_us)
    assert not found.same
    assert found.now_us() > future_us
    assert found.epoch.boot_id != "another boot"


def test_instants_translate_to_boot_time() -> None:
    clock = find_clock(None, 0)
    before_us = boot_us()
    shown_us = clock.since_boot_us(clock.now_us())
    assert before_us - 1_000_000 < shown_us < boot_us() + 1_000_000


def step_wall_clock(monkeypatch: pytest.MonkeyPatch, by_us: int) -> None:
    true_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + by_us * 1000)


@pytest.mark.parametrize("by_us", [-STEP_US, STEP_US])
def test_a_step_of_the_wall_clock_does_not_move_it(monkeypatch: pytest.MonkeyPatch, by_us: int) -> None:
    first = find_clock(None, 0)
    before_us = first.now_us()
    step_wall_clock(monkeypatch, by_us)
    second = find_clock(first.epoch, first.now_us())
    assert second.same
    assert before_us <= first.now_us() <= second.now_us() < before_us + STEP_US // 2


@pytest.mark.parametrize("by_us", [-STEP_US, STEP_US])
def test_after_a_reboot_with_a_stepped_wall_clock_it_does_not_go_back(
    monkeypatch: pytest.MonkeyPatch, by_us: int
) -> None:
    last_us = time.time_ns() // 1000
    step_wall_clock(monkeypatch, by_us)
    found = find_clock(Epoch("another boot", 0), last_us)
    assert not found.same
    assert found.now_us() > max(last_us, last_us + by_us)


def test_a_clock_behind_what_it_has_shown_is_not_the_same() -> None:
    """A container moved to another time namespace has the same boot, and less time since."""
    first = find_clock(None, 0)
    last_us = first.now_us() + STEP_US
    found = find_clock(first.epoch, last_us)
    assert not found.same
    assert found.now_us() > last_us


def test_the_new_clock_counts_only_after_the_core_knows_that_the_old_one_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dead between the two, a controller would take leases on the old clock for leases on the new one."""
    config, boot = ServeConfig(tmp_path / "place", 1), tmp_path / "boot_id"

    def live() -> bool:
        async def whole() -> bool:
            service = Service(config)
            await service.open()
            await service.close()
            return service.parts.clock.same

        return asyncio.run(asyncio.wait_for(whole(), 60))

    def die_before_recovery() -> bool:
        parts = open_parts(config)
        parts.journal.close()
        parts.lock.close()
        return parts.clock.same

    monkeypatch.setattr(clock, "_BOOT_ID", boot)
    boot.write_text("the first boot\n", encoding="ascii")
    assert [live(), live()] == [False, True]
    boot.write_text("the second boot\n", encoding="ascii")
    assert [die_before_recovery(), die_before_recovery(), live(), die_before_recovery()] == [False, False, False, True]
