"""slurmrestd as a second way to Slurm: the same answers as the commands, and what happens without it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cohabit.backend.slurm import json_output, text_output
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.rest import Described, Rest, RestAway, RestManager, judge
from cohabit.backend.slurm.steering import SlurmManager
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.shapes import ManagerNode
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.support.slurm_cluster import SlurmCluster, missing, rest_missing, running_slurm

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text())


def test_the_version_is_found_in_what_it_says_of_itself() -> None:
    old, new, newest = (Described(recorded(f"{version}-rest-openapi.json")) for version in ("22.05", "24.11", "26.05"))
    assert (old.version, old.jobs) == ("v0.0.38", "/slurm/v0.0.38/jobs")
    assert (new.version, new.jobs) == ("v0.0.42", "/slurm/v0.0.42/jobs/")
    assert newest.version == "v0.0.44"  # v0.0.45 does not say who wants whole nodes
    assert old.changes("hold", "time_limit")
    assert not old.changes("required_nodes")
    assert not old.changes("admin_comment")
    assert old.number("time_limit", 7) == 7
    for one in (new, newest):
        assert one.changes("required_nodes", "minimum_nodes", "maximum_nodes", "admin_comment", "hold", "begin_time")
        assert one.number("time_limit", 7) == {"set": True, "infinite": False, "number": 7}
        assert one.number("minimum_nodes", 2) == 2
    with pytest.raises(RestAway, match="no list of jobs"):
        Described({"paths": {"/slurmdb/v0.0.41/jobs/": {}}})
    with pytest.raises(RestAway, match=r"v0\.0\.3.*leaves out"):  # 20.11 does not say that a node is drained
        Described(recorded("20.11-rest-openapi.json"))


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_nodes_are_the_same_as_in_text(version: str) -> None:
    told = json_output.nodes((RECORDED / f"{version}-rest-nodes.json").read_bytes())
    assert told == text_output.nodes((RECORDED / f"{version}-nodes.txt").read_text())
    assert told[3] == ManagerNode("n3", 28, 1, 20000, ("all",), ("IDLE", "DRAIN"))


def test_refusals_and_absence_are_told_apart() -> None:
    with pytest.raises(ManagerRefused, match="Disabled key"):
        judge({"errors": [{"description": 'Disabled key: "required_nodes"', "error": "Operation not permitted"}]})
    with pytest.raises(ManagerAway):
        judge(
            {
                "errors": [
                    {"description": "slurm_load_jobs", "error": "Unable to contact slurm controller (connect failure)"}
                ]
            }
        )
    judge({"errors": []})


@asynccontextmanager
async def newer_slurmrestd(folder: Path) -> AsyncIterator[tuple[str, list[tuple[str, str, Any]]]]:
    """One that describes itself as v0.0.42 does and takes whatever it is told: (method, path, body)."""
    heard: list[tuple[str, str, Any]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lengths = [line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-length")]
        body = await reader.readexactly(int(lengths[0])) if lengths else b""
        method, path, _ = head.split(" ", 2)
        heard.append((method, path, json.loads(body) if body else None))
        text = (RECORDED / "24.11-rest-openapi.json").read_text() if path == "/openapi/v3" else '{"errors": []}'
        writer.write(f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, folder / "new.socket")
    async with server:
        yield f"unix:{folder}/new.socket", heard


def test_a_newer_one_places_jobs_without_commands(tmp_path: Path) -> None:
    async def steer() -> tuple[list[tuple[str, str, Any]], int]:
        async with newer_slurmrestd(tmp_path) as (address, heard):
            calls, rest = Calls(), Rest(address)
            manager = RestManager(calls, rest)
            await manager.place("7", ["n1", "n2"], 4, "cohabit:run:1:1-0:1:8")
            await manager.release(["7"])
            await manager.cancel("7")
            await rest.close()
            return heard, calls.made

    heard, commands = asyncio.run(steer())
    assert commands == 0
    (_, path, placed), released, cancelled = heard[1:]
    assert path == "/slurm/v0.0.42/job/7"
    begin = placed.pop("begin_time")
    assert placed == {
        "required_nodes": ["n1", "n2"], "minimum_nodes": 2, "maximum_nodes": 2, "minimum_cpus_per_node": 4,
        "admin_comment": "cohabit:run:1:1-0:1:8",
    }  # fmt: skip
    assert begin["set"]
    assert released == ("POST", path, {"hold": False})
    assert cancelled == ("DELETE", path, None)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if reason := missing() or rest_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rest")
    text = LUA.read_text().replace("/var/lib/cohabit/lease", str(folder / "lease"))
    with running_slurm(folder, nodes=2, cores=4, job_submit=text, name="rest") as cluster:
        cluster.start_rest()
        try:
            asyncio.run(Rest(f"unix:{cluster.rest}", cluster.rest_token, "root").described())
        except RestAway as error:
            pytest.skip(f"this slurmrestd is not used: {error}")
        yield cluster


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.xdist_group("slurm-rest")
def test_both_ways_say_the_same(served: SlurmCluster, tmp_path: Path) -> None:
    names = [submit(served, tmp_path, 60, "--hold", f"-n{size}", "-Jodd name") for size in (1, 2, 4)]
    served.run("scontrol", "release", names[0])
    until(lambda: jobs_of(served)[names[0]].state == "RUNNING")

    async def compare() -> None:
        calls, rest = Calls(str(served.conf)), Rest(f"unix:{served.rest}", served.rest_token, "root")
        ways = RestManager(calls, rest), SlurmManager(calls)
        assert await ways[0].jobs() == await ways[1].jobs()
        assert await ways[0].jobs() == await ways[1].jobs()  # the second time from what was kept
        assert await ways[0].nodes() == await ways[1].nodes()
        assert await ways[0].job(names[1]) == await ways[1].job(names[1])
        assert await ways[0].job("99999") is None
        made = calls.made
        await ways[0].place(names[1], ["n1"], 2, "cohabit:run:1:1-0:1:2")
        assert (calls.made == made) == (await rest.described()).changes("required_nodes", "admin_comment")
        placed = await ways[1].job(names[1])
        assert placed is not None
        assert (placed.required_nodes, placed.cpus_per_node, placed.mark) == (("n1",), 2, "cohabit:run:1:1-0:1:2")
        await ways[0].release([names[1]])
        await ways[0].limit(names[2], 420)
        await ways[0].cancel(names[0])
        with pytest.raises(ManagerRefused):
            await ways[0].release(["99999"])
        await rest.close()

    asyncio.run(compare())
    until(lambda: jobs_of(served)[names[1]].state == "RUNNING")
    assert jobs_of(served)[names[1]].nodes == ("n1",)
    until(lambda: jobs_of(served)[names[0]].state == "CANCELLED")
    assert jobs_of(served)[names[2]].limit_s == 420
    served.run("scancel", *names[1:])


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.xdist_group("slurm-rest")
def test_steering_goes_on_without_it(served: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(served, tmp_path, "cs")
    token = f'rest_token = "{served.rest_token}"' if served.rest_token else ""
    site.write_text(site.read_text().replace("[slurm]", f'[slurm]\nrest = "unix:{served.rest}"\n{token}'))
    with attached(site, *([] if token else ["--as-root"])):  # over a socket without a token it looks at who connects
        first = [submit(served, tmp_path, 1, "-n2") for _ in range(4)]
        until(lambda: all(jobs_of(served)[name].state == "COMPLETED" for name in first), 90, log_of(tmp_path))
        assert "slurmrestd" not in log_of(tmp_path)()
        served.stop("slurmrestd")
        then = [submit(served, tmp_path, 1, "-n2") for _ in range(4)]
        until(lambda: all(jobs_of(served)[name].state == "COMPLETED" for name in then), 90, log_of(tmp_path))
        assert log_of(tmp_path)().count("commands are used") == 1
        served.start_rest()
        until(lambda: "slurmrestd answers again" in log_of(tmp_path)(), 90, log_of(tmp_path))
    assert all(jobs_of(served)[name].mark.startswith("cohabit:run:1:") for name in (*first, *then))


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.xdist_group("slurm-rest")
def test_without_root_and_without_a_token_commands_are_used(served: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(served, tmp_path, "cs")
    site.write_text(site.read_text().replace("[slurm]", f'[slurm]\nrest = "unix:{served.rest}"'))
    with attached(site):
        name = submit(served, tmp_path, 1, "-n2")
        until(lambda: jobs_of(served)[name].state == "COMPLETED", 90, log_of(tmp_path))
    assert log_of(tmp_path)().count("Slurm's commands are used: slurmrestd at unix:") == 1
