"""The environment of commands that a controller starts: fixed names, and folders that no other user can change.

A command of a resource manager gets nothing from the job's owner; the owner's environment goes into the batch script
(batch_script.py). From the controller's own environment it gets only what leads it to the cluster.
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
    """Return an environment with English messages, a PATH of trusted folders and, from `around`, the names a command
    needs to find its cluster."""
    found = {key: around[key] for key in (*KEPT, *names) if around.get(key)}
    found["PATH"] = ":".join(dict.fromkeys((*trusted_folders(around.get("PATH", "")), *USUAL)))
    if "LD_LIBRARY_PATH" in found:
        found["LD_LIBRARY_PATH"] = ":".join(trusted_folders(found["LD_LIBRARY_PATH"]))
    return {key: value for key, value in found.items() if value} | {"LC_ALL": "C"}


def trusted_folders(text: str) -> list[str]:
    """Return the folders of a colon-separated list in which only root and this account can change anything."""
    return [one for one in text.split(":") if one in USUAL or (os.path.isabs(one) and _trusted(one))]


def _trusted(folder: str) -> bool:
    """Return whether others can change neither the folder nor those above it; a sticky folder protects its entries."""
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
