"""The keys of `cohabit top`: what each changes, and what is then shown."""

from __future__ import annotations

from typing import Any

from cohabit.cli.top_keys import SORTS, Choice, pressed

NOW = 1000.0


def job(name: str, state: str = "queued", submitted: float = 0.0, started: float | None = None, **others: Any) -> Any:
    return {"job": name, "state": state, "submitted_at": submitted, "started_at": started, "ended_at": None,
            "cores": 1, "processes": 1, "user": "ann", "program": "solve", "why": ""} | others  # fmt: skip


JOBS = [job("1", "running", 10, 500, cores=8), job("2", "queued", 20, user="bob"), job("3", "held", 5, program="mix"),
        job("4", "starting", 30, 990)]  # fmt: skip


def typed(keys: str, choice: Choice | None = None) -> Choice:
    choice = choice or Choice()
    for key in keys:
        choice = pressed(key, choice)
    return choice


def names(choice: Choice) -> list[str]:
    return [one["job"] for one in choice.shown(JOBS, NOW)]


def test_sorting_goes_round_and_can_be_turned() -> None:
    assert names(Choice()) == ["3", "1", "2", "4"]
    assert typed("s" * len(SORTS)) == Choice()
    assert typed("sS") == Choice()
    longest_wait = typed("s")
    assert names(longest_wait)[0] == "3"
    assert names(pressed("i", longest_wait)) == names(longest_wait)[::-1]
    assert names(typed("sss"))[0] == "1"  # by cores


def test_kinds_and_searches_leave_out_the_others() -> None:
    assert names(typed("r")) == ["1", "4"]
    assert names(typed("w")) == ["3", "2"]
    assert names(typed("wa")) == names(Choice())
    searching = typed("/bob")
    assert searching.typing
    assert names(searching) == ["2"]
    assert "search: bob_" in searching.line()
    done = typed("\r", searching)
    assert not done.typing
    assert names(done) == ["2"]
    assert names(typed("/mixq\x7f\r")) == ["3"]
    assert typed("/mix\x1b") == Choice()


def test_leaving_and_letters_in_a_search() -> None:
    assert typed("q").left
    assert typed("\x1b").left
    assert not typed("/q").left
    assert typed("/q").find == "q"
    assert typed("np?") == Choice(nodes=False, paused=True, keys=False)
    assert typed("z") == Choice()
