"""Two ordinary accounts of this machine for attacks, and ways to act as one of them. Needs root."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("cohabit-ann", "cohabit-bob")
LOCK = Path("/run/cohabit-test-accounts.lock")


class Account(NamedTuple):
    """An ordinary account."""

    name: str
    uid: int
    gid: int
    home: Path


@contextlib.contextmanager
def two_accounts() -> Iterator[tuple[Account, Account]]:
    """Made if they are missing; removed by the last test process that uses them."""
    with LOCK.open("a") as lock, LOCK.with_suffix(".turn").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # one process at a time makes or removes them
        fcntl.flock(lock, fcntl.LOCK_SH)  # and several use them
        for name in NAMES:
            with contextlib.suppress(KeyError):
                pwd.getpwnam(name)
                continue
            subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], check=True, capture_output=True)
        fcntl.flock(turn, fcntl.LOCK_UN)
        found = [pwd.getpwnam(name) for name in NAMES]
        ann, bob = (Account(one.pw_name, one.pw_uid, one.pw_gid, Path(one.pw_dir)) for one in found)
        try:
            yield ann, bob
        finally:
            fcntl.flock(turn, fcntl.LOCK_EX)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in NAMES:
                    subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)


def become(account: Account) -> None:
    """This process is the account from now on, for good."""
    os.setgroups([account.gid])
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)


def act_as(account: Account, work: Callable[[], Any]) -> Any:
    """What `work` returns (as JSON would keep it), done in a child process of the account."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reads)
            become(account)
            with open(writes, "w") as stream:
                json.dump(work(), stream)
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writes)
    with open(reads) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"what {account.name} did ended with status {status}"
    return json.loads(text)


def shell(account: Account, text: str, timeout_s: float = 60.0, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell command of the account."""
    return subprocess.run(
        ["/bin/sh", "-c", text], user=account.uid, group=account.gid, extra_groups=[account.gid], cwd="/",
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(account.home), **environment},
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
