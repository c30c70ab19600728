"""What docs/operators-first-hour.md and slurm.md claim, sentence by sentence, and the tests that hold them to that.

The page's commands are typed in test_first_hour.py; here is a real Slurm on which its words are tried.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import chown

import pytest

from cohabit.app.client.client import connect
from tests.backend.slurm.steering import STEERS, as_account, jobs_of, stop, submit, until
from tests.backend.slurm.test_first_hour import PAGE, steps, type_in
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

HERE = Path(__file__).parent
CLAIMS = {
    "types every `sh` block of this page": "test_first_hour.py::test_shadow_and_one_job_of_the_page",
    "`Eligible` and `SubmitLine` (Slurm 21.08 and later, last) say": "test_sacct_has_every_column_of_the_page",
    "Ctrl-C ends it early; the next run adds to what was seen": "test_shadow_is_as_the_page_says",
    "It needs the right to see all jobs, nothing else": "test_shadow_is_as_the_page_says",
    "with the jobs that were submitted, with error bars": "test_shadow_is_as_the_page_says",
    "refuses every call but squeue, sacct, sinfo and `scontrol show`": "test_shadow.py::test_nothing_is_changed",
    "if jobs that share are slower by `--slower` percent": "test_shadow.py::test_what_would_have_been",
    "so jobs share nodes by free cores, and the first that does not fit is promised a start":
        "test_attach_is_as_the_page_says",
    "only jobs are steered that are submitted with `--hold` from now on": "test_attach_is_as_the_page_says",
    "jobs that were held before stay held, and all others are plain Slurm's": "test_attach_is_as_the_page_says",
    "A hold by an administrator (`scontrol hold`) is obeyed": "test_attach_is_as_the_page_says",
    "a job that waits already is seen only with [job_submit.lua]": "test_attach_is_as_the_page_says",
    "everything is plain Slurm's again, at once": "test_attach_is_as_the_page_says",
    "As SlurmUser or root": "test_without_root.py::test_slurm_user_attaches_and_ends_at_detach",
    "`ce-easy` gives out whole nodes": "test_first_hour.py::test_the_advice_as_a_document",
    "it says what may be missing, and gives no advice":
        "test_first_hour.py::test_no_advice_where_the_simulation_does_not_give_the_waits_of_the_log",
    "with fewer than three there is none": "test_first_hour.py::test_a_short_log_has_no_interval",
    "three times: gentle ones only, all of them, greedy ones only": "test_first_hour.py::test_what_is_assumed_differs",
    "An advice that changes with the assumption says so":
        "test_first_hour.py::test_an_advice_must_be_clear_where_programs_are_mixed",
    "Half the length of a stretch is simulated before it": "test_first_hour.py::test_stretches_lie_inside_the_log",
    "makes a scenario of it, to use in place of": "test_first_hour.py::test_the_site_as_it_is",
    "which sizes of jobs and which users gain and which pay": "test_first_hour.py::test_the_what_if_of_the_page",
}  # fmt: skip
STEERING = PAGE.parent / "slurm.md"
OF_STEERING = {
    "as long as Cohabit's controller renews its *lease* every few seconds":
        "test_deaths.py::test_a_dead_controller_leaves_its_jobs_to_slurm_when_the_lease_is_over",
    "Without the script Cohabit takes only jobs that users submit with `--hold`":
        "test_holds.py::test_every_held_job_but_those_that_were_held_before",
    "jobs with options that Cohabit does not support stay plain Slurm's":
        "test_operators.py::test_what_only_slurm_understands_runs_untouched",
    "Cohabit counts the cores they use": "test_own_jobs.py::test_ours_run_beside_a_job_of_slurms_own",
    "One `scontrol update` per start": "test_reading.py::test_one_update_says_it_all",
    "(`poll_s`), twice while jobs wait and polls are short":
        "test_latency.py::test_looks_are_closer_while_jobs_wait_and_cheap",
    "1,000 held jobs cost 0.1 s of processor time per poll": "test_scale.py::test_a_pass_with_a_thousand_held_jobs",
    "It includes what Slurm starts itself": "test_operators.py::"
        "test_a_job_on_all_nodes_is_promised_a_start_behind_a_reservation_and_a_job_of_slurms_own",
    "If the controller dies, jobs continue": "test_deaths.py::test_kill_nine_in_the_middle_loses_and_doubles_nothing",
    "gives held jobs back to Slurm, and no new job is held":
        "test_deaths.py::test_a_dead_controller_leaves_its_jobs_to_slurm_when_the_lease_is_over",
    "Everything is plain Slurm's again, at once": "test_deaths.py::test_the_kill_switch_gives_everything_back_at_once",
    "the rights of SlurmUser, or root for `cohabit submit`":
        "test_without_root.py::test_slurm_user_may_steer_and_others_are_refused",
    "slurm.conf gets two lines": "test_install_guide.py::test_the_guide_from_install_to_removal",
    "`cohabit slurm status` measures and prints this": "test_latency.py::test_turnaround_real_and_simulated",
    "see what it would do, without changing anything": "test_shadow.py::test_nothing_is_changed",
    "whether Slurm and Cohabit agree": "test_dependencies.py::test_a_chain_and_every_kind_of_dependency",
    "know why job 17 waits": "test_submit.py::test_waiting_asking_changing_and_cancelling",
    "keep a job from starting": "test_holds.py::test_holds_while_the_controller_lives",
    "leave one waiting job to Slurm": "test_slurms_own_changes.py::test_users_and_operators",
    "take a node out": "test_slurms_own_changes.py::test_nodes_drain_and_die",
    "change the policy and keep all jobs": "test_reload.py::test_reload_changes_the_policy_of_a_running_attach",
    "After a crash during the change either the old or the new settings hold":
        "test_reload.py::test_kill_nine_at_any_instant_of_a_reload_leaves_one_policy",
    "It keeps all its jobs then, too, also under another":
        "test_reload.py::test_an_attach_under_another_policy_goes_on_with_all_jobs",
    "To remove it: `cohabit slurm detach`, remove the two lines from slurm.conf, delete the place":
        "test_install_guide.py::test_the_guide_from_install_to_removal",
    "Only jobs that it watched from submission to end are counted":
        "test_shadow.py::test_jobs_from_before_and_jobs_that_still_run_take_nodes_and_do_not_count",
    "with fewer than three stretches there is no interval, and no gain is claimed":
        "test_shadow.py::test_an_interval_needs_three_stretches",
    "If no job would have shared a node, it says so": "test_shadow.py::test_what_would_have_been",
}  # fmt: skip


@pytest.mark.parametrize(("page", "claims"), [(PAGE, CLAIMS), (STEERING, OF_STEERING)])
def test_every_claim_is_on_the_page_and_has_its_test(page: Path, claims: dict[str, str]) -> None:
    words = " ".join(page.read_text(encoding="utf-8").split())
    for claim, test in claims.items():
        assert claim in words, claim
        file, _, name = test.rpartition("::")
        assert f"\ndef {name}(" in (HERE / (file or Path(__file__).name)).read_text(encoding="utf-8"), test


@pytest.fixture
def plain() -> Iterator[SlurmCluster]:
    """Two nodes of four cores, without job_submit.lua, in a folder that others can read."""
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cohabit-hour-") as above:
        Path(above).chmod(0o755)
        with running_slurm(Path(above) / "slurm", nodes=2, cores=4, name="hour") as cluster:
            yield cluster


def site_of_the_page(slurm: SlurmCluster, folder: Path) -> Path:
    """As step 3 writes it, without its last line."""
    (block,) = steps()["3"]
    lines, verb, _ = block.rpartition("cohabit slurm shadow")
    assert verb
    type_in([lines], folder, SLURM_CONF=str(slurm.conf))
    return folder / "site.toml"


def call(verb: str, site: Path, *options: str) -> list[str]:
    return ["-m", "cohabit.cli", "slurm", verb, str(site), *options]


def test_sacct_has_every_column_of_the_page() -> None:
    """By the names in the program: it prints them only where slurmdbd answers."""
    (asked,) = re.findall(r"^ *-o (\S+) \\$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    sacct = shutil.which("sacct")
    if sacct is None:
        pytest.skip("sacct is not installed (Debian: apt-get install slurm-client)")
    known = Path(sacct).read_bytes()
    assert [name for name in asked.split(",") if f"\0{name}\0".encode() not in known] == []
    assert asked.endswith("SubmitLine")


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.xdist_group("slurm-install")
def test_shadow_is_as_the_page_says(plain: SlurmCluster) -> None:
    """Under an account that may change nothing."""
    folder = plain.folder.parent
    site = site_of_the_page(plain, folder)
    (folder / "cohabit-place").mkdir()
    for one in (site, folder / "cohabit-place"):
        chown(one, "bin", "bin")
    held = submit(plain, folder, 1, "-n1", "--hold")
    around = os.environ | {"HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"}

    def watch(*options: str) -> subprocess.Popen[str]:
        words = as_account("bin", folder, *call("shadow", site, *options))
        said = (folder / "shadow.log").open("w")
        found = subprocess.Popen(words, env=around, cwd="/", text=True, stdout=subprocess.PIPE, stderr=said)
        until(lambda: "watching" in (folder / "shadow.log").read_text(), 120, (folder / "shadow.log").read_text)
        return found

    def came(*options: str) -> list[str]:
        names = [submit(plain, folder, 1, "-n2", *options) for _ in range(4)]
        until(lambda: all(jobs_of(plain)[name].state == "COMPLETED" for name in names), 60)
        return names

    first = watch("--for", "3d")
    names = came()
    time.sleep(5)  # it looks once a second
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=120)
    assert first.returncode == 0, (folder / "shadow.log").read_text()
    assert "4 jobs in " in said
    assert "cohabit, pessimistic" in said
    assert re.search(r"wait [+-]\d+\.\d s against Slurm( \(95 %: .*\))?\n", said)
    second = watch("--for", "20s", "--slower", "25")
    names += came()
    said, _ = second.communicate(timeout=120)
    assert "8 jobs in " in said
    assert "size of job" in said, "who gains and who pays"
    assert re.search(r"^ *user .*\n(.*\n)* *root +8 ", said, re.MULTILINE)
    assert "pessimistic: each 25 % slower" in said
    assert jobs_of(plain)[held].held
    assert not any(jobs_of(plain)[name].mark for name in (*names, held))
    assert not [*(folder / "cohabit-place").glob("lease*")], "it takes no lease"


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.xdist_group("slurm-install")
def test_attach_is_as_the_page_says(plain: SlurmCluster) -> None:
    folder = plain.folder.parent
    site, log, go, again = (folder / name for name in ("site.toml", "attach.log", "go", "again"))
    site_of_the_page(plain, folder)
    before = submit(plain, folder, 1, "-n1", "--hold")
    with log.open("wb") as said:
        words = [sys.executable, *call("attach", site)]
        attach = subprocess.Popen(words, stdout=said, stderr=said, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        until(lambda: STEERS in log.read_text(), 200, log.read_text)
        assert "`scontrol hold` by the owner of a job that waits for Cohabit is not seen" in log.read_text()
        until(lambda: f"held by others and left held: {before}" in log.read_text(), 30, log.read_text)
        slurms = submit(plain, folder, 1, "-n2")
        until(lambda: jobs_of(plain)[slurms].state == "COMPLETED", 60)
        ours = [submit(plain, folder, go, "-n2", "--hold", "--time=5") for _ in range(4)]  # two on each node
        until(lambda: all(jobs_of(plain)[name].runs for name in ours), 60, log.read_text)
        assert not jobs_of(plain)[slurms].mark
        wide, kept = (submit(plain, folder, 1, "-n8", "--hold") for _ in range(2))
        asks = connect(str(folder / "cohabit-place" / "cohabit.sock"))
        until(lambda: jobs_of(plain)[kept].mark.startswith("cohabit:held"), 30, log.read_text)
        assert "promised a start within" in asks.why(wide)["why"]
        plain.run("scontrol", "hold", kept)
        go.touch()
        until(lambda: jobs_of(plain)[wide].state == "COMPLETED", 60, log.read_text)
        full = submit(plain, folder, again, "-n8", "--hold")
        until(lambda: jobs_of(plain)[full].runs, 60, log.read_text)
        assert jobs_of(plain)[kept].held, "a later job has its nodes"
        plain.run("scontrol", "release", kept)
        waits = submit(plain, folder, 1, "-n8", "--hold")
        until(lambda: jobs_of(plain)[waits].mark.startswith("cohabit:held"), 30, log.read_text)
        detach = [sys.executable, *call("detach", site)]
        subprocess.run(detach, check=True, capture_output=True, timeout=120)
        assert attach.wait(60) == 0, log.read_text()
    finally:
        stop(attach)
    late = submit(plain, folder, 1, "-n1", "--hold")
    jobs = jobs_of(plain)
    assert {(jobs[name].held, jobs[name].mark) for name in (waits, kept)} == {(False, "cohabit:back")}
    again.touch()
    until(lambda: all(jobs_of(plain)[name].state == "COMPLETED" for name in (full, waits, kept)), 90)
    assert all(jobs_of(plain)[name].held and not jobs_of(plain)[name].mark for name in (before, late))
