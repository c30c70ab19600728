"""Help, version, completion: every verb shows an example, and none of it loads anything heavy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_calls import COMMAND, VERBS, cohabit, program

HEAVY = (
    "numpy",
    "numba",
    "polars",
    "plotly",
    "sklearn",
    "httpx",
    "scipy",
    "distributed",
    "pandas",
    "sqlalchemy",
    "psycopg",
    "skops",
    "rustworkx",
)


def test_help_names_every_verb() -> None:
    answer = cohabit("--help")
    assert answer.code == 0
    assert answer.err == ""
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", answer.out, re.MULTILINE), verb


@pytest.mark.parametrize("words", [(), ("token",)])
def test_without_arguments_the_help_is_shown(words: tuple[str, ...]) -> None:
    answer = cohabit(*words)
    assert (answer.code, answer.err) == (2, "")
    assert answer.out == cohabit(*words, "--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str) -> None:
    answer = cohabit(verb, "--help")
    assert answer.code == 0
    assert re.search(r"Examples?:\s+(.*\n\s*)?.*cohabit " + verb, answer.out), answer.out
    assert "--json" in answer.out
    assert cohabit(verb, "-h").out == answer.out


def test_version() -> None:
    from cohabit import __version__

    answer = cohabit("--version")
    assert (answer.code, answer.out) == (0, f"cohabit {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["simulate", "--help"], ["sweep", "--help"], ["profiles", "show", "--help"], ["--version"]],
)
def test_help_of_the_verbs_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['cohabit', *{arguments!r}]\nfrom cohabit.cli.main import run\n"
        f"try:\n    run()\nfinally:\n    loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    print('HEAVY', loaded, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "HEAVY []"


@pytest.mark.timing
def test_the_installed_command_answers_at_once() -> None:
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([COMMAND, "--help"], stdout=subprocess.DEVNULL, timeout=60, check=True)
        took.append(time.perf_counter() - begun)
    assert min(took) < 0.3, took


@pytest.mark.parametrize(
    ("shell", "sign"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command")]
)
def test_completion_scripts(shell: str, sign: str) -> None:
    answer = program(_COHABIT_COMPLETE=f"source_{shell}")
    assert answer.code == 0, answer.err
    assert "cohabit" in answer.out
    assert sign in answer.out


def in_bash(option: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Typer asks which shell started it."""
    environment = os.environ | {"HOME": str(home)}
    call = ["bash", "-c", f"'{COMMAND}' {option}; exit $?"]
    return subprocess.run(call, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_completion_is_shown_for_the_shell_in_use(tmp_path: Path) -> None:
    done = in_bash("--show-completion", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "complete -o default" in done.stdout


def test_completion_knows_the_verbs_and_options() -> None:
    verbs = program(_COHABIT_COMPLETE="complete_bash", COMP_WORDS="cohabit ", COMP_CWORD="1")
    assert set(VERBS) <= set(verbs.out.split())
    options = program(_COHABIT_COMPLETE="complete_bash", COMP_WORDS="cohabit simulate --back", COMP_CWORD="2")
    assert options.out.split() == ["--backfill", "--backfill-order"]


def test_completion_installs_for_the_user(tmp_path: Path) -> None:
    done = in_bash("--install-completion", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".bash_completions" / "cohabit.sh").is_file()
    assert "cohabit.sh" in (tmp_path / ".bashrc").read_text()
