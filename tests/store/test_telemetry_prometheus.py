"""A real Prometheus server that scrapes a real node exporter; and servers that are gone, slow or something else."""

from __future__ import annotations

import http.server
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.measure import telemetry
from cohabit.model.errors import InputError
from cohabit.model.telemetry import staleness
from cohabit.model.telemetry_counters import BY_NAME
from cohabit.store.telemetry import TelemetryStore
from cohabit.store.telemetry_prometheus import COUNTERS, Prometheus
from tests.ports import free_port

pytest.importorskip("httpx", reason="httpx is not here")
SECOND = 1_000_000
CONFIG = """
global: {{ scrape_interval: 1s, scrape_timeout: 1s }}
scrape_configs:
  - {{ job_name: node, static_configs: [{{ targets: ["127.0.0.1:{port}"] }}] }}
"""


def now_us() -> int:
    return time.time_ns() // 1000


def recent(client: Prometheus) -> np.ndarray:
    """The last four seconds, one row each; one row of nothing where nothing is known."""
    values = client.fetch(now_us() - 4 * SECOND, now_us(), 1.0).values
    return values if len(values) == 4 else np.full((1, len(COUNTERS)), np.nan)


class Server:
    """Prometheus with a node exporter, on ports of their own."""

    def __init__(self, folder: Path) -> None:
        self.exporter_port, self.port, self.folder = free_port(), free_port(), folder
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "prometheus.yml").write_text(CONFIG.format(port=self.exporter_port))
        self.exporter = self._start("prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{self.exporter_port}")
        self.process = self.start()

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self) -> subprocess.Popen[bytes]:
        return self._start(
            "prometheus", f"--config.file={self.folder / 'prometheus.yml'}", f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error",
        )  # fmt: skip

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait_for_scrapes(self) -> None:
        """Until the last seconds are known: on a busy machine the exporter may have been too late with one."""
        with Prometheus(self.url) as client:
            self.wait(lambda: not np.isnan(recent(client)[:, COUNTERS.index("load.running")]).any())

    def wait(self, good: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not good():
            assert time.monotonic() < deadline, "the server has no data"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    for program in ("prometheus", "prometheus-node-exporter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: apt-get install {program}, or make system)")
    made = Server(tmp_path_factory.mktemp("prometheus"))
    try:
        made.wait_for_scrapes()
        yield made
    finally:
        made.stop()
        made.exporter.kill()
        made.exporter.wait()


@pytest.mark.system
@pytest.mark.slow
def test_a_real_server_of_a_real_node_exporter(server: Server) -> None:
    server.wait_for_scrapes()
    with Prometheus(server.url) as client:
        found = client.fetch(now_us() - 3 * SECOND, now_us(), 1.0)
    assert found.problem == ""
    assert found.names == ("127.0.0.1",)
    assert len(found.times_us) == 3
    known = {name for at, name in enumerate(COUNTERS) if not np.isnan(found.values[:, at]).all()}
    assert {"load.load_1m", "load.running"} <= known
    load = found.values[-1, COUNTERS.index("load.load_1m")]
    assert load == pytest.approx(float(Path("/proc/loadavg").read_text().split()[0]), abs=2.0)
    assert (found.values[:, COUNTERS.index("load.running")] >= 1).all()  # the exporter itself
    assert (found.values[~np.isnan(found.values)] >= 0).all()


@pytest.mark.system
@pytest.mark.slow
def test_every_metric_of_this_host_is_mapped(server: Server) -> None:
    """What our own samplers find here the exporter's names must find too."""
    from cohabit.agent.samplers.catalogue import all_samplers

    server.wait_for_scrapes()
    with Prometheus(server.url) as client:
        found = client.fetch(now_us() - 3 * SECOND, now_us(), 1.0)
    known = {name for at, name in enumerate(COUNTERS) if not np.isnan(found.values[:, at]).all()}
    for sampler in all_samplers():
        ours = {f"{sampler.name}.{name}" for name in sampler.offer().counters}
        ours -= {"network.loopback_bytes", "network.loopback_packets"}  # Debian's exporter leaves loopback out
        assert ours <= known


@pytest.mark.system
@pytest.mark.slow
def test_importing_a_stretch_of_time(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "store"
    server.wait_for_scrapes()
    document = telemetry.import_prometheus(server.url, out, now_us() - 4 * SECOND, now_us(), SECOND)
    assert document["windows"] in (1, 2)
    assert document["samples"] == 4
    (*_, last) = TelemetryStore(out).windows(0, now_us())
    assert last.nodes == ("127.0.0.1",)
    assert not np.isnan(last.window.mean[0, COUNTERS.index("load.load_1m")])
    assert staleness(TelemetryStore(out).newest_end_us(), now_us()) == ""


@pytest.mark.system
@pytest.mark.slow
def test_a_server_that_goes_away_and_comes_back(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collecting goes on, says both, and keeps what was known; nothing is raised."""
    monkeypatch.setattr(telemetry, "SETTLED_US", SECOND)
    said: list[str] = []
    turns = 0

    def advance(done: int, total: int) -> None:
        nonlocal turns
        turns = done
        if done == 3:
            server.stop()
        if done == 6:
            server.process = server.start()

    server.wait_for_scrapes()
    plan = telemetry.Plan(tmp_path / "store", SECOND, 30 * SECOND)
    document = telemetry.collect_from_prometheus(plan, server.url, said.append, advance)
    assert document["complete"]
    assert turns == 30
    assert "does not answer" in said[0]
    assert "no job is delayed by it" in said[0]
    assert f"{server.url} answers again" in said
    assert document["defects"]["questions without an answer"] >= 2
    assert document["samples"] >= 5
    assert document["windows"] >= 1


def test_nobody_listens() -> None:
    with Prometheus("http://127.0.0.1:1") as client:
        found = client.fetch(now_us() - 60 * SECOND, now_us(), 10.0)
    assert "does not answer" in found.problem
    assert found.names == ()
    assert found.values.shape == (0, len(COUNTERS))


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        with Prometheus(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3) as client:
            found = client.fetch(now_us() - 60 * SECOND, now_us(), 10.0)
    assert "does not answer" in found.problem
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>a web page</html>", "does not answer"),
        (503, b"", "does not answer"),
        (200, b"[]", "not as a Prometheus server does"),
        (200, b"{}", "refuses"),
        (422, b'{"status": "error", "error": "too many points"}', "refuses: too many points"),
        (200, b'{"status": "success", "data": 3}', "not as a Prometheus server does"),
        (200, b'{"status": "success", "data": {"result": [{"metric": {}}]}}', "not as a Prometheus server does"),
        (200, b'{"status": "success", "data": {"result": [7]}}', "not as a Prometheus server does"),
        (200, b'{"status": "success", "data": {"result": []}}', "has no samples of a node exporter"),
    ],
)
def test_something_else_listens(status: int, body: bytes, words: str) -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        try:
            with Prometheus(f"http://127.0.0.1:{other.server_address[1]}") as client:
                found = client.fetch(now_us() - 60 * SECOND, now_us(), 10.0)
        finally:
            other.shutdown()
    assert words in found.problem
    assert found.names == ()


@pytest.mark.parametrize("url", ["", "localhost", "localhost:9090", "ftp://host", "http://", "http://h:x"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(InputError, match="http://host:9090"):
        Prometheus(url)


def test_the_mapping_speaks_of_known_counters() -> None:
    assert set(COUNTERS) <= set(BY_NAME)
