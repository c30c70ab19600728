"""The controller's clock: the same one within a boot, never earlier than what was seen after a reboot."""

from __future__ import annotations

import time

from cohabit.live.controller.clock import Epoch, boot_us, find_clock


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
