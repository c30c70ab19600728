"""Living schedulers that have something to show: jobs that share a divided cache under a promise, a gate that lets some
wait, two domains that start jobs together. All of them execute real jobs; resctrl is the enforcing fake."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from cohabit.agent.resctrl.files import Mount
from cohabit.agent.samplers.catalogue import all_samplers
from cohabit.agent.samplers.meter import Meter
from cohabit.app.learn.variability import train_variability, write_variability
from cohabit.app.measure.capacity import keep_capacity, usual_path
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve import serving
from cohabit.app.serve.machine import TelemetryConfig
from cohabit.app.serve.serving import ServeConfig
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.core.protocols import Coupling
from cohabit.launcher.runs import RunFolder
from cohabit.live.api.settings import ApiSettings
from cohabit.live.peers.keys import read_keys, write_new_key
from cohabit.live.peers.messages import Peer
from cohabit.model.event import Event, ProfileLearned, ProgressMeasured
from cohabit.model.profile import Profile
from cohabit.model.scheme import Scheme
from cohabit.model.telemetry import feature_names
from cohabit.model.units import SECOND
from cohabit.predict.variability_data import Runs
from tests.live.api.serving import Server
from tests.ports import free_ports
from tests.support.programs import FLAT, measured, profile
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_machines import INTEL
from tests.support.resctrl_mount import can_mount, mounted

DOMAINS = ("alpha", "beta")
CAPACIOUS = profile("capacious", measured(1, 100.0, {2: 0.92, 4: 0.97, 12: 1.0}, 4.0), processes=1)
FRUGAL = profile("frugal", measured(1, 100.0, FLAT, 1.5), processes=1)
CAPACITY = ((1, 12.0), (2, 20.0))  # GB/s by cores
VARYING, CALM = "network", "compute"  # kinds of work, as the made runs have it
COUNTERS, RUNS = 6, 300


@contextmanager
def place_of(name: str) -> Iterator[Path]:
    """A folder that other users can reach."""
    place = Path(tempfile.mkdtemp(prefix=f"cohabit-{name}-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place)


@contextmanager
def living(one: Server) -> Iterator[Server]:
    """A server whose jobs end with it."""
    try:
        yield one
    finally:
        jobs = one.ask("GET", "/v1/jobs?state=queued&limit=50").body["jobs"]
        for job in [*jobs, *one.ask("GET", "/v1/jobs?state=running&limit=1000").body["jobs"]]:
            one.ask("POST", f"/v1/jobs/{quote(job['job'], safe='')}/cancel")
        one.close()


def tell(server: Server, *facts: Event) -> None:
    """Facts, as whoever measures tells them."""
    for fact in facts:
        server.run(server.service.tell(fact))


def learned(*known: Profile) -> list[ProfileLearned]:
    """What is known of programs."""
    return [ProfileLearned(one.program, one.processes, scale) for one in known for scale in one.scales]


# ---- a divided cache under a promise --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Divided:
    """A server and the resctrl it divides the cache with."""

    server: Server
    fake: FakeResctrl

    def ways_of(self, job: str) -> set[int]:
        """The ways the job may really fill."""
        started = RunFolder(self.server.config.place / "runs", job, 1).started()
        assert started is not None
        mask = self.fake.classes[self.fake.class_of(started["pid"])].schemata["L3"][0]
        return {way for way in range(INTEL.ways) if mask >> way & 1}


@contextmanager
def dividing() -> Iterator[Divided]:
    """One node of all cores whose cache is divided and whose bandwidth is known; the policy promises nine tenths."""
    if can_mount():
        pytest.skip(can_mount())
    with place_of("dividing") as place:
        root = place / "resctrl"
        root.mkdir()
        fake = FakeResctrl(lambda task: Path("/proc", str(task)).exists(), str(root), machine=INTEL)
        with mounted(fake, root), living(_on_this_mount(place, root)) as one:
            tell(one, *learned(CAPACIOUS, FRUGAL))
            yield Divided(one, fake)


def _on_this_mount(place: Path, root: Path) -> Server:
    """It finds resctrl there, and the capacity of the machine in a file of its own; others do not."""
    policy = PolicyConfig(name="sns", partition="guarantee", learn=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(place / "data"))
        usual_path().parent.mkdir(parents=True)
        keep_capacity(CAPACITY, 64.0, usual_path())
        patch.setattr(serving, "VirtualNodes", partial(VirtualNodes, mount=lambda: Mount(root)))
        patch.setattr(
            serving, "LocalBackend", partial(LocalBackend, mount=lambda: Mount(root), processor=INTEL.processor)
        )
        return Server(ServeConfig(place / "state", 1, policy, api=ApiSettings()))


def shared_by_two(server: Server) -> None:
    """Two jobs side by side, one of them slower than it was promised: the loop gives it ways of the other."""
    for name, program in (("slow", "capacious"), ("fast", "frugal")):
        server.submit("sleep 600", name=name, program=program, processes=1, limit_s=600)
        until(lambda name=name: server.show(name)["state"] == "running")  # type: ignore[misc]
    for _ in range(2):
        tell(server, ProgressMeasured("fast", 1, 1.0, 10 * SECOND), ProgressMeasured("slow", 1, 0.8, 10 * SECOND))


# ---- a gate ---------------------------------------------------------------------------------------------------------


def made_model(path: Path) -> Path:
    """A model of the counters this machine has, trained on made runs in which work on the network varies, whatever the
    counters say, and other work never does. So what the gate says does not depend on how busy this machine is."""
    counters = tuple(Meter(all_samplers(), lambda _: None).counters)[:COUNTERS]
    rng = np.random.default_rng(7)
    columns = feature_names(counters)
    kinds = tuple(VARYING if number % 6 == 0 else CALM for number in range(RUNS))
    names = tuple(f"app{number % 5}" for number in range(RUNS))
    run_s = 100.0 + rng.normal(0.0, 1.0, RUNS) + np.array([60.0 * (kind == VARYING) for kind in kinds])
    runs = Runs(names, np.arange(float(RUNS)), run_s, kinds, rng.normal(1.0, 0.1, (RUNS, len(columns))), columns)
    write_variability(train_variability(runs, "forest", 7), path)
    return path


@contextmanager
def gating() -> Iterator[Server]:
    """Two nodes; the gate looks at this machine's own counters."""
    with place_of("gating") as place:
        policy = PolicyConfig(name="rush", variability=str(made_model(place / "model")), skip_threshold=1000)
        telemetry = TelemetryConfig(every_s=1.0, window_s=2.0)
        config = ServeConfig(place / "state", 2, policy, api=ApiSettings(), telemetry=telemetry)
        with living(Server(config)) as one:
            until(lambda: one.ask("GET", "/v1/page/predictions").body["counters"] is not None)
            yield one


# ---- two domains ----------------------------------------------------------------------------------------------------


@contextmanager
def coupled(scheme: str = "hold") -> Iterator[tuple[Server, Server]]:
    """Two domains of two nodes each that start jobs together."""
    with place_of("coupled") as place, ExitStack() as stack:
        write_new_key(place / "key")
        ports = dict(zip(DOMAINS, free_ports(2), strict=True))
        found = []
        for rank, (name, other) in enumerate((DOMAINS, DOMAINS[::-1])):
            config = ServeConfig(
                place / name, 2, PolicyConfig(), api=ApiSettings(domains=DOMAINS), port=ports[name],
                coupling=Coupling(name, rank, Scheme(scheme=scheme), peers=(other,)),
                peers={other: Peer(other, f"http://127.0.0.1:{ports[other]}", read_keys(place / "key"))},
            )  # fmt: skip
            found.append(stack.enter_context(living(Server(config))))
        yield found[0], found[1]


def half(server: Server, group: str, job: str, mates: dict[str, str], **others: Any) -> str:
    """One of several jobs that start together and are stopped where the others are not heard of."""
    terms = {"lead_s": 4.0, "late_s": 2.0, "round_trip_s": 2.0, "retry_s": 1.0}  # also a busy machine keeps these
    together = {"name": group, "members": mates, "when_dead": "wait", **terms}
    return server.submit("sleep 600", name=job, group=together, limit_s=600, **others)


def until(condition: Callable[[], object], patience_s: float = 120.0) -> None:
    """Wait for it."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it did not come to this"
        time.sleep(0.05)
