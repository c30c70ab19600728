"""The light parser and typer's read the same declarations, and understand every call the same way."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from cohabit.cli import light
from cohabit.cli.declaring import Argument, declared
from cohabit.cli.main import app
from cohabit.model.errors import InputError

WHOLE: Any = typer.main.get_command(app)
NOT_TAKEN = "left to the whole command"


def verb_of(name: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(import_module(f"cohabit.cli.{light.VERBS[name]}"), name)
    return function


def lightly(name: str, words: list[str]) -> Any:
    """What the light parser makes of a call."""
    module = import_module(f"cohabit.cli.{light.VERBS[name]}")
    try:
        return light.read(verb_of(name), words, getattr(module, "script_lines", None))
    except (light.NotUnderstood, InputError):
        return NOT_TAKEN


def fully(name: str, words: list[str]) -> Any:
    """What typer makes of it; the same word for everything it refuses."""
    try:
        with WHOLE.commands[name].make_context(name, list(words)) as context:
            return dict(context.params)
    except Exception as error:
        if not (isinstance(error, InputError) or hasattr(error, "format_message") or "Exit" in type(error).__name__):
            raise
        return NOT_TAKEN


def same(left: Any, right: Any) -> bool:
    """Lists are tuples before typer has made them lists; nothing given is None for one and empty for the other."""
    if NOT_TAKEN in (left, right):
        return bool(left == right)
    left, right = (
        {key: (list(value) or None) if isinstance(value, list | tuple) else value for key, value in one.items()}
        for one in (left, right)
    )
    return bool(left == right)


@pytest.mark.parametrize("name", light.VERBS)
def test_every_option_is_the_same_for_both(name: str) -> None:
    params = {one.name: one for one in WHOLE.commands[name].params if one.name != "help"}
    ours = declared(verb_of(name))
    assert [one.name for one in ours] == list(params)
    for one in ours:
        there = params[one.name]
        assert there.help == one.told.help
        assert there.metavar == one.told.metavar
        assert there.required == (one.default is ...)
        if isinstance(one.told, Argument):
            assert (there.nargs == -1) == (one.kind is list)
        else:
            assert sorted(there.opts) == sorted(one.names)
            assert not there.secondary_opts
            assert there.is_flag == (one.kind is bool)
            assert there.default == one.default
            assert {"integer": int, "text": str, "float": float, "boolean": bool}[there.type.name] is one.kind


CALLS = [
    "queue", "queue --all", "queue -a --json", "queue --limit 5 --user ann", "queue --limit=5", "queue --limit five",
    "queue --limit", "queue --help", "queue -h", "queue extra", "queue --al", "queue --all=yes", "queue --user=",
    "queue -a -a", "queue -ah", "queue --limit 5 --limit 6", "queue --limit -5", "queue -- --all", "queue --state done",
    "show", "show 1", "show 1 2", "show --json 1", "show 1 --json", "show -- -1", "show -1", "show -",
    "cancel", "cancel 1 2 3", "cancel --all", "cancel 1 --all", "cancel -- --all", "wait 1 --timeout 5s 2", "wait",
    "logs 1 -f", "logs -f1", "logs -fn5 1", "logs 1 -n5", "logs 1 -n 5", "logs 1 -n=5", "logs 1 -n", "logs 1 --lines 2",
    "submit", "submit true", "submit -- true", "submit --", "submit -n4 -- true", "submit -n 4 true -n 5",
    "submit --alpha 0.9 true", "submit --alpha much true", "submit -o out -e err true", "submit --hold --json true a",
    "submit --hold true --json", "submit -n 4", "submit --qos 3 -- a -- b", "submit --nodess 3 true",
    "submit --chdir . x",
    "submit --name --hold true", "submit -- -x", "submit -x", "submit --nodes=1_0 true", "hold 1", "hold",
    "release 1 2",
    "requeue 1 --json", "change 1 --limit 5m", "change 1 --qos 1.5", "change --qos 2",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_call_means_the_same_to_both(call: str) -> None:
    name, *words = call.split()
    assert same(lightly(name, words), fully(name, words)), (lightly(name, words), fully(name, words))


@pytest.mark.parametrize("name", light.VERBS)
def test_any_call_means_the_same_to_both(name: str) -> None:
    """Words thrown together: options whole, cut, misspelt, with and without their values."""
    dice = random.Random(28)
    options = [typed for one in declared(verb_of(name)) for typed in one.names]
    words = [*options, "--", "-", "1", "x y", "", "4", "-5", "0.5", "=", "-h", "--help", "--no-such", "-n4", "-fa"]
    words += [f"{one}=3" for one in options] + [f"{one}4" for one in options] + [one[:-1] for one in options]
    for _ in range(150):
        call = dice.choices(words, k=dice.randrange(6))
        assert same(lightly(name, call), fully(name, call)), (call, lightly(name, call), fully(name, call))


def test_options_of_a_script_mean_the_same_to_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["--limit 2h -n 3", "--limit 2h sleep", "--nope", "--name 'open", "--json\n#COHABIT -n 2 --hold", ""]
    for line in lines:
        (tmp_path / "job.sh").write_text(f"#!/bin/sh\n#COHABIT {line}\ntrue\n")
        for words in (["job.sh"], ["-n", "5", "./job.sh", "-n", "7"], ["--", "job.sh"]):
            assert same(lightly("submit", words), fully("submit", words)), (line, words)
    assert lightly("submit", ["-n", "5", "job.sh"])["processes"] == 5


def test_other_verbs_and_completion_are_left_to_the_whole_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(light.COMPLETION, raising=False)
    assert light.find([]) is None
    assert light.find(["simulate", "x"]) is None
    assert light.find(["--version"]) is None
    assert light.find(["queue"]) is not None
    monkeypatch.setitem(os.environ, light.COMPLETION, "complete_bash")
    assert light.find(["queue"]) is None
