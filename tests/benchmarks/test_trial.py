"""The trial of policies: queues are the same for all policies, figures are right, claims need intervals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.trial import __main__ as command
from benchmarks.trial import judged, work
from benchmarks.trial.here import Here
from benchmarks.trial.slurm import UnderSlurm
from benchmarks.trial.work import Kind, Ran, TrialJob

from cohabit.app.steer.slurm_site import read_slurm_site
from cohabit.model.errors import InputError
from tests.support.slurm_cluster import missing

KINDS = [Kind("a-long", 1, 2.0, ("true",)), Kind("a-wide", 2, 1.0, ("true",)), Kind("a-large", 6, 1.0, ("true",))]


def rounds(ours: list[float], theirs: list[float]) -> judged.Rounds:
    def figures(value: float) -> judged.Figures:
        return dict.fromkeys(judged.SHOWN, value)

    return {"cohabit": list(map(figures, ours)), "cs": list(map(figures, theirs))}


def test_a_queue_is_the_same_again_and_has_the_load_asked_for() -> None:
    first, again, other = (work.queue(KINDS, 300, 8, 1.5, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first[0].submit_s == 0.0
    assert np.all(np.diff([one.submit_s for one in first]) >= 0)
    arrived = sum(one.kind.cores * one.kind.seconds for one in first) / (8 * first[-1].submit_s)
    assert arrived == pytest.approx(1.5, rel=0.05)
    assert all(one.limit_s >= max(work.LEAST_LIMIT_S, work.LEAST_ASKED * one.kind.seconds) for one in first)
    assert sum(one.kind.name == "a-large" for one in first) < 60, "a job on most of the machine is rare"


@pytest.mark.parametrize(("jobs", "load"), [(0, 1.0), (5, 0.0)])
def test_a_queue_of_nothing_is_refused(jobs: int, load: float) -> None:
    with pytest.raises(InputError, match="positive"):
        work.queue(KINDS, jobs, 8, load, 1)


def test_kinds_have_the_work_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "rounds_per_s", lambda name: 10.0)
    found = work.kinds(["dense", "sort"], 4.0, 4, 32, 1, lambda _: None)
    assert [(one.name, one.cores) for one in found] == [
        ("dense-long", 1), ("dense-wide", 2), ("dense-large", 24), ("sort-long", 1), ("sort-wide", 2),
    ]  # fmt: skip
    assert found[0].command[-2:] == ("--work", "72")
    both = work.kinds(["dense"], 4.0, 2, 2, 2, lambda _: None)[1]
    assert both.command[:2] == ("sh", "-c")
    assert both.command[2].count("--work 24") == both.command[2].count(" &") == 2
    with pytest.raises(InputError, match="dance"):
        work.kinds(["dance"], 4.0, 4, 32, 1, lambda _: None)


def test_figures_of_a_round() -> None:
    found = judged.figures([Ran(0.0, 1.0, 3.0), Ran(2.0, 2.0, 10.0)])
    assert found == {"mean_turnaround_s": 5.5, "makespan_s": 10.0, "mean_wait_s": 0.5, "longest_wait_s": 1.0}


def test_a_gain_is_shown_only_if_its_interval_says_so() -> None:
    clear = rounds([8.0, 8.1, 7.9, 8.0], [10.0, 10.1, 9.9, 10.0])
    assert judged.gain_pct(clear, "cohabit", "cs", "makespan_s").median == pytest.approx(20.0, abs=0.2)
    assert judged.sentence(clear, "cohabit", "cs").endswith(": 4 rounds show it")
    both, longer = rounds([8.0, 12.0, 9.0], [10.0] * 3), rounds([12.0] * 3, [10.0] * 3)
    assert judged.sentence(both, "cohabit", "cs").endswith("3 rounds show no difference")
    assert judged.sentence(longer, "cohabit", "cs") == (
        "against cs, cohabit lengthens the mean turnaround by 20.0 % (20.0 to 20.0): 3 rounds show it"
    )
    assert "too few" in judged.sentence(rounds([8.0, 8.0], [10.0, 10.0]), "cohabit", "cs")


def test_the_document_is_plain_and_the_table_has_every_policy() -> None:
    found = rounds([8.0, 8.1, 7.9], [10.0, 10.1, 9.9])
    document = json.loads(json.dumps(judged.document(found, "cohabit")))
    assert document["policies"]["cs"]["makespan_s"]["median"] == 10.0
    assert document["gain_percent"]["cs"]["mean_turnaround_s"]["median"] == pytest.approx(20.0, abs=0.2)
    assert [line.split()[0] for line in judged.lines(found, "cohabit")] == ["policy", "cohabit", "cs", "against"]
    assert judged.document({"cs": found["cs"]}, "cohabit")["gain_percent"] == {}


@pytest.mark.parametrize("words", [["--policies", "cohabbit"], ["--rounds", "0"], ["--programs", "dance"]])
def test_bad_options_are_one_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        command.main(words)
    assert refused.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_site_of_a_slurm_trial_is_read(tmp_path: Path) -> None:
    place = UnderSlurm(tmp_path, "slurm.conf", "test", 8, 4, lambda _: None)
    (tmp_path / "profiles.json").write_text("{}")
    site = tmp_path / "site.toml"
    site.write_text(place._site(tmp_path, command.config_of("cohabit")))
    read = read_slurm_site(site)
    assert (read.table.partitions, read.table.held) == (["test"], "all")
    assert (place.cores, place.most_copies) == (32, 4)


@pytest.mark.skipif(not missing(), reason="a Slurm can be started here")
def test_without_slurm_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--slurm"])
    assert "--conf FILE" in capsys.readouterr().err


@pytest.mark.slow
def test_a_round_on_this_machine(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    kinds = [Kind("brief", 1, 0.3, ("sleep", "0.3")), Kind("both", 2, 0.2, ("sleep", "0.2"))]
    place = Here(tmp_path, 1, lambda _: None)
    jobs = [TrialJob("j0", kinds[0], 0.0, 20.0), TrialJob("j1", kinds[1], 0.1, 20.0)]
    with place.prepared(kinds):
        ran = place.run("1-cohabit", command.config_of("cohabit"), jobs)
    assert len(ran) == 2
    assert all(one.submit_s <= one.start_s < one.end_s for one in ran)
    assert "both" in place.profiles.read_text()
