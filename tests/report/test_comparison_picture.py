"""The static picture for a README: valid, small and safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from cohabit.model.records import RunTable
from cohabit.report.picture import write_comparison_svg

SVG = "{http://www.w3.org/2000/svg}"


def test_it_is_valid_small_and_names_every_policy(policy_runs: list[RunTable], tmp_path: Path) -> None:
    write_comparison_svg(policy_runs, tmp_path / "picture.svg")
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert {"fcfs", "first fit", "sjf"} <= set(words)
    assert len(list(root.iter(f"{SVG}rect"))) == 3
    assert (tmp_path / "picture.svg").stat().st_size < 60_000
    assert not list(root.iter(f"{SVG}script"))


def test_names_are_escaped_and_runs_of_nothing_are_left_blank(run_of: Callable[..., RunTable], tmp_path: Path) -> None:
    nothing = replace(run_of([(0, None, None, 1)]), policy="<b>&</text>")
    write_comparison_svg([nothing, run_of([(0, 0, 5, 1)])], tmp_path / "picture.svg")
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    assert "<b>&</text>" in [element.text for element in root.iter(f"{SVG}text")]
