"""A user who claims another user's program, and has it profiled again, changes nothing for that user's jobs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cohabit.store.json_form import CoRunSample
from cohabit.store.profiles import open_store
from tests.attack.accounts import Account
from tests.attack.controllers import RootController, controller

SOLVER, LONG_S, SHORT_S = "solver", 1.0, 0.2


def run(server: RootController, account: Account, seconds: float, **others: Any) -> None:
    """A job of the account that claims to be the solver, until it is over."""
    job = server.submit(account, f"sleep {seconds}", program=SOLVER, **others)
    assert server.over(job)["state"] == "done"


def known(server: RootController, caller: Account | None, *owners: str) -> list[dict[str, Any]]:
    """Profiles of the solver of these owners, as the caller sees them; without owners everybody has the same."""
    answer = server.ask(caller, "GET", "/v1/page/programs")
    assert answer.status == 200, answer
    found = [one for one in answer.body["programs"] if one["program"] == SOLVER]
    return [one for one in found if one.get("owner", owners[0]) in owners]


def purpose(server: RootController, account: Account) -> tuple[str, bool]:
    """Why the core runs the account's next job of the solver: to measure it alone, or as its profile says."""
    job = server.submit(account, f"sleep {LONG_S}", program=SOLVER)
    placed: list[dict[str, Any]] = []

    def runs() -> bool:
        placed[:] = [server.ask(None, "GET", f"/v1/page/jobs/{job}").body["placement"]]
        return placed[0] is not None

    server.until(runs)
    assert server.over(job)["state"] == "done"
    return placed[0]["purpose"], placed[0]["exclusive"]


class Attacked(NamedTuple):
    """A controller, and what it knew of bob's solver before ann claimed that name for a program of hers."""

    server: RootController
    before: dict[str, Any]


@pytest.fixture(scope="module")
def attacked(accounts: tuple[Account, Account]) -> Iterator[Attacked]:
    """`cohabit up` by root on one node, with a policy that measures programs and shares nodes by their profiles."""
    ann, bob = accounts
    folder = Path(tempfile.mkdtemp(prefix="cohabit-attack-"))
    folder.chmod(0o711)
    with controller(folder, "--nodes", "1", "--policy", "sns") as server:
        run(server, bob, LONG_S)  # for its time
        run(server, bob, LONG_S)  # for its curves
        (before,) = known(server, None, bob.name)
        run(server, ann, SHORT_S, reprofile=True)
        run(server, ann, SHORT_S)
        yield Attacked(server, before)
    shutil.rmtree(folder)


def test_a_run_under_another_users_program_leaves_that_users_profile_alone(
    attacked: Attacked, ann: Account, bob: Account
) -> None:
    server, before = attacked
    assert before["scales"][0]["time_s"] == pytest.approx(LONG_S, abs=0.7)
    assert before["next_trial"] is None
    assert known(server, None, bob.name) == [before]
    assert purpose(server, bob) == ("run", False), "what is known of it is used, and nothing is measured again"
    (own,) = known(server, None, ann.name)
    assert own["scales"][0]["time_s"] < LONG_S, "her runs wrote her own profile"


def test_profiles_of_others_are_shown_to_operators_only(attacked: Attacked, ann: Account, bob: Account) -> None:
    def owners(caller: Account | None) -> set[str]:
        answer = attacked.server.ask(caller, "GET", "/v1/page/programs")
        return {one["owner"] for one in answer.body["programs"]}

    assert owners(ann) - {""} == {ann.name}
    assert owners(None) - {""} == {ann.name, bob.name}


def test_only_an_operator_shares_a_profile_and_owners_keep_theirs(
    attacked: Attacked, ann: Account, bob: Account
) -> None:
    server, before = attacked
    wish = {"program": SOLVER, "user": ann.name}
    shared_before = known(server, None, "")
    assert server.ask(ann, "POST", "/v1/profiles/share", wish).status == 403
    assert known(server, None, "") == shared_before

    answer = server.ask(None, "POST", "/v1/profiles/share", wish)
    assert (answer.status, answer.body) == (200, {**wish, "profiles": 1})
    (shared,) = known(server, bob, "")
    assert shared["scales"] == known(server, ann, ann.name)[0]["scales"]
    assert known(server, bob, bob.name) == [before]

    run(server, ann, SHORT_S, reprofile=True)
    assert known(server, bob, "") == [shared], "she cannot have what is shared forgotten, although it was hers"

    server.kill()
    server.start()
    assert known(server, bob, "") == [shared], "it is in the journal"
    assert known(server, bob, bob.name) == [before]
    entries = server.ask(None, "GET", "/v1/audit").body["entries"]
    assert f"{SOLVER} of {ann.name}" in [one["about"] for one in entries if one["action"] == "share profile"]


def test_the_verb_shares_in_the_living_controller(attacked: Attacked, ann: Account, bob: Account) -> None:
    server, before = attacked
    call = [sys.executable, "-m", "cohabit.cli", "profiles", "share", SOLVER, "--from", bob.name, "--server",
            str(server.place)]  # fmt: skip
    status, out, err = _outcome([*call, "--store", str(server.place.parent / "absent.db")])
    assert (status, out) == (2, ""), "a store that was named must be there"
    assert "there is no profile store" in err
    status, out, err = _outcome(call)
    assert (status, out) == (0, f"shared 1 profile of {SOLVER} from {bob.name} in the running controller\n"), err
    (shared,) = known(server, ann, "")
    assert shared["scales"] == before["scales"]


def test_users_see_and_forget_stored_profiles_of_their_own_only(attacked: Attacked, ann: Account, bob: Account) -> None:
    server, _ = attacked

    def stored(caller: Account | None) -> set[str]:
        body = server.ask(caller, "GET", "/v1/profiles").body
        answer = server.ask(caller, "GET", f"/v1/profiles/{SOLVER}/history")
        assert answer.status == 200, answer
        samples = answer.body["samples"]
        assert {one["owner"] for one in samples} == {one.get("owner", "") for one in body["profiles"]}
        return {one.get("owner", "") for one in body["profiles"]} - {""}

    server.until(lambda: stored(None) == {str(ann.uid), str(bob.uid)})
    assert stored(ann) == {str(ann.uid)}
    for owner in (str(bob.uid), ""):
        for since in (None, 0.0):
            wish = {"program": SOLVER, "owner": owner, "since": since}
            assert server.ask(ann, "POST", "/v1/profiles/forget", wish).status == 403
    wish = {"program": SOLVER, "owner": str(ann.uid), "since": None}
    assert server.ask(ann, "POST", "/v1/profiles/forget", wish).status == 200
    assert server.ask(ann, "POST", "/v1/profiles/forget", wish).status == 404
    assert stored(None) == {str(bob.uid)}
    server.until(lambda: known(server, None, ann.name) == [])


def test_users_see_runs_beside_others_only_where_all_programs_are_their_own_or_shared(
    attacked: Attacked, ann: Account, bob: Account
) -> None:
    server, _ = attacked
    place = server.ask(None, "GET", "/v1/profiles").body["store"]
    of_ann, of_bob = f"mine@{ann.uid}", f"his@{bob.uid}"
    with open_store(place) as store:
        for program, beside in ((of_ann, "shared"), (of_ann, of_bob), ("shared", of_bob), ("shared", "shared")):
            store.add_co_runs([CoRunSample(program, (beside,), 5.0, "", 1)])

    def seen(caller: Account | None) -> list[tuple[str, str]]:
        answer = server.ask(caller, "GET", "/v1/co-runs")
        assert answer.status == 200, answer
        return [(one["program"], *one["beside"]) for one in answer.body["co_runs"]]

    assert seen(ann) == [(of_ann, "shared"), ("shared", "shared")]
    assert seen(bob) == [("shared", of_bob), ("shared", "shared")]
    assert len(seen(None)) == 4


def _outcome(call: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(call, cwd="/", capture_output=True, text=True, timeout=60, check=False,
                          env={"HOME": "/nonexistent", "PATH": os.environ["PATH"]})  # fmt: skip
    return done.returncode, done.stdout, done.stderr
