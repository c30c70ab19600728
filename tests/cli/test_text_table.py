"""Tables as text: what fits stays on one line, what does not is wrapped, and ids and users are not cut."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from cohabit.cli.queue import COLUMNS, columns_that_fit
from cohabit.cli.text_table import cell_width, table_lines, wrapped
from cohabit.cli.top import _frame, _screen
from cohabit.cli.top_keys import Choice


def test_a_table() -> None:
    assert table_lines(["job", "cores", "why"], [["12", "8", "waits"], ["longer", "16", "-"]], 80) == [
        "", "  job      cores   why", " " + "─" * 24, "  12           8   waits", "  longer      16   -", "",
    ]  # fmt: skip


def test_a_cell_of_two_lines_keeps_its_column() -> None:
    lines = table_lines(["policy", "wait", "busy"], [["ce", "12 min\n9 to 15 min", "80 %\n70 to 90 %"]], 80)
    assert lines[3:5] == ["  ce            12 min         80 %", "           9 to 15 min   70 to 90 %"]


def test_the_last_column_is_wrapped_first() -> None:
    name = "a-job-with-a-name-of-some-length"
    lines = table_lines(["job", "why"], [[name, "held: it must be released before it can start"]], 60)
    assert all(len(line) <= 60 for line in lines)
    assert lines[3].split()[0] == name
    assert (
        " ".join(lines[3].split()[1:] + " ".join(lines[4:]).split()) == "held: it must be released before it can start"
    )


def test_where_nothing_else_helps_words_are_folded() -> None:
    lines = table_lines(["job", "user"], [["x" * 50, "y" * 50]], 40)
    assert all(len(line) <= 40 for line in lines)
    assert "".join(lines).count("x") == "".join(lines).count("y") == 50


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]), ("one two", 7, ["one two"]), ("one two", 6, ["one", "two"]), ("abcdef", 4, ["abcd", "ef"]),
        ("a bcdefgh", 4, ["a", "bcde", "fgh"]), ("ジョブ名", 4, ["ジョ", "ブ名"]), ("x", 1, ["x"]),
    ],
)  # fmt: skip
def test_wrapping(text: str, width: int, lines: list[str]) -> None:
    assert list(wrapped(text, width)) == lines


def test_wide_characters_take_two_places() -> None:
    assert (cell_width("ab"), cell_width("ジョ"), cell_width("e\u0301")) == (2, 4, 1)
    lines = table_lines(["a", "b"], [["ジョ", "x"], ["abcd", "x"]], 80)
    assert [cell_width(line.partition("x")[0]) for line in lines[3:5]] == [9, 9]


def job(name: str, user: str) -> dict[str, Any]:
    return {
        "job": name, "user": user, "program": "a-program-with-a-name", "state": "queued", "cores": 0, "processes": 16,
        "nodes": [], "submitted_at": 1.0, "started_at": None, "ended_at": None, "limit_s": 3600.0, "array": None,
        "why": "needs 8.0 GB/s on one node; none has that free; the nearest, node 0, lacks 2.0 GB/s: job 1 runs there",
    }  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_top_cuts_no_ids_and_no_users(width: int) -> None:
    jobs = [job("2026-weather-forecast", "annabelle"), job("12", "ben")]
    node = {"node": 0, "state": "shared", "cores": 16, "used_cores": 4, "jobs": ["2026-weather-forecast", "other-job"]}
    seen = {"version": "1", "nodes": [node], "jobs": jobs, "ended": [], "more": False}
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(_frame(seen, 100.0, (width, 40)))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    rows = [line.split() for line in lines]
    assert any(row[:2] == ["2026-weather-forecast", "annabelle"] and "queued" in row for row in rows)
    assert any(row[:2] == ["12", "ben"] and "queued" in row for row in rows)
    assert ("16" in next(row for row in rows if row[:1] == ["12"])) == (width > 80)
    assert next(row for row in rows if row[:1] == ["12"])[3:6] == ["needs", "8.0", "GB/s"] or width != 80
    text = " ".join(" ".join(row) for row in rows)
    assert "2026-weather-forecast, other-job" in text


@pytest.mark.parametrize("width", [60, 80, 110])
def test_the_last_line_of_the_screen_has_the_keys(width: int) -> None:
    seen = {"version": "1", "nodes": [], "jobs": [job("12", "ben")], "ended": [], "more": False}
    for choice in (Choice(), Choice(keys=False)):
        console = Console(file=io.StringIO(), width=width, height=20, force_terminal=True, color_system=None)
        with console.capture() as shown:
            console.print(_screen(seen, 100.0, (width, 20), choice), height=20)
        lines = shown.get().splitlines()
        assert all(len(line) <= width for line in lines)
        assert lines[-1].startswith("q leave · s sort · / search") == choice.keys
        assert len(lines) == 20 or not choice.keys


def test_columns_are_left_out_one_after_the_other() -> None:
    rows = [["a-name", "annabelle", "program", "queued", "16", "-", "1m 39s", "-", "1h", "waits for nodes"]]
    widths = {tuple(columns_that_fit(rows, width)) for width in range(20, 150)}
    assert tuple(range(len(COLUMNS))) in widths
    assert len(widths) == 7
    assert all({"job", "user", "state", "why"} <= {COLUMNS[at] for at in shown} for shown in widths)
