"""Drop root's privileges in a controller on top of a resource manager; what it needs is prepared first.

Its launcher stays root and runs the manager's commands, from a fixed list (launcher/managing.py). The watchdog runs as
the same account, with its own launcher. What the controller writes for others to read is in LEASE.d, a folder that its
account owns: the lease and the files beside it. The lease of the site file becomes a link there, so that slurmctld, the
watchdog and `cohabit slurm detach` find it at its usual path.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cohabit.app.serve.accounts import Account
from cohabit.app.serve.separation import Held, separate
from cohabit.app.steer.site import OF_FILES, SteeredSite
from cohabit.app.steer.switch import refuse_managers_files
from cohabit.backend.steered.lease import fuse_file, read_beside, real, threshold_file, write_beside
from cohabit.live.controller.place import Place, make_folder, only_one, opened
from cohabit.live.peers.threshold_door import listen_on
from cohabit.model.errors import InputError


def give_up_rights(site: SteeredSite, say: Callable[[str], None], as_root: bool) -> tuple[SteeredSite, Held | None]:
    """Return the site for the controller, and what was opened for it; None: it keeps the rights it has."""
    if os.geteuid() != 0 or as_root:
        return site, separate(site.config, say, production=False, as_root=as_root)
    if Place(site.place).private.is_dir():
        only_one(Place(site.place)).close()  # refuse before touching anything of another controller
    site = site.without_rights(say)
    lease = folder_of(site.lease) / site.lease.name
    refuse_managers_files(str(site.lease.parent))
    threshold = listen_on(site.groups.mates.threshold) if site.domain else None
    _ = site.groups.threshold_keys, site.keys is None or site.keys.all  # read before privileges are dropped
    policy = [Path(getattr(site.policy, key)).parent for key in OF_FILES if getattr(site.policy, key)]
    profiles = [] if site.profiles is None else [site.profiles.parent]
    held = separate(
        site.config,
        say,
        production=False,
        as_root=False,
        managers=site.launcher_settings(),
        prepare=lambda account: _prepare(site, lease, account),
        needs=[lease.parent, *policy, *profiles, *site.writes],
    )
    assert held is not None
    return replace(site, lease=lease), replace(held, threshold=threshold)


def folder_of(lease: Path) -> Path:
    """Return the folder of the controller's account."""
    return lease.absolute().with_name(f"{lease.name}.d")


def _prepare(site: SteeredSite, lease: Path, account: Account) -> None:
    """Create, as root, the folder of the lease, the links to it, and the site's folders for the controller."""
    try:
        make_folder(site.lease.parent)
        _give_folder(lease.parent, account)
        _carry_over(site.lease, lease)
        _link(site.lease, lease)
        _link(site.lease.with_name(f"{site.lease.name}.threshold"), threshold_file(lease))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        where = str(error.filename or lease)
        raise InputError(f"cannot be made: {reason}", where, "choose another place or lease") from error
    for folder in site.writes:
        _give_site_folder(folder, account)


def _give_folder(folder: Path, account: Account) -> None:
    """Make a folder readable by all and writable by the account; the account gets every plain file in it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o755)
    with opened(folder.parent) as top, opened(folder.name, top) as descriptor:
        for name in os.listdir(descriptor):
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid != account.uid:
                os.chown(name, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
        os.fchmod(descriptor, 0o755)
        os.fchown(descriptor, account.uid, account.gid)


def _carry_over(lease: Path, to: Path) -> None:
    """Copy what another controller of this lease wrote: it may still run, and its fuses must take effect."""
    if real(lease) == to:
        return
    for source, target in ((real(lease), to), (fuse_file(lease), fuse_file(to))):
        with contextlib.suppress(FileNotFoundError):
            write_beside(target, read_beside(source))


def _link(path: Path, target: Path) -> None:
    """Replace a path by a link."""
    if path == target or (path.is_symlink() and os.readlink(path) == str(target)):
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    temporary.symlink_to(target)
    os.replace(temporary, path)


def _give_site_folder(folder: Path, account: Account) -> None:
    """Give a folder for the nodes to the account if nothing else is in it; never a shared one."""
    try:
        make_folder(folder)
        found = folder.stat()
        if found.st_uid == account.uid:
            return
        with opened(folder) as descriptor:
            if all(name.endswith((".json", ".part")) for name in os.listdir(descriptor)):
                os.fchown(descriptor, account.uid, account.gid)
                return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be given to account {account.uid}: {reason}", str(folder), "chown it") from error
    raise InputError(
        f"account {account.uid}, which the controller runs as, cannot write to it, and it has other files in it",
        str(folder),
        f"chown {account.uid} {folder}, or use a folder of its own",
    )
