"""The needs of the policy of any site file: of this machine, of Slurm or of Grid Engine. Changes nothing."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from cohabit.app.doctor.needs import Row, offers_here, offers_of_cluster, rows_of
from cohabit.app.serve.serving import policies_of
from cohabit.app.serve.site_file import read_site
from cohabit.app.steer.deciding import policies_of as steered_policies_of
from cohabit.app.steer.gridengine_site import read_gridengine_site
from cohabit.app.steer.site import SteeredSite
from cohabit.app.steer.slurm_site import read_slurm_site
from cohabit.model.errors import InputError

MANAGERS: dict[str, Callable[[Path], SteeredSite]] = {"slurm": read_slurm_site, "gridengine": read_gridengine_site}


def policy_and_needs(path: Path, without: Sequence[str]) -> tuple[str, list[Row]]:
    """Return the name of the policy of a site file, and its needs beside what the site has."""
    if not is_steered(path):
        config = read_site(path).config
        policies = policies_of(config)
        return config.policy.name, rows_of(policies, offers_here(config, policies), without)
    site = steered_site(path)
    found = asyncio.run(site.look_around(only_read=True)).found
    rows = rows_of(steered_policies_of(site, found, None), offers_of_cluster(site, found), without)
    return site.policy.name, rows


def is_steered(path: Path) -> bool:
    """Return whether a site file is of a cluster under a manager."""
    return bool(MANAGERS.keys() & _tables(path))


def steered_site(path: Path) -> SteeredSite:
    """Read the site file of a cluster under a manager; one that names none is of Slurm."""
    tables = _tables(path)
    return next((reader for word, reader in MANAGERS.items() if word in tables), read_slurm_site)(path)


def _tables(path: Path) -> set[str]:
    try:
        return set(tomllib.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", str(path), "name a site file") from error
