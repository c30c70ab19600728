"""Units of time: int64 microseconds inside, seconds only at the interfaces; all conversions are here."""

from __future__ import annotations

import re

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
FOREVER = 2**62  # later than any real instant, with room to add a duration without overflow

_UNITS = {"us": 1, "ms": 1000, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}


def microseconds(seconds: float) -> int:
    """Convert seconds to the nearest microsecond."""
    return round(seconds * SECOND)


def seconds(us: int) -> float:
    """Convert microseconds to seconds."""
    return us / SECOND


def parse_duration(text: str) -> int:
    """Read "90", "90s", "15m", "1-02:03:04" or "02:03:04" as microseconds; raise ValueError on anything else."""
    text = text.strip()
    if plain := re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)?", text):
        return round(float(plain[1]) * _UNITS[plain[2] or "s"])
    if clock := re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.(\d+))?", text):
        days, hours, minutes, secs = (int(part or 0) for part in clock.groups()[:4])
        fraction = round(float(f"0.{clock[5] or 0}") * SECOND)
        return days * DAY + hours * HOUR + minutes * MINUTE + secs * SECOND + fraction
    raise ValueError(f"{text!r} is not a duration (try 90s, 15m, 02:00:00 or 1-00:00:00)")
