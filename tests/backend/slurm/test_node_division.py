"""How the cache is divided, from the core's decision to the groups of a real job's processes; and back as a profile.

A controller steers a real Slurm; `cohabit node serve` runs on its node, in a process of its own, on the enforcing fake
of resctrl. What the journal says was ordered must be in the schemata of the group the job's processes are in.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cohabit.agent.node.orders import read_division
from cohabit.app.measure.profiles import profiles_of_catalogue
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.command import SetShares
from cohabit.store.json_form import write_json
from cohabit.store.profiles import open_store
from tests.backend.slurm.conftest import idle
from tests.backend.slurm.steering import attached, jobs_of, log_of, until, write_site
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-node")]
WORK = "#!/bin/sh\necho $$ > {folder}/{name}.pid\nwhile [ ! -e {folder}/{name}.go ]; do sleep 0.2; done\n"
WAYS = 18  # of the 20 of such a processor: devices share the other two
NODE = f"""
[node]
ways = {WAYS}
min_ways = 2
closids = 16
bandwidth_gbs = [[1, 12.0], [28, 118.26]]
"""


def ordered(folder: Path) -> list[SetShares]:
    """Every division the core has decided upon, in order."""
    journal = open_journal(Place(folder / "state").journal)
    try:
        found = (codec.decode_commands(batch.commands or codec.encode([])) for batch in journal.batches(after=0))
        return [one for commands in found for one in commands if isinstance(one, SetShares)]
    finally:
        journal.close()


def mask_of(first: int, ways: int) -> int:
    return ((1 << ways) - 1) << first


def until_told(folder: Path, jobs: set[str]) -> dict[str, int]:
    """What the controller tells the node of these jobs, when it speaks of them and no others: the ways of each."""

    def told() -> dict[str, int]:
        found = read_division(folder / "orders", "n0")
        return {} if found is None else {job: mask_of(first, ways) for job, first, ways in found.shares}

    until(lambda: told().keys() == jobs, 90, lambda: f"{told()} {said(folder)}")
    return told()


def submit(small: SlurmCluster, folder: Path, name: str, program: str, size: int) -> str:
    """A job on the first node that works until it may go."""
    script = folder / f"{name}.sh"
    script.write_text(WORK.format(folder=folder, name=name))
    words = ("sbatch", "--parsable", "--hold", "--output=/dev/null", "-pfirst", f"-n{size}", f"-J{program}")
    return small.run(*words, str(script)).strip()


@contextmanager
def served(small: SlurmCluster, folder: Path, site: Path) -> Iterator[None]:
    """The daemon of n0; what is in its mount is in FOLDER/mount."""
    program = [sys.executable, "-m", "tests.backend.slurm.node_serve"]
    words = [*program, str(folder / "mount"), "serve", str(site), "--name", "n0",
             "--folder", str(small.folder.parent / "node"), "--store", str(folder / "profiles.db")]  # fmt: skip
    with (folder / "node.log").open("ab") as said:
        daemon = subprocess.Popen(words, stdout=said, stderr=said, env=small.environment)
    try:
        until((folder / "mount").exists, 120, (folder / "node.log").read_text)
        yield
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0, (folder / "node.log").read_text()
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait()


def class_of(folder: Path, name: str) -> dict[str, Any] | None:
    """The class of service the process of a job is in, as the mount shows it."""
    if not (folder / f"{name}.pid").exists():
        return None
    pid = int((folder / f"{name}.pid").read_text() or 0)
    mount = json.loads((folder / "mount").read_text())
    return next((one for cut, one in mount.items() if cut and pid in one["tasks"]), None)


def masks(schemata: str) -> set[int]:
    """Of all domains of the L3."""
    (line,) = [line for line in schemata.splitlines() if line.strip().startswith("L3:")]
    return {int(part.partition("=")[2], 16) for part in line.partition(":")[2].split(";")}


def said(folder: Path) -> str:
    return f"{log_of(folder)()}\n{(folder / 'node.log').read_text()}\n{(folder / 'mount').read_text()}"


def test_what_was_decided_is_in_the_groups_of_the_jobs(empty_small: SlurmCluster, tmp_path: Path) -> None:
    small = empty_small
    write_json([one.profile for one in profiles_of_catalogue("sns12")], tmp_path / "known.json")
    site = write_site(small, tmp_path, "sns", "learn = false", more='profiles = "known.json"', node=NODE)
    text = site.read_text().replace('partitions = ["all"]', 'partitions = ["first"]\nheld = "all"')
    site.write_text(text.replace("[slurm]", f'[slurm]\norders = "{tmp_path}/orders"'))
    with served(small, tmp_path, site), attached(site):
        first, second = submit(small, tmp_path, "one", "CG", 14), submit(small, tmp_path, "two", "EP", 14)
        wanted = until_told(tmp_path, {first, second})
        assert not wanted[first] & wanted[second]
        assert 0 < min(wanted.values()) <= max(wanted.values()) < 1 << WAYS

        def arrived() -> bool:
            found = {job: class_of(tmp_path, name) for job, name in ((first, "one"), (second, "two"))}
            return all(one is not None and masks(one["schemata"]) == {wanted[job]} for job, one in found.items())

        until(arrived, 90, lambda: f"{wanted} {said(tmp_path)}")
        (tmp_path / "one.go").touch()
        alone = until_told(tmp_path, {second})[second]  # divided anew
        assert alone > wanted[second]
        until(lambda: (one := class_of(tmp_path, "two")) is not None and masks(one["schemata"]) == {alone}, 90,
              lambda: f"{alone} {said(tmp_path)}")  # fmt: skip
        (tmp_path / "two.go").touch()
        until(lambda: list(json.loads((tmp_path / "mount").read_text())) == [""], 90, lambda: said(tmp_path))
        with open_store(tmp_path / "profiles.db") as store:
            assert store.get("CG") is None  # it had a neighbour
        # one that is alone from beginning to end teaches
        third = submit(small, tmp_path, "three", "MG", 16)
        until((tmp_path / "three.pid").exists, 90, lambda: said(tmp_path))
        until(lambda: jobs_of(small)[third].start_s and old_enough(tmp_path / "three.pid"), 60)
        (tmp_path / "three.go").touch()
        until(lambda: learned(tmp_path, "MG"), 90, lambda: said(tmp_path))
    decided = [{job: mask_of(*ways) for job, *ways in one.shares} for one in ordered(tmp_path)]
    assert decided.index(wanted) < decided.index({second: alone})
    with open_store(tmp_path / "profiles.db") as store:
        profile = store.get("MG", 16, f"28c-{WAYS}w-118.26g")
    assert profile is not None
    ran = jobs_of(small)[third]
    assert profile.scales[0].time_s == pytest.approx(ran.end_s - ran.start_s, abs=5)
    idle(small)


def old_enough(path: Path) -> bool:
    """A job that began so long ago is worth learning from."""
    return path.stat().st_mtime < time.time() - 1.5


def learned(folder: Path, program: str) -> bool:
    with open_store(folder / "profiles.db") as store:
        return store.get(program) is not None
