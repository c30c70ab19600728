"""The pages are complete and true: every key of a site file, every option of a unit, examples that are read."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cohabit.app.serve import machine, site_file
from cohabit.app.serve.site_file import read_site
from cohabit.live.api.groups import GroupTable, WindowTable
from cohabit.live.peers.keys import write_new_key
from cohabit.model.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
HOW_TO, REFERENCE, API = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("live", "live-reference", "api"))
LIVE = HOW_TO + REFERENCE
TABLES = [
    struct
    for _, struct in inspect.getmembers(site_file, inspect.isclass)
    if issubclass(struct, msgspec.Struct) and struct.__module__ in (site_file.__name__, machine.__name__)
]
EXAMPLES = re.findall(r"```toml\n(.*?)```", LIVE, re.DOTALL)
UNITS = sorted((ROOT / "packaging" / "systemd").glob("*.service"))


def keys_of(struct: type) -> set[str]:
    return {field.name for field in msgspec.structs.fields(struct)}


def default_of(field: Any) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def test_every_key_of_a_site_file_is_explained() -> None:
    assert len(TABLES) >= 10
    missing = [
        f"{struct.__name__}.{key}"
        for struct in (*TABLES, GroupTable, WindowTable)
        for key in sorted(keys_of(struct))
        if f"`{key}`" not in LIVE and f"[{key}" not in LIVE
    ]
    assert not missing


def test_every_key_shown_in_a_table_exists_with_its_default() -> None:
    known = {key for struct in (*TABLES, GroupTable, WindowTable) for key in keys_of(struct)}
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", LIVE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} <= known
    fields = [field for struct in TABLES for field in msgspec.structs.fields(struct) if not field.required]
    for key, text in re.findall(r"^\| `(\w+)` \| (\S+) \|", LIVE, re.MULTILINE):
        usual = [default_of(field) for field in fields if field.name == key]
        assert tomllib.loads(f"x = {text}")["x"] in usual, key


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_are_read(text: str, tmp_path: Path) -> None:
    write_new_key(tmp_path / "pair.key")
    (tmp_path / "site.toml").write_text(text)
    site = read_site(tmp_path / "site.toml")
    assert site.jobs
    assert site.config.api is not None


def test_what_the_example_says_of_users(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(EXAMPLES[0])
    api = read_site(tmp_path / "site.toml").config.api
    assert api is not None
    assert (api.host, api.port, api.limits_of("ann").role) == ("127.0.0.1", 7000, "operator")
    assert (api.limits_of("ben").max_running, api.limits_of("ben").qos) == (4, 10)
    assert (api.limits_of("others").max_queued, api.limits_of("others").max_running) == (1000, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[api]\nlisten = "0.0.0.0:7000"', "unencrypted"),
        ('[api]\nlisten = "7000"', "HOST:PORT"),
        ('[api]\nport = 7', "unknown key 'api.port'"),
        ('[users.ann]\nrole = "king"', "role = 'king'"),
        ('[users.ann]\nmax_running = "many"', "expected a whole number"),
        ('[log]\nformat = "xml"', "xml"),
        ('[log]\nlevel = "loud"', "loud"),
        ('cache = "maybe"', "maybe"),
        ('database = "journal.db"', "not the URL"),
        ("[profiling]\nperiod_s = 0", "period_s"),
        ("[telemetry]\nevery_s = 900", "every_s"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        read_site(tmp_path / "site.toml")


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_leave_jobs_alone_and_call_what_exists(unit: Path) -> None:
    from typer.main import get_command

    from cohabit.cli.main import app

    text = unit.read_text()
    assert "KillMode=process" in text
    starts = r"^ExecStart=(?:/opt/cohabit/bin/|/usr/bin/env )cohabit (\w+)(.*)$"
    (verb, rest), *_ = re.findall(starts, text, re.MULTILINE)
    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    assert set(re.findall(r"--[a-z-]+", rest)) <= {option for one in command.params for option in one.opts}
    assert unit.name in LIVE


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_understands_the_units(unit: Path, tmp_path: Path) -> None:
    """All of it, but for what only later versions know."""
    user = ["--user"] if unit.name == "cohabit-user.service" else []
    command = ["systemd-analyze", "verify", "--man=no", *user, str(unit)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    )
    elsewhere = ("'DelegateSubgroup'", "/opt/cohabit/bin/cohabit is not executable")  # later versions, other machines
    lines = [line for line in run.stderr.splitlines() if unit.name in line]
    about_it = [line for line in lines if not any(one in line for one in elsewhere)]
    assert not about_it


@pytest.mark.parametrize("text", [LIVE, API])
def test_links_lead_somewhere(text: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", text):
        assert (ROOT / "docs" / target).exists(), target
