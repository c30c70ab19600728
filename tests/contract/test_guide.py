"""CONTRIBUTING.md walks through a first policy; this test follows it to the letter."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cohabit.app.scenario.reading import scenario_from
from cohabit.app.simulate import simulation
from cohabit.policy.registry import ORDERS, OrderEntry

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def blocks() -> list[str]:
    """The Python blocks of the guide, without the indentation of the list they stand in."""
    found = re.findall(r"^   ```python\n(.*?)^   ```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in found]


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of step 1 and the registry line of step 2, in place for one test."""
    source, line = blocks()
    assert len(source.splitlines()) < 40
    assert len(line.strip().splitlines()) == 1
    package = tmp_path / "guide_example"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "narrow.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = eval("{" + line + "}", {"OrderEntry": OrderEntry, "_ORDER": "guide_example."})
    for name, entry in entries.items():
        monkeypatch.setitem(ORDERS, name, entry)
    yield next(iter(entries))
    for name in [name for name in sys.modules if name.startswith("guide_example")]:
        del sys.modules[name]


def run(order: str, engine: str, **options: float) -> tuple[list[int], str]:
    scenario = scenario_from(
        {
            "cluster": {"nodes": 16},
            "jobs": {"generator": "poisson", "jobs": 200, "load": 1.1},
            "policy": {"order": order, "order_options": options},
        },
        "guide",
    )
    prepared = simulation.prepare(scenario)
    assert prepared.policies.order.entry is not None, "the guide's order must compile"
    table, _ = simulation.run(prepared, engine=engine)
    return table.start_us.tolist(), table.journal_hash


def test_the_guide_gives_a_working_order(followed: str) -> None:
    fast, fast_hash = run(followed, "fast")
    steps, steps_hash = run(followed, "steps")
    assert (fast, fast_hash) == (steps, steps_hash)
    assert fast != run("wfp", "fast")[0], "the new order must order differently"


def test_its_parameters_are_options(followed: str) -> None:
    assert run(followed, "fast")[0] != run(followed, "fast", patience_h=0.01)[0]
