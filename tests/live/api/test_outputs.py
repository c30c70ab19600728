"""Where output goes, and why a job could not be run: files per member, placeholders, reasons a user understands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cohabit.backend import output_names
from cohabit.backend.protocol import Launch
from cohabit.live.api.credentials import Caller
from cohabit.live.api.problems import Refusal
from cohabit.live.api.settings import ApiSettings, UserLimits
from cohabit.live.api.shapes import Submission
from cohabit.live.api.taking import account_of
from cohabit.model.errors import InputError
from tests.live.api.serving import SHELL, Server, served

ARRAY = Launch(("true",), array_first=3, array_count=4)
WHICH = "echo $COHABIT_ARRAY $COHABIT_ARRAY_MEMBER $COHABIT_ARRAY_FIRST $COHABIT_ARRAY_LAST $COHABIT_ARRAY_SIZE"


@pytest.mark.parametrize(
    ("pattern", "job", "launch", "file"),
    [
        ("out", "7", Launch(("true",)), "out"),
        ("out-%j", "7", Launch(("true",)), "out-7"),
        ("100%%-%q", "7", Launch(("true",)), "100%-%q"),
        ("out-%A-%a", "7_4", ARRAY, "out-7-4"),
        ("out-%j", "my_job_4", ARRAY, "out-my_job_4"),
        ("out", "7_4", ARRAY, "out.4"),
        ("out-%A", "7_4", ARRAY, "out-7.4"),
        ("/dev/null", "7_4", ARRAY, "/dev/null"),
    ],
)
def test_names_of_files(pattern: str, job: str, launch: Launch, file: str) -> None:
    assert output_names.expand(pattern, job, launch) == file


@pytest.mark.parametrize(("pattern", "array"), [("%a", False), ("%A", False), ("%x", True), ("100%", True)])
def test_placeholders_nobody_can_fill_are_refused(pattern: str, array: bool) -> None:
    with pytest.raises(InputError, match="stdout"):
        output_names.check(pattern, array, "stdout")


def test_members_of_an_array_have_output_of_their_own(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "50%j"  # its name means itself
    folder.mkdir()
    cases: list[tuple[str, dict[str, Any]]] = [
        ("own", {"stdout": "out-%a.txt"}), ("plain", {"stdout": "all.txt", "stderr": "err-%j"}), ("kept", {}),
    ]  # fmt: skip
    for name, files in cases:
        body = {"command": [*SHELL, WHICH], "name": name, "array": "3-5", "folder": str(folder), **files}
        assert server.ask("POST", "/v1/jobs", body).status == 201
        assert server.over(name)["state"] == "done"
        for number in (3, 4, 5):
            said = server.ask("GET", f"/v1/jobs/{name}_{number}/output").body
            assert said == f"{name} {number} 3 5 3\n"
    written = sorted(file.name for file in folder.iterdir())
    plain = [f"all.txt.{number}" for number in (3, 4, 5)] + [f"err-plain_{number}" for number in (3, 4, 5)]
    assert written == sorted([f"out-{number}.txt" for number in (3, 4, 5)] + plain)
    assert server.show("own_4")["stdout"] == str(folder / "out-4.txt")
    assert server.show("plain_4")["stderr"] == str(folder / "err-plain_4")


def test_a_job_that_is_no_member_knows_of_no_array(server: Server) -> None:
    job = server.submit("env")
    assert server.over(job)["state"] == "done"
    assert "COHABIT_ARRAY" not in server.ask("GET", f"/v1/jobs/{job}/output").body


def test_how_long_an_array_may_be_is_the_sites_to_say() -> None:
    with served(ApiSettings(others=UserLimits(max_array=3), users={"root": UserLimits(max_array=2)})) as server:
        body = {"command": ["true"], "hold": True}
        most = 2 if os.geteuid() == 0 else 3
        refused = server.ask("POST", "/v1/jobs", {**body, "array": f"1-{most + 1}"})
        assert (refused.status, refused.body["where"]) == (422, "array")
        assert f"at most {most} are allowed" in refused.body["error"]
        assert server.ask("POST", "/v1/jobs", {**body, "array": f"1-{most}"}).status == 201


def test_accounts_are_the_sites_to_give() -> None:
    body = {"command": ["true"], "hold": True}
    with served(ApiSettings(users={"root": UserLimits(role="admin", accounts=("physics", "chem"))})) as server:
        assert server.show(server.ask("POST", "/v1/jobs", body).body["job"])["account"] in ("physics", "")
        taken = server.ask("POST", "/v1/jobs", {**body, "account": "chem"})
        assert server.show(taken.body["job"])["account"] == "chem"
        for wrong in ("", "a b", "-x", "x" * 65, "a\n", "ä"):
            refused = server.ask("POST", "/v1/jobs", {**body, "account": wrong})
            assert (refused.status, refused.body["where"]) == (422, "account"), wrong
    limits = UserLimits(accounts=("physics", "chem"))
    asked = [Submission(command=["true"], account=one) for one in (None, "chem", "biology")]
    ann = Caller("ann", 1001, "user", "here", local=True)
    assert [account_of(one, ann, limits) for one in asked[:2]] == ["physics", "chem"]
    with pytest.raises(Refusal, match="not yours: you may use physics, chem"):
        account_of(asked[2], ann, limits)
    with pytest.raises(Refusal, match="you have none"):
        account_of(asked[1], ann, UserLimits(accounts=()))
    assert account_of(asked[2], ann, UserLimits()) == "biology", "without a list any"
    with pytest.raises(InputError, match="accounts has"):
        ApiSettings(others=UserLimits(accounts=("a b",)))


@pytest.mark.parametrize("bound", [0, 10**6])
def test_bounds_of_arrays_that_cannot_be(bound: int) -> None:
    with pytest.raises(InputError, match="max_array"):
        ApiSettings(others=UserLimits(max_array=bound))


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"command": ["/no/such/program"]}, "could not execute /no/such/program: no such file or directory"),
        ({"command": ["no-such-program"]}, "could not execute no-such-program: no such file or directory"),
        ({"command": ["/etc/passwd"]}, "could not execute /etc/passwd: permission denied"),
        ({"command": ["true"], "folder": "/no/such"}, "could not enter its folder /no/such: no such file or directory"),
        (
            {"command": ["true"], "stdout": "/no/such/out"},
            "could not open its output /no/such/out: no such file or directory",
        ),
        (
            {"command": ["true"], "stderr": "/no/such/err"},
            "could not open its error output /no/such/err: no such file or directory",
        ),
    ],
)
def test_why_a_job_could_not_be_run_is_in_its_record(server: Server, job: dict[str, Any], why: str) -> None:
    answer = server.ask("POST", "/v1/jobs", job)
    assert answer.status == 201, answer
    name = answer.body["job"]
    view = server.over(name)
    assert (view["state"], view["why"]) == ("failed", why)
    assert server.ask("GET", f"/v1/jobs/{name}/why").body["why"] == why
    listed = server.ask("GET", "/v1/jobs?state=finished").body["jobs"]
    assert next(one["why"] for one in listed if one["job"] == name) == why


def test_a_program_that_fails_by_itself_has_only_its_status(server: Server) -> None:
    view = server.over(server.submit("exit 127"))
    assert (view["state"], view["exit_status"], view["why"]) == ("failed", 127, "")
