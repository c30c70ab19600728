"""docs/programs.md is true: its example is read, and every field that is read is explained."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from cohabit.trace import programs
from cohabit.trace.programs import CATALOGUES, parse_programs

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "programs.md").read_text(encoding="utf-8")


def test_the_example_is_a_file_of_programs() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    read = parse_programs(example, "docs/programs.md")
    assert read["MG"].time_s(2) == 79.5
    assert read["MG"].scales == (1, 2, 4, 8)


def test_every_field_is_explained() -> None:
    source = inspect.getsource(programs._Entry) + inspect.getsource(programs._machine)
    reads = (
        r"(?:number|text|flag|table|curve|get)\((?:self\.data, |data, )?\"(\w+)\"|(?:platform\[)\"(\w+)\"|\"(\w+)\" in "
    )
    fields = {name for names in re.findall(reads, source) for name in names if name} - {"sns_defaults"}
    assert len(fields) >= 20
    assert not [name for name in fields if f"`{name}`" not in PAGE]
    assert all(name in PAGE for name in CATALOGUES)
