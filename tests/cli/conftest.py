"""Files the command-line tests start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_calls import EXAMPLE, Answer, cohabit


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The contract's example: jobs A, B, C on 10 nodes."""
    path = tmp_path / "abc.swf"
    path.write_text(EXAMPLE)
    return path


@pytest.fixture
def scenario(trace: Path) -> Path:
    """The same as a scenario file."""
    path = trace.with_name("abc.toml")
    path.write_text('seed = 1\n[cluster]\nnodes = 10\n[jobs]\ntrace = "abc.swf"\n')
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with every output: A, B, C and one job that is too large."""
    folder = tmp_path_factory.mktemp("finished")
    path = folder / "abc.swf"
    path.write_text(EXAMPLE + "4 3 -1 10 11 -1 -1 11 10 -1 1 1 1 1 1 1 -1 -1\n")
    answer: Answer = cohabit("simulate", path, "--out", folder / "run", "--journal")
    assert answer.code == 0, answer.err
    return folder / "run"
