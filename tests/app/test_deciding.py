"""The settings of a steered journal: a cluster that its manager describes otherwise, and journals without its nodes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cohabit.app.serve.replaying import journal_of, replay_live
from cohabit.app.steer.deciding import Settings, cluster_of, key_of, policies_of, settle, steered_by
from cohabit.app.steer.slurm_site import SlurmSite, read_slurm_site
from cohabit.backend.protocol import Launch
from cohabit.backend.slurm.discovery import arrange
from cohabit.backend.slurm.text_output import Partition
from cohabit.backend.steered.shapes import Discovered, ManagerNode
from cohabit.live.controller.inbox import Entry
from cohabit.live.controller.journal import Journal, open_journal
from cohabit.live.controller.place import open_place
from cohabit.live.controller.recovery import restore
from cohabit.live.controller.stepping import Stepper
from cohabit.model.errors import InputError
from cohabit.model.event import JobSubmitted
from cohabit.model.job import Job
from cohabit.model.units import SECOND

MIB = 1 << 20
SITE = '[policy]\nname = "cs"\n[slurm]\npartitions = ["all"]\n'
BOOKED = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core_Memory"}


def nodes(memory_mb: int, count: int = 2) -> Discovered:
    found = [ManagerNode(f"n{one}", 4, 1, memory_mb, ("all",)) for one in range(count)]
    return arrange(found, [Partition("all")], BOOKED, ["all"])


def site_in(folder: Path) -> SlurmSite:
    (folder / "site.toml").write_text(SITE)
    return read_slurm_site(folder / "site.toml")


def take_jobs(journal: Journal, site: SlurmSite, found: Discovered, *jobs: Job) -> None:
    """As a controller on these nodes would: one step, all in the journal."""
    policies = policies_of(site, found, None)
    stepper = Stepper(journal, restore(journal, cluster_of(site.node, found, policies), policies), lambda: SECOND)
    stepper.step([Entry(JobSubmitted(one), Launch(("true",))) for one in jobs])
    stepper.checkpoint(b"\x90")
    journal.flush()


def test_nodes_that_are_described_otherwise_begin_a_new_stretch(tmp_path: Path) -> None:
    site = site_in(tmp_path)
    journal = open_journal(open_place(site.place).journal)
    assert settle(journal, site, nodes(1000))[2] is None
    take_jobs(journal, site, nodes(1000), *(Job(str(number), SECOND, 4, memory_bytes=100 * MIB) for number in range(3)))
    assert settle(journal, site, nodes(1000))[2] is None
    _, found, change = settle(journal, site, nodes(800))
    assert str(change) == "other keys of policy cs: 1 waiting and 2 running jobs are kept"
    assert found == nodes(800)
    take_jobs(journal, site, found, Job("4", SECOND, 4))
    with pytest.raises(InputError, match="on other nodes"):
        settle(journal, site, nodes(800, count=3))
    journal.close()
    for where in (tmp_path / "site.toml", site.place, open_place(site.place).journal):
        replayed = replay_live(where)
        assert (replayed.difference, replayed.stretches, replayed.batches) == ("", 2, 2)


def test_an_earlier_version_did_not_write_the_nodes(tmp_path: Path) -> None:
    """`replay` says what to do; the next attach writes them."""
    site = site_in(tmp_path)
    journal = open_journal(open_place(site.place).journal)
    settle(journal, site, nodes(1000))
    take_jobs(journal, site, nodes(1000), Job("1", SECOND, 4))
    kept = msgspec.json.decode(journal.get(key_of("slurm")) or "", type=Settings)
    journal.put({key_of("slurm"): msgspec.json.encode(msgspec.structs.replace(kept, groups=())).decode()})
    assert steered_by(journal) == "slurm"
    with pytest.raises(InputError, match="without the nodes of the cluster") as refused:
        replay_live(site.place)
    assert "--verify" in refused.value.fix
    assert settle(journal, site, nodes(1000))[2] is None
    assert replay_live(site.place).difference == ""
    journal.close()


def test_nodes_on_which_a_job_could_never_run_are_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = site_in(tmp_path)
    journal = open_journal(open_place(site.place).journal)
    settle(journal, site, nodes(1000))
    take_jobs(journal, site, nodes(1000), Job("1", SECOND, 4, memory_bytes=225 * MIB))
    _, found, change = settle(journal, site, nodes(800))
    assert (found, change) == (nodes(1000), None)
    assert "Slurm describes its nodes differently than before; the old description is kept: " in caplog.text
    assert "jobs fit on no nodes any more: 1" in caplog.text
    take_jobs(journal, site, found, Job("2", SECOND, 4))
    journal.close()
    assert (replay_live(site.place).difference, replay_live(site.place).stretches) == ("", 1)


def test_the_place_of_a_site_file_for_any_manager(tmp_path: Path) -> None:
    for word in ("slurm", "gridengine"):
        path = tmp_path / f"{word}.toml"
        path.write_text(f'place = "there"\n[{word}]\n')
        assert journal_of(path)[0] == tmp_path / "there"
