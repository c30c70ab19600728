"""`cohabit reproduce`: statuses, the JSON document and the files it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import TINY
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.model.errors import InputError
from cohabit.reproduce.sns import plan

runner = CliRunner()


@pytest.fixture
def tiny_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "QUICK", TINY)
    monkeypatch.setenv("COHABIT_SHARED", "/nowhere")


def test_unknown_papers_and_wrong_options_are_refused() -> None:
    for arguments in (["magic"], ["sns", "--programs", "mine"], ["sns", "--seed", "-1"], ["sns", "--workers", "0"]):
        with pytest.raises(InputError):
            runner.invoke(app, ["reproduce", *arguments], catch_exceptions=False)


@pytest.mark.slow
def test_json_and_files(tiny_sizes: None, tmp_path: Path) -> None:
    arguments = [
        "reproduce",
        "sns",
        "--quick",
        "--seed",
        "3",
        "--workers",
        "1",
        "--json",
        "--out",
        str(tmp_path / "out"),
    ]
    answer = runner.invoke(app, arguments, catch_exceptions=False)
    assert answer.exit_code == 0, "a row that does not hold is a result, not a failure"
    document = json.loads(answer.stdout)
    assert any(one["holds"] is False for one in document["rows"])
    assert json.loads((tmp_path / "out" / "rows.json").read_text()) == document
    assert len((tmp_path / "out" / "rows.csv").read_text().splitlines()) >= len(document["rows"]) + 1
    assert "<h1>Spread-n-Share" in (tmp_path / "out" / "report.html").read_text()
