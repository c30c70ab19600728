"""The user's pages are complete and true: every key, every name, and examples that run."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from cohabit.app.scenario import tables as configuration
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.reading import cluster_of, scenario_from
from cohabit.core.columns import Columns
from cohabit.policy.registry import BACKFILLS, BUNDLES, GATES, ORDERS, PLACEMENTS, order_entry

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCENARIOS, POLICIES, SIMULATING = (
    (DOCS / f"{name}.md").read_text() for name in ("scenarios", "policies", "simulating")
)
STRUCTS = [
    struct
    for _, struct in inspect.getmembers(configuration, inspect.isclass)
    if issubclass(struct, msgspec.Struct) and struct.__module__ == configuration.__name__
]
EXAMPLES = re.findall(r"```toml\n(.*?)```", SCENARIOS, re.DOTALL)


def test_every_key_of_a_scenario_is_explained() -> None:
    assert len(STRUCTS) >= 8
    missing = [
        f"{struct.__name__}.{field.name}"
        for struct in STRUCTS
        for field in msgspec.structs.fields(struct)
        if f"`{field.name}`" not in SCENARIOS
    ]
    assert not missing


def test_every_key_shown_in_a_table_exists() -> None:
    known = {field.name for struct in STRUCTS for field in msgspec.structs.fields(struct)}
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", SCENARIOS, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} <= known


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_are_valid(text: str) -> None:
    data = tomllib.loads(text)
    if "domain" not in data:
        data.setdefault("jobs", {"trace": "jobs.swf"})
    scenario = scenario_from(data, "docs/scenarios.md")
    for one in scenario.domain or [scenario]:
        cluster_of(one.cluster, 64)
        build(one.policy)


def names_in(section: str) -> set[str]:
    """The names in the first column of the table of a section of policies.md."""
    found = re.search(rf"^## {section}.*?(?=^## |\Z)", POLICIES, re.MULTILINE | re.DOTALL)
    assert found
    return set(re.findall(r"^\| `([^`]+)` \|", found[0], re.MULTILINE))


def test_every_policy_is_explained_and_every_explained_one_exists() -> None:
    assert names_in("Orders") == set(ORDERS)
    assert names_in("Backfilling") == set(BACKFILLS)
    assert names_in("Placements") == set(PLACEMENTS)
    assert names_in("Gates") == set(GATES)
    assert names_in("Bundles") == set(BUNDLES)


def test_every_option_of_an_order_is_explained_with_its_default() -> None:
    from importlib import import_module

    for name in ORDERS:
        entry = order_entry(name)
        function = getattr(import_module(entry.module), entry.function)
        for option in list(inspect.signature(function).parameters.values())[3:]:
            assert f"`{option.name}`" in POLICIES, f"{name}: {option.name}"
            assert re.search(rf"`{option.name}`\s\({option.default:g}\)", POLICIES), f"{name}: {option.name}"


def test_every_column_an_order_may_read_is_named() -> None:
    assert [name for name in Columns._fields if f"`{name}`" not in POLICIES] == []


@pytest.mark.slow
def test_the_order_on_the_page_works(tmp_path: Path) -> None:
    from cohabit.app.simulate import simulation

    (text,) = re.findall(r"```python\n(.*?)```", POLICIES, re.DOTALL)
    path = tmp_path / "mine.py"
    path.write_text(text)
    jobs = {"generator": "lublin", "jobs": 30}
    scenario = scenario_from({"cluster": {"nodes": 8}, "jobs": jobs, "policy": {"order": str(path)}}, "test")
    table, _ = simulation.run(simulation.prepare(scenario), engine="steps")
    assert (table.start_us >= table.workload.submit_us).all()


def test_the_newcomers_page_names_files_columns_and_states() -> None:
    from cohabit.model.records import STATUS_NAMES

    columns = ["job_id", "program", "user", "submit_s", "start_s", "end_s", "nodes", "cores", "scale"]
    files = ["summary.json", "jobs.csv", "jobs.parquet", "report.html", "journal.parquet"]
    for word in (*columns, "status", "reason", *files, *(name for name in STATUS_NAMES if name != "waiting")):
        assert f"`{word}`" in SIMULATING, word


def test_commands_on_the_pages_exist() -> None:
    from typer.main import get_command

    from cohabit.cli.main import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    for page in (SCENARIOS, POLICIES, SIMULATING):
        for verb, rest in re.findall(r"^\s+cohabit (\w+)(.*)$", page, re.MULTILINE):
            known = {option for parameter in commands[verb].params for option in parameter.opts}
            assert set(re.findall(r"(?<= )--[a-z-]+", rest)) <= known, (verb, rest)


@pytest.mark.parametrize("page", ["scenarios", "policies", "simulating"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", (DOCS / f"{page}.md").read_text()):
        assert (DOCS / target).exists(), target
