"""Keys of root's login and of other jobs: the kernel keeps them in session keyrings, which children inherit."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.agent.launch.process_tree import KEYCTL
from cohabit.app.serve.accounts import Account as ControllersAccount
from cohabit.app.serve.separation import drop
from tests.attack.accounts import Account, act_as
from tests.attack.controllers import RootController, shared_controller

MACHINE = os.uname().machine
KEYCTL_NUMBER = KEYCTL.get(MACHINE, -1)
ADD_KEY = {"x86_64": 248, "aarch64": 217, "riscv64": 217, "ppc64le": 269, "s390x": 278}.get(MACHINE, -1)
JOIN, SEARCH, SESSION = 1, 10, -3
LIBC = ctypes.CDLL(None, use_errno=True)
TRY = """
import ctypes
libc = ctypes.CDLL(None)
keyctl, add_key, search, session = {numbers}
print([libc.syscall(keyctl, search, session, b"user", name, 0) >= 0 for name in (b"roots", b"anns")])
print(libc.syscall(add_key, b"user", b"anns", b"secret", 6, ctypes.c_int(session)) >= 0)
"""


def log_in() -> None:
    """As a login of root's does: a session keyring, and a secret in it."""
    assert LIBC.syscall(KEYCTL_NUMBER, JOIN, None) >= 0
    assert LIBC.syscall(ADD_KEY, b"user", b"roots", b"secret", 6, ctypes.c_int(SESSION)) >= 0


@pytest.fixture(scope="module")
def up(ann: Account) -> Iterator[RootController]:
    if act_as(ann, lambda: LIBC.syscall(KEYCTL_NUMBER, JOIN, None)) < 0:
        pytest.skip("this kernel, or the container, has no keyrings")
    with shared_controller(before=log_in) as one:
        yield one


def found_by(up: RootController, account: Account) -> list[str]:
    text = TRY.format(numbers=(KEYCTL_NUMBER, ADD_KEY, SEARCH, SESSION))
    job = up.submit(account, f"exec /usr/bin/python3 -c '{text}'")
    assert up.over(job)["state"] == "done"
    return str(up.ask(account, "GET", f"/v1/jobs/{job}/output").body).split("\n")


def test_a_job_finds_no_key_of_roots_and_none_of_another_job(up: RootController, ann: Account, bob: Account) -> None:
    assert found_by(up, ann)[:2] == ["[False, False]", "True"]
    assert found_by(up, bob)[:2] == ["[False, False]", "True"]


def test_a_controller_that_gives_up_roots_rights_gives_up_roots_keys(up: RootController) -> None:
    child = os.fork()
    if child == 0:
        status = 2
        try:
            log_in()
            drop(ControllersAccount(61_999, 61_999, (61_999,)), Path("/"))
            status = 0 if LIBC.syscall(KEYCTL_NUMBER, SEARCH, SESSION, b"user", b"roots", 0) < 0 else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
