"""What goes wrong in a scenario's domains: cancelled, refused, dead; wrong tables; the same again in replay and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.reading import read_scenario
from cohabit.app.serve.journals import replay_journal
from cohabit.app.simulate.coupling import prepare_domains, run_domains
from cohabit.app.simulate.coupling_results import write_run
from cohabit.app.simulate.explaining import explain_job
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished, Recovered
from cohabit.sim.trouble import Trouble
from tests.mates_conformance.scene import Scene
from tests.mates_conformance.scenes import SCENES
from tests.mates_conformance.simulated import play_simulated, write_scenario


def scene(name: str) -> Scene:
    return next(one for one in SCENES if one.name == name)


def test_a_dead_controller_hears_first_that_it_was_restarted() -> None:
    trouble, end = Trouble(dead=((10, 20),)), JobFinished("1", 1)
    assert trouble.told(9, [end]) == [end]
    assert trouble.told(10, [end]) == []
    assert trouble.told(20, [JobFinished("2", 1), Recovered()]) == [Recovered(), end, JobFinished("2", 1)]
    assert trouble.told(21, []) == []


def test_one_start_is_refused() -> None:
    trouble = Trouble(refused={"1": 10})
    assert trouble.refuse(9, "1", 1) is None
    refused = trouble.refuse(10, "1", 2)
    assert refused is not None
    assert (refused.job_id, refused.attempt) == ("1", 2)
    assert trouble.refuse(11, "1", 3) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('what = "dies"\nat_s = 1', "is unknown"),
        ('what = "cancel"\nat_s = 1', "cancel and refuse name a job"),
        ('what = "dead"\nat_s = 1', "needs, an end"),
        ('what = "dead"\nat_s = 5\nuntil_s = 5', "is not after"),
        ('what = "cancel"\nat_s = 1\njob = "nobody"', "unknown job nobody"),
    ],
)
def test_wrong_trouble_is_refused(tmp_path: Path, line: str, reason: str) -> None:
    path = write_scenario(scene("hold/hold"), tmp_path)
    path.write_text(path.read_text() + "[[domain.trouble]]\n" + line + "\n")
    with pytest.raises(InputError, match=reason):
        prepare_domains(read_scenario(path))


@pytest.mark.parametrize("name", ["a mate fails to start", "a domain is dead for longer than the lease"])
def test_a_run_with_trouble_is_replayed_and_explained(name: str, tmp_path: Path) -> None:
    scenario, out = read_scenario(write_scenario(scene(name), tmp_path)), tmp_path / "out"
    run = run_domains(prepare_domains(scenario), keep_journals=True)
    write_run(run, scenario, out, 0.0, report=False, title=name)
    replayed = replay_journal(out)
    assert replayed.difference == ""
    assert replayed.orders > 10
    assert explain_job(out, "beta:b1")["start_s"] == pytest.approx(scene(name).starts["b1"], abs=0.1)


def test_a_clock_that_would_show_less_than_nothing_changes_no_start(tmp_path: Path) -> None:
    """All clocks go a day ahead: the core has no instants before 0."""
    one = scene("clocks that differ")
    played = play_simulated(one, tmp_path)
    assert {name: played.courses[name].start_s for name in one.starts} == pytest.approx(one.starts, abs=0.1)
