"""The stage itself: two accounts, a controller of root's, jobs that run as their owners."""

from __future__ import annotations

from tests.attack.accounts import Account
from tests.attack.controllers import RootController


def test_jobs_run_as_their_owners(root_up: RootController, ann: Account, bob: Account) -> None:
    for account in (ann, bob):
        job = root_up.submit(account, "id -u")
        assert root_up.over(job)["state"] == "done"
        answer = root_up.ask(account, "GET", f"/v1/jobs/{job}/output")
        assert (answer.status, answer.body.strip()) == (200, str(account.uid))
