"""Units of time: int64 microseconds inside, seconds only at the interfaces; all conversions are here."""

from __future__ import annotations

import math
import re

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
FOREVER = 2**62  # later than any real instant, with room to add a duration without overflow

_UNITS = {"us": 1, "ms": 1000, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_SAID = re.compile(r"-?\d[\d.]* (?:s|min(?: \d+ s)?|h(?: \d+ min)?|d(?: \d+ h)?)\b")
_PAIRS = (  # up to how many seconds; the larger unit's size and name; the smaller one's
    (3600, 60, "min", 1, "s"), (86400, 3600, "h", 60, "min"), (math.inf, 86400, "d", 3600, "h")
)  # fmt: skip


def microseconds(seconds: float) -> int:
    """Convert seconds to the nearest microsecond."""
    return round(seconds * SECOND)


def seconds(us: int) -> float:
    """Convert microseconds to seconds."""
    return us / SECOND


def duration(seconds: float) -> str:
    """Format a duration in its two largest units: 0.25 s, 4.2 s, 42 s, 2 min 5 s, 5 h 12 min, 3 d 4 h.

    It is rounded to the smaller of them. All that people read says durations so; page/words.js has the same rule.
    """
    if seconds < 0:
        text = duration(-seconds)
        return text if text == "0 s" else f"-{text}"
    for most, parts in ((0.995, 100), (9.95, 10)):
        if seconds < most:
            return f"{math.floor(seconds * parts + 0.5) / parts:g} s"
    if seconds < 59.5:
        return f"{math.floor(seconds + 0.5)} s"
    fitting = (pair for pair in _PAIRS if math.floor(seconds / pair[3] + 0.5) * pair[3] < pair[0])
    _, unit, larger, smaller_s, smaller = next(fitting)
    whole, rest = divmod(math.floor(seconds / smaller_s + 0.5), unit // smaller_s)
    return f"{whole} {larger} {rest} {smaller}" if rest else f"{whole} {larger}"


def span(us: int) -> str:
    """Format a number of microseconds as `duration` does."""
    return duration(us / SECOND)


def without_durations(text: str) -> str:
    """Return a sentence without the durations in it, so that what was said twice at two instants is the same."""
    return _SAID.sub("", text)


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


def counted(number: int, what: str) -> str:
    """Return a count with its noun: 1 job, 2 jobs."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
