"""Jobs of two schedulers that start together, handed in with `--mate` and `--group`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_calls import Answer, cohabit
from tests.ports import free_port
from tests.verbs.living import AN_ACCOUNT, Scheduler

pytestmark = pytest.mark.slow

SITE = """
nodes = 1
place = "{name}"
[domain]
name = "{name}"
listen = "127.0.0.1:{port}"
[peer.{other}]
url = "http://127.0.0.1:{other_port}"
key = "pair.key"
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Scheduler]]:
    """Domains alpha and beta."""
    folder = tmp_path_factory.mktemp("two")
    assert cohabit("peer-key", folder / "pair.key").code == 0
    ports = {"alpha": free_port(), "beta": free_port()}
    found = {}
    for name, other in (("alpha", "beta"), ("beta", "alpha")):
        file = folder / f"{name}.toml"
        text = SITE.format(name=name, other=other, port=ports[name], other_port=ports[other])
        file.write_text(f"{text}{AN_ACCOUNT}")
        found[name] = Scheduler(folder / name, command=("controller", str(file))).start()
    yield found
    for scheduler in found.values():
        scheduler.call("cancel", "--all")
        assert scheduler.stop() == 0, scheduler.errors()


@pytest.mark.timing  # terms allow 50 ms: on a machine that is late they try again and again
@pytest.mark.parametrize("how", ["mate", "group"])
def test_they_start_together(two: dict[str, Scheduler], how: str, tmp_path: Path) -> None:
    if how == "mate":
        words = {
            "alpha": ["--name", "left", "--mate", "beta:right"],
            "beta": ["--name", "right", "--mate", "alpha:left"],
        }
    else:
        words = {name: ["--group", "trio@alpha,beta:third"] for name in two}
    jobs = {name: two[name].submit(*words[name], "--", "sleep", "0.5") for name in ("alpha", "beta")}
    assert set(jobs.values()) == ({"left", "right"} if how == "mate" else {"trio", "third"})
    try:
        views = {name: two[name].until(job, "done", patience_s=240) for name, job in jobs.items()}
    finally:
        for name, job in jobs.items():
            two[name].call("cancel", job)
    apart_s = abs(views["alpha"]["started_at"] - views["beta"]["started_at"])
    assert apart_s < 2, views  # on a busy machine; tests/system measures it


def test_a_mate_that_has_not_come_is_waited_for(two: dict[str, Scheduler]) -> None:
    job = two["alpha"].submit("--name", "early", "--mate", "beta:late", "--", "true")
    deadline = time.monotonic() + 120
    while "beta:late" not in (told := two["alpha"].call("why", job).out):
        assert time.monotonic() < deadline, told
        time.sleep(0.2)
    assert two["alpha"].ok("cancel", job)["jobs"][0]["state"] == "cancelled"


def test_a_dry_run_with_mates_promises_nothing_and_tells_nobody(two: dict[str, Scheduler]) -> None:
    words = ("--name", "perhaps", "--mate", "beta:other", "--", "true")
    seen = two["alpha"].ok("submit", "--dry-run", *words)
    assert (seen["job"], seen["start_at"], seen["nodes"]) == (None, None, None)
    assert "mates" in seen["why"]
    for name, job in (("alpha", "perhaps"), ("beta", "other")):
        assert "no such job" in two[name].call("show", job).sentence()  # nothing was taken, nothing was asked for
    sentence = two["alpha"].call("submit", "--dry-run", "--name", "odd", "--mate", "gamma:x", "--", "true").sentence()
    assert "gamma" in sentence


def test_domains_that_are_not_known_are_refused(two: dict[str, Scheduler]) -> None:
    sentence = two["alpha"].call("submit", "--name", "odd", "--mate", "gamma:x", "--", "true").sentence()
    assert "gamma" in sentence


def test_a_scheduler_without_domains_says_so(living: Scheduler) -> None:
    sentence = living.call("submit", "--name", "odd", "--mate", "gamma:x", "--", "true").sentence()
    assert "no other domains" in sentence


def coscheduling(scheduler: Scheduler, *words: str) -> Answer:
    return cohabit("coscheduling", *words, "--server", scheduler.socket)


def scheme(scheduler: Scheduler, *words: str) -> Any:
    answer = coscheduling(scheduler, *words, "--json")
    assert answer.code == 0, answer
    return answer.document


def test_the_scheme_is_shown_and_changed(two: dict[str, Scheduler]) -> None:
    alpha = two["alpha"]
    before = scheme(alpha, "show")
    assert (before["domain"], before["enabled"], before["scheme"], before["on_deadlock"]) == (
        "alpha",
        True,
        "hold",
        "release",
    )
    after = scheme(alpha, "set", "--scheme", "yield", "--release-s", "30", "--max-held", "0.5")
    assert after == before | {"scheme": "yield", "release_s": 30.0, "max_held": 0.5}
    assert scheme(two["beta"], "show")["scheme"] == "hold"  # a controller sets only itself
    assert scheme(alpha, "set", "--off")["enabled"] is False
    assert "start without their mates" in coscheduling(alpha, "show").out
    scheme(alpha, "set", "--on", "--scheme", "hold", "--release-s", "1200", "--max-held", "1")
    assert scheme(alpha, "show") == before
    actions = [entry["action"] for entry in alpha.ok("audit")["entries"]]
    assert actions.count("set coscheduling") == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set",), "nothing to change"),
        (("set", "--on", "--off"), "exclude each other"),
        (("set", "--scheme", "keep"), "scheme"),
        (("set", "--max-held", "2"), "max_held"),
        (("set", "--off", "--job", "nowhere"), "no such job"),
    ],
)
def test_a_wrong_setting_is_one_sentence(two: dict[str, Scheduler], words: tuple[str, ...], told: str) -> None:
    answer = coscheduling(two["alpha"], *words)
    assert answer.code == 2
    assert told in answer.sentence()


def test_a_job_leaves_its_group_and_starts_alone(two: dict[str, Scheduler]) -> None:
    alpha = two["alpha"]
    job = alpha.submit("--name", "alone", "--mate", "beta:never", "--", "true")
    assert scheme(alpha, "set", "--off", "--job", job)["enabled"] is False
    alpha.until(job, "done", patience_s=60)
    assert scheme(alpha, "show")["enabled"] is True


@pytest.mark.timing  # as above
def test_figure_2_of_the_paper_is_found_and_ended(two: dict[str, Scheduler]) -> None:
    """Each domain's only node is held by a group whose mate waits for the other's; the paper's machines wait on."""
    alpha, beta = two["alpha"], two["beta"]
    first = {"alpha": alpha.submit("--group", "one@alpha,beta", "--", "sleep", "0.2")}
    second = {"beta": beta.submit("--group", "two@alpha,beta", "--", "sleep", "0.2")}
    time.sleep(4)  # both hold by now
    second["alpha"] = alpha.submit("--group", "two@alpha,beta", "--", "sleep", "0.2")
    first["beta"] = beta.submit("--group", "one@alpha,beta", "--", "sleep", "0.2")
    for jobs in (first, second):
        views = [two[name].until(job, "done", patience_s=120) for name, job in jobs.items()]
        assert abs(views[0]["started_at"] - views[1]["started_at"]) < 2
    assert "deadlock between groups: one waits for 1 nodes on beta, where two holds 1" in alpha.errors() + beta.errors()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the controller's account can enter."""
    with tempfile.TemporaryDirectory(prefix="cohabit-mates-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def test_a_changed_site_file_overrules_what_was_set_and_an_unchanged_one_does_not(open_folder: Path) -> None:
    tmp_path = open_folder
    assert cohabit("peer-key", tmp_path / "pair.key").code == 0
    file = tmp_path / "alpha.toml"
    text = SITE.format(name="alpha", other="beta", port=free_port(), other_port=free_port()) + AN_ACCOUNT
    file.write_text(text)
    alpha = Scheduler(tmp_path / "alpha", command=("controller", str(file))).start()
    job = alpha.submit("--name", "waits", "--mate", "beta:never", "--", "true")
    scheme(alpha, "set", "--scheme", "yield")
    assert alpha.stop() == 0, alpha.errors()
    alpha.start()
    assert scheme(alpha, "show")["scheme"] == "yield"  # it was set, and the file has not changed
    assert alpha.stop() == 0, alpha.errors()
    file.write_text(text.replace('name = "alpha"\nlisten', 'name = "alpha"\nscheme = "agree"\nrelease_s = 60\nlisten'))
    alpha.start()
    shown = scheme(alpha, "show")
    assert (shown["scheme"], shown["release_s"]) == ("agree", 60.0)
    assert alpha.ok("show", job)["state"] == "queued"
    assert alpha.stop() == 0, alpha.errors()
    assert cohabit("replay", "--verify", tmp_path / "alpha").code == 0


def test_a_controller_without_peers_has_nothing_to_set(tmp_path: Path) -> None:
    alone = Scheduler(tmp_path / "alone").start()
    try:
        answer = coscheduling(alone, "show")
        assert answer.code == 2
        assert "this controller has no other domains" in answer.sentence()
    finally:
        assert alone.stop() == 0, alone.errors()
