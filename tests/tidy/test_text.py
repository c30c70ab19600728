"""What must not stand in any file: loose ends, names that say nothing, this machine's paths, package indexes."""

from __future__ import annotations

import ast
import os
import re
from pathlib import PurePosixPath

import pytest
from source_tree import ROOT, committed_text_files, modules

VAGUE = (  # words and phrases that readers stumbled over, and that may not come back
    r"\b(?:somebody|nobody|whoever|everybody|endless(?:ly)?)\b", "asks? for calm", "bad weather", "living scheduler",
    "0 have that", "of its array run", "needs 1 nodes", r"\b1 (?:jobs|nodes|cores|ways)\b", "has not what it needs",
    "no whole profile", "no scale is possible", "longer than nothing", "every so often", "to reckon with",
    "a hole in it", "decided upon with that", "is not handed out", "how much hangs", "does not even give", "is no work",
    "array has no mates", "are no whole scale", "was submitted so", "is no share", "nothing is gated on",
    "kernel tells of", r"\bcame of it\b", r"\bturned round\b", "is no time to", "Back later, by",
    "gives hosts to one job", "is no point in time", "is no name for", "a number that is none",
    "hand(?:s|ed)? in a job", "starts afresh", "made anew", "decided upon anew", r"\bliving (?:controller|site|one)\b",
    r"\bwho slows whom\b",
    "who hurts whom", "nothing of that keeps", "no cache is like that",
)  # fmt: skip
READ_BY_PEOPLE = (".py", ".js", ".html", ".md")
STORED_WORD = "src/cohabit/launcher/runs.py"  # "nobody" is in the claims of runs on disk
EMPTY_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}
LOOSE_ENDS = re.compile(r"\b(" + "|".join(["TODO", "FIXME", "XXX", "NotImplementedError"]) + r")\b")
MACHINE_PATHS = re.compile(r"(?:^|[^a-zA-Z0-9_.])/(?:work|farm|root)(?:/|\b)", re.MULTILINE)
INDEXES = re.compile(  # written so that it does not find itself
    r"index[-_]url|extra[-_]index|trusted[-_]host|find[-_]links|/simp[l]e/|py[p]i\.org|python[h]osted|"
    r"registry\s*=\s*\"?https?:",
    re.IGNORECASE,
)  # fmt: skip


def places(pattern: re.Pattern[str], name: str, text: str) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group().strip()}"
        for match in pattern.finditer(text)
    ]


def test_every_module_says_what_it_is_for() -> None:
    assert not [module.path for module in modules() if not ast.get_docstring(module.tree)]


def test_no_loose_ends() -> None:
    assert not [place for module in modules() for place in places(LOOSE_ENDS, module.path, module.text)]


def test_names_say_something() -> None:
    """A stranger must be able to guess what is in a file."""
    found = []
    for name, _ in committed_text_files():
        path = PurePosixPath(name)
        words = {word for part in path.with_suffix("").parts for word in part.split("_")}
        if path.suffix == ".py" and words & EMPTY_NAMES:
            found.append(name)
    assert not found


def test_no_paths_of_one_machine() -> None:
    assert not [place for name, text in committed_text_files() for place in places(MACHINE_PATHS, name, text)]


def test_no_package_index_is_named() -> None:
    """pip's own settings decide where packages come from; the lock's hashes decide which."""
    assert not [place for name, text in committed_text_files() for place in places(INDEXES, name, text)]


def test_vague_words_do_not_come_back() -> None:
    pattern, found = re.compile("|".join(VAGUE), re.IGNORECASE), []
    for name, text in committed_text_files():
        if name.endswith(READ_BY_PEOPLE) and name.startswith(("src/", "docs/", "README")) and name != STORED_WORD:
            found += places(pattern, name, text)
    assert not found


@pytest.mark.parametrize("name", ["setup", "system-packages", "lock", "frameworks"])
def test_scripts_can_be_run(name: str) -> None:
    assert os.access(ROOT / "scripts" / name, os.X_OK)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert (ROOT / "scripts" / name).read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
