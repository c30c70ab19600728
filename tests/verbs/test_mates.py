"""Jobs of two schedulers that start together, handed in with `--mate` and `--group`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cli_calls import cohabit
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
