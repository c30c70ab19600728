"""The environment of commands that a controller starts: a fixed list of names, and only folders nobody else can change.

A command of a resource manager gets nothing of a job's owner, whose environment goes into the batch script
(batch_script.py), and of the controller's own only what leads it to the cluster.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

USUAL = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
FOLDERS = ("PATH", "LD_LIBRARY_PATH")  # lists of folders that are searched for code
KEPT = ("TZ",)  # times are printed and read in the same zone


def clean_environment(around: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """In plain English, with a PATH of trusted folders and, of `around`, the names a command needs to find its
    cluster."""
    found = {key: around[key] for key in (*KEPT, *names) if around.get(key)}
    found["PATH"] = ":".join(dict.fromkeys((*trusted_folders(around.get("PATH", "")), *USUAL)))
    if "LD_LIBRARY_PATH" in found:
        found["LD_LIBRARY_PATH"] = ":".join(trusted_folders(found["LD_LIBRARY_PATH"]))
    return {key: value for key, value in found.items() if value} | {"LC_ALL": "C"}


def trusted_folders(text: str) -> list[str]:
    """Those of a list of folders, separated by colons, in which only root and this account can change anything."""
    return [one for one in text.split(":") if one in USUAL or (os.path.isabs(one) and _trusted(one))]


def _trusted(folder: str) -> bool:
    """Neither it nor a folder above it can be changed by others; what is sticky above it keeps what is in it."""
    try:
        real = Path(os.path.realpath(folder, strict=True))
        for at, one in enumerate((real, *real.parents)):
            found = one.stat()
            shared = found.st_mode & 0o022 and not (at and found.st_mode & stat.S_ISVTX)
            if shared or found.st_uid not in (0, os.geteuid()):
                return False
    except OSError:
        return False
    return real.is_dir()
