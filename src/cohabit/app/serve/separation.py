"""Drop privileges: a controller started by root runs as an ordinary account, and only its launcher stays root.

Before that, root reads the site file and its keys, creates the place, opens what only root can open, and starts the
launcher. Open files are passed on in `Held`. The drop is permanent: API, core, journal, page and compiler have the
rights of an account that owns nothing but the private folder of its place.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from cohabit.agent.launch.process_tree import leave_keyring
from cohabit.app.scenario.policies import refuse_untrusted_files
from cohabit.app.serve import accounts
from cohabit.app.serve.accounts import Account
from cohabit.app.serve.closed_folders import closed_at, open_ways
from cohabit.launcher.process import Begun, begin
from cohabit.live.api.server import Listeners, open_listeners
from cohabit.live.controller.place import make_folder, only_one, open_place
from cohabit.live.peers.keys import Contexts
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.app.serve.serving import ServeConfig

PR_SET_NO_NEW_PRIVS = 38
READ_ONLY = "COHABIT_CACHE_READ_ONLY"  # for kept_code.py, which may be loaded later: root's machine code is only read
PACKAGES = Path(__file__).parents[3]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Held:
    """The resources opened before the privileges were dropped."""

    begun: Begun
    listeners: Listeners
    contexts: Contexts
    lock: IO[bytes]  # of the place
    threshold: socket.socket | None = None  # the socket where runs wait for their mates


def separate(
    config: ServeConfig,
    say: Say,
    production: bool,
    as_root: bool,
    managers: Mapping[str, Any] | None = None,
    prepare: Callable[[Account], None] | None = None,
    needs: Sequence[Path] = (),
) -> Held | None:
    """Drop root's privileges. None: there are none to drop, or root asked to keep them.

    `production`: the account must exist; else a free uid is taken. `managers`: a resource manager; the launcher runs
    its commands instead of jobs (launcher/managing.py). `prepare` is called before the privileges are dropped, and
    `needs` are folders that the account must reach.
    """
    if os.geteuid() != 0:
        return None
    if as_root:
        say("the controller runs as root, as asked: a vulnerability in it would give away root's rights")
        return None
    account = _account(config, production)
    place = open_place(config.place.absolute(), account.uid, account.gid)
    lock = only_one(place)  # before opening anything that another controller may have open
    if prepare is not None:
        prepare(account)
    contexts = config.contexts()
    listeners = open_listeners(config.api, place, config.host, config.port if config.coupling is not None else 0)
    told = config.launcher.told(place.root) | {
        "own": [account.uid, account.gid],
        "strict": True,
        "socket": str(listeners.path),
        "socket_inode": listeners.inode,
        "managers": dict(managers or {}),
        "runs": managers is None,
    }
    refuse_untrusted_files(config.policy)
    begun = begin(told)
    open_ways([place.root, *needs, *_code(), *_read_later(config)], account.uid, account.groups)
    drop(account, place.private)
    if not account.name:
        name, kept = config.launcher.account, place.root / accounts.KEPT
        say(f"there is no account {name} here: the controller runs as uid {account.uid} (see {kept})")
    return Held(begun, listeners, contexts, lock)


def in_own_process(config: ServeConfig, say: Say, work: Callable[[Held | None], Any]) -> Any:
    """Return the result of `work` after a round trip through JSON.

    If root calls this, `work` runs in a child that drops its privileges, and the caller keeps them; InputError of the
    child is raised here.
    """
    if os.geteuid() != 0:
        return work(None)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        said: list[str] = []
        try:
            answer = {"found": work(separate(config, said.append, production=False, as_root=False))}
        except InputError as error:
            answer = {"refused": [error.what, error.where, error.fix]}
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        with open(writes, "wb") as stream:
            stream.write(msgspec.json.encode(answer | {"said": said}))
        os._exit(0)
    os.close(writes)
    with open(reads, "rb") as stream:
        content = stream.read()
    os.waitpid(child, 0)
    answer = msgspec.json.decode(content) if content else {"failed": "the process was killed", "said": []}
    for sentence in answer["said"]:
        say(sentence)
    if "refused" in answer:
        raise InputError(*answer["refused"])
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return answer["found"]


def drop(account: Account, home: Path) -> None:
    """Become this account permanently, without a way to regain privileges."""
    if closed_at(Path.cwd(), account.uid, account.groups) is not None:
        os.chdir("/")
    os.umask(0o077)
    leave_keyring()
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    assert os.getresuid() == (account.uid,) * 3, "rights were not given up"
    name = account.name or str(account.uid)
    os.environ.update({"HOME": str(home), "USER": name, "LOGNAME": name, READ_ONLY: "1"})
    for key in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "SUDO_USER", "SUDO_UID", "SUDO_GID"):
        os.environ.pop(key, None)


def _account(config: ServeConfig, production: bool) -> Account:
    name = config.launcher.account
    if (found := accounts.find(name)) is not None:
        return found
    if production:
        raise InputError(
            f"there is no account {name} for the controller to run as",
            "launcher.account",
            f"make one: useradd --system --no-create-home --shell /usr/sbin/nologin {name}; or use --as-root",
        )
    make_folder(config.place)
    return accounts.take_free_uid(config.place)


def _read_later(config: ServeConfig) -> list[Path]:
    """Return the folders of files named in the site file that are read after privileges were dropped."""
    policy = config.policy
    named = [policy.degradation, policy.model, policy.variability, policy.order or "", policy.backfill_order or ""]
    files = [one for one in named if one and Path(one).exists()]
    if config.profiling is not None and config.profiling.profiles:
        files.append(config.profiling.profiles)
    return [Path(one).absolute().parent for one in files]


def _code() -> list[Path]:
    """Return the folders of this program's code and of cached machine code."""
    cache = os.environ.get("COHABIT_CACHE") or os.environ.get("XDG_CACHE_HOME")
    found = [sys.base_prefix, sys.prefix, *sys.path, str(PACKAGES), os.path.dirname(sys.executable), cache]
    return [Path(one) for one in found if one]
