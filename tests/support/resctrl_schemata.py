"""Parse schemata as the kernel does: all lines are checked before anything changes, and the first fault is reported.

An independent reading of fs/resctrl/ctrlmondata.c; it shares nothing with the code it tests.
"""

from __future__ import annotations

import re

from tests.support.resctrl_machines import Machine

Values = dict[str, dict[int, int]]


class Refusal(Exception):
    """The text that the kernel writes into last_cmd_status; the error is always EINVAL."""


def show(values: Values, machine: Machine) -> str:
    """As `cat schemata` does: names padded, masks in hexadecimal."""
    lines = []
    for resource, found in values.items():
        width = len(format(machine.mask, "x"))
        pairs = (
            f"{domain}={value if resource == 'MB' else format(value, f'0{width}x')}"
            for domain, value in sorted(found.items())
        )
        lines.append(f"{resource:>6}:{';'.join(pairs)}")
    return "".join(f"{line}\n" for line in lines)


def staged(text: str, machine: Machine, known: Values) -> Values:
    """The values a write asks for, each checked by itself; overlaps with other groups are the caller's to check."""
    if not text.endswith("\n"):
        raise Refusal("")
    asked: Values = {}
    for line in text[:-1].split("\n"):
        resource, colon, rest = line.partition(":")
        name = resource.strip()
        if not colon:
            raise Refusal("Missing ':'")
        if not rest:
            raise Refusal(f"Missing '{name}' value")
        if name not in known:
            raise Refusal(f"Unknown or unsupported resource name '{name}'")
        for part in filter(None, rest.split(";")):
            number, equals, word = part.partition("=")
            if not equals or not number.strip().isdigit():
                raise Refusal("Missing '=' or non-numeric domain")
            domain = int(number)
            if domain not in known[name]:
                raise Refusal("")
            if domain in asked.get(name, {}):
                raise Refusal(f"Duplicate domain {domain}")
            value = _bandwidth(word.strip(), machine) if name == "MB" else _mask(word.strip(), machine)
            asked.setdefault(name, {})[domain] = value
    return asked


def _mask(word: str, machine: Machine) -> int:
    if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", word):
        raise Refusal(f"Non-hex character in the mask {word}")
    value = int(word, 16)
    if (machine.min_bits > 0 and value == 0) or value > machine.mask:
        raise Refusal("Mask out of range")
    bits = format(value, "b")[::-1].lstrip("0")
    run = len(bits) - len(bits.lstrip("1"))
    if not machine.sparse and "1" in bits[run:]:
        raise Refusal(f"The mask {value:x} has non-consecutive 1-bits")
    if run < machine.min_bits:
        raise Refusal(f"Need at least {machine.min_bits} bits in the mask")
    return value


def _bandwidth(word: str, machine: Machine) -> int:
    if not word.isdigit() or int(word) >= 2**32:
        raise Refusal(f"Invalid MB value {word}")
    value = int(word)
    if machine.mba_mbps:
        return value
    least, most, step = machine.bandwidth_least, machine.bandwidth_most, machine.bandwidth_step
    if not least <= value <= most:
        raise Refusal(f"MB value {value} out of range [{least},{most}]")
    return -(-value // step) * step
