"""The page of definitions, the glossary and the code name the same metrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from cohabit.model.records import RunTable
from cohabit.report import paper_metrics
from cohabit.report.intervals import COMPARED
from cohabit.report.mates import MATES_GLOSSARY
from cohabit.report.metrics import summarise
from cohabit.report.wording import GLOSSARY

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "metrics.md").read_text(encoding="utf-8")
EVIDENCE = (DOCS / "reproducing.md").read_text(encoding="utf-8")
CODES = re.compile(r"\b[SCRPIUK][1-9][0-9]?\b")  # of the papers' requirements


def test_every_metric_is_defined_and_explained(run_of: Callable[..., RunTable]) -> None:
    names = set(summarise(run_of([])))
    assert names == set(GLOSSARY)
    assert set(COMPARED) <= names
    assert not [name for name in names if f"`{name}`" not in PAGE]


def test_every_metric_of_mates_is_defined() -> None:
    assert not [name for name in MATES_GLOSSARY if f"`{name}`" not in PAGE]


def test_every_paper_metric_is_defined_with_its_number() -> None:
    own = [
        name for name, function in inspect.getmembers(paper_metrics, inspect.isfunction)
        if function.__module__ == paper_metrics.__name__ and not name.startswith("_")
    ]  # fmt: skip
    assert len(own) > 20
    assert not [name for name in own if f"`{name}`" not in EVIDENCE]
    for number in ("S64", "S65", "S66", "S67", "S68", "S69", "C16", "C17", "C18", "C19", "R45", "P7", "I34"):
        assert number in EVIDENCE


def test_requirement_numbers_are_in_the_evidence_only() -> None:
    pages = [page for page in DOCS.glob("*.md") if page.name != "reproducing.md"]
    assert len(pages) > 30
    assert not [page.name for page in pages if CODES.search(page.read_text(encoding="utf-8"))]
