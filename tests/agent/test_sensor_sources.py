"""Every source against something real, or against a fake that refuses what the kernel refuses."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import pytest

from cohabit.agent.launch.process import Request, launch
from cohabit.agent.observing import observe, observe_inside
from cohabit.agent.resctrl.files import HostFiles
from cohabit.agent.sensors.catalogue import NAMES, all_sources, offered, usable
from cohabit.agent.sensors.cgroup import Cgroup
from cohabit.agent.sensors.perf import GROUPS, SANDY_BRIDGE_GROUPS, Perf
from cohabit.agent.sensors.pressure import Pressure
from cohabit.agent.sensors.procfs import Procfs
from cohabit.agent.sensors.resctrl import Resctrl
from cohabit.agent.sensors.source import Source
from cohabit.agent.sensors.valgrind import Valgrind, cache_geometry, parse_totals
from cohabit.model.counters import COUNTERS, PAPER
from cohabit.model.errors import InputError
from tests.support.resctrl import FakeResctrl

BUSY = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"
# Page by page, also where the kernel would rather give huge ones.
PAGES = """import mmap
m = mmap.mmap(-1, {0} * 4096)
if hasattr(mmap, "MADV_NOHUGEPAGE"): m.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, {0} * 4096, 4096): m[at] = 1
"""


def python(code: str) -> Request:
    return Request((sys.executable, "-I", "-S", "-c", code))


def needs(source: Source) -> None:
    offer = source.offer()
    if not offer.available:
        pytest.skip(f"{source.name}: {offer.reason}")


def test_the_schema_has_the_papers_counters() -> None:
    by_group = {group: sum(one.group == group for one in PAPER) for group in dict.fromkeys(one.group for one in PAPER)}
    assert by_group == {"hardware": 7, "software": 3, "cache": 20, "memory": 4, "calculated": 5}
    assert len(COUNTERS) == len({*COUNTERS}) > 39


def test_every_offer_speaks_of_known_counters_and_gives_a_reason_where_it_fails() -> None:
    offers = offered()
    assert tuple(one.source for one in offers) == NAMES == tuple(one.name for one in all_sources())
    for one in offers:
        assert set(one.counters) <= set(COUNTERS)
        assert bool(one.counters) is one.available
        assert one.available or one.reason


def test_every_perf_event_is_in_the_schema_once() -> None:
    names = [name for group in (*GROUPS, *SANDY_BRIDGE_GROUPS) for name in group]
    assert len(names) == len(set(names))
    assert {one.name for one in PAPER if one.group != "calculated"} | {"task_clock"} == set(names)


def test_asking_for_a_source_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no source 'nonsense'"):
        usable(["nonsense"])
    assert [one.name for one in usable(["procfs"])] == ["procfs"]
    assert "valgrind" not in [one.name for one in usable()]


@pytest.mark.timing  # a sampler that waits for a core reads its counter later than its clock
@pytest.mark.parametrize("source", [Perf(), Procfs(), Cgroup()], ids=lambda one: one.name)
def test_processor_time_is_what_was_burnt(source: Source, tmp_path: Path) -> None:
    needs(source)
    ended, readings = observe(python(BUSY.format(1.2)), [source], tmp_path, 60.0, interval_s=0.1)
    assert ended.status == 0
    used_s = readings["cpu_usage"].mean * ended.run_s
    assert 1.0 < used_s < 1.6
    usage = readings["cpu_usage"]
    assert usage.low is not None
    assert usage.high is not None
    assert usage.deviation is not None
    assert 0 <= usage.low <= usage.mean <= usage.high <= 1.3
    assert {one.source for one in readings.values()} == {source.name}


@pytest.mark.parametrize("source", [Perf(), Procfs()], ids=lambda one: one.name)
def test_page_faults_follow_the_pages_touched(source: Source, tmp_path: Path) -> None:
    needs(source)
    counts = []
    for pages in (100, 30_000):
        code = PAGES.format(pages) + "import time\ntime.sleep(1.5)"  # somebody must look in that time
        ended, readings = observe(python(code), [source], tmp_path, 60.0, interval_s=0.1)
        counts.append(readings["page_faults"].mean * ended.run_s)
    assert 29_000 < counts[1] - counts[0] < 60_000


def test_perf_counts_children_and_only_from_exec_on(tmp_path: Path) -> None:
    needs(Perf())
    source = Perf()
    inner = BUSY.format(0.8).replace("\n", "\\n")
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-I', '-S', '-c', '{inner}'])"
    with launch(python(code)) as running:
        watch = source.watch(running.pid, tmp_path)
        assert watch.sample()["task_clock"] == 0
        running.release()
        running.wait()
        assert 0.75 < watch.stop()["task_clock"] < 1.6


def test_amounts_of_ended_children_stay_in_the_sums(tmp_path: Path) -> None:
    inner = BUSY.format(0.5).replace("\n", "\\n")
    code = (
        f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-I', '-S', '-c', '{inner}'])\ntime.sleep(1.5)"
    )
    ended, readings = observe(python(code), [Procfs()], tmp_path, 60.0, interval_s=0.05)
    assert 0.35 < (readings["user_time"].mean + readings["system_time"].mean) * ended.run_s < 0.9
    assert readings["user_time"].low is not None
    assert readings["user_time"].low >= 0


def test_memory_and_threads_are_levels(tmp_path: Path) -> None:
    code = "import time\nblock = bytearray(80_000_000)\ntime.sleep(1.5)"
    _, readings = observe(python(code), [Procfs()], tmp_path, 60.0, interval_s=0.1)
    assert readings["resident_bytes"].high is not None
    assert 80e6 < readings["resident_bytes"].high < 110e6
    assert readings["threads"].mean == 1


def test_pressure_of_the_machine(tmp_path: Path) -> None:
    needs(Pressure())
    _, readings = observe(python("import time; time.sleep(2)"), [Pressure()], tmp_path, 60.0, interval_s=0.1)
    assert 0 <= readings["pressure_cpu"].mean <= 1.5  # the kernel adds up now and then, and we may read late


def test_pressure_files(tmp_path: Path) -> None:
    assert not Pressure(tmp_path).offer().available
    (tmp_path / "cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0 total=7\n")
    offer = Pressure(tmp_path).offer()
    assert (offer.available, offer.counters) == (True, ("pressure_cpu",))
    assert Pressure(tmp_path).watch(1, tmp_path).sample() == {"pressure_cpu": 2.5}


def test_control_groups_are_removed(tmp_path: Path) -> None:
    needs(Cgroup())
    source = Cgroup()
    stale = [parent / "cohabit-999999999-0" for parent in source._parents]
    for group in stale:
        group.mkdir()
    observe(python("pass"), [source], tmp_path, 60.0)
    left = [group for parent in source._parents for group in parent.glob(f"cohabit-{os.getpid()}-*")]
    assert not left
    assert not [group for group in stale if group.exists()]


# ---- resctrl, against a fake that enforces ----


def test_resctrl_traffic_and_occupancy(tmp_path: Path) -> None:
    fake = FakeResctrl(alive={77}, domains=(0, 3))
    fake.add_foreign("somebody")
    source = Resctrl(files=fake)
    assert source.offer().counters == ("llc_occupancy_bytes", "memory_total_bytes", "memory_local_bytes")
    watch = source.watch(77, tmp_path)
    fake.tick(77, total=1000, local=600, occupancy=4096)
    assert watch.sample() == {"llc_occupancy_bytes": 4096, "memory_total_bytes": 1000, "memory_local_bytes": 600}
    fake.tick(77, total=500, local=500, occupancy=0)
    assert watch.stop() == {"memory_total_bytes": 1500, "memory_local_bytes": 1100}
    assert set(fake.groups) == {"somebody"}


def test_resctrl_leaves_out_what_is_unavailable_at_the_moment(tmp_path: Path) -> None:
    fake = FakeResctrl(alive={77})
    watch = Resctrl(files=fake).watch(77, tmp_path)
    (group,) = fake.groups.values()
    group.unavailable.add("mbm_total_bytes")
    assert set(watch.sample()) == {"llc_occupancy_bytes", "memory_local_bytes"}
    assert "memory_total_bytes" in watch.sample()


def test_resctrl_groups_of_a_killed_measurement_are_removed_and_no_others(tmp_path: Path) -> None:
    fake = FakeResctrl(alive={77}, ids=6)
    fake.make(Path("/sys/fs/resctrl/mon_groups/cohabit-999999999-3"))
    for name in (f"cohabit-{os.getpid()}-900", "cohabit-notes", "somebody"):
        fake.add_foreign(name)
    Resctrl(files=fake).watch(77, tmp_path).stop()
    assert set(fake.groups) == {f"cohabit-{os.getpid()}-900", "cohabit-notes", "somebody"}


def test_resctrl_without_local_traffic_as_on_arm(tmp_path: Path) -> None:
    fake = FakeResctrl(alive={77}, events=("llc_occupancy", "mbm_total_bytes"))
    source = Resctrl(files=fake)
    assert source.offer().counters == ("llc_occupancy_bytes", "memory_total_bytes")
    assert set(source.watch(77, tmp_path).sample()) == {"llc_occupancy_bytes", "memory_total_bytes"}


def test_resctrl_waits_for_ids_in_limbo(tmp_path: Path) -> None:
    fake = FakeResctrl(alive={77}, limbo_calls=3)
    source = Resctrl(files=fake)
    source.watch(77, tmp_path).stop()
    assert fake.limbo == 3
    source.watch(77, tmp_path)
    assert fake.limbo == 0


def test_resctrl_gives_up_where_ids_are_used_up_or_the_task_is_gone(tmp_path: Path) -> None:
    fake = FakeResctrl(alive={77}, ids=2)
    fake_full = FakeResctrl(alive={77}, ids=1)
    with pytest.raises(OSError) as caught:
        Resctrl(files=fake_full).watch(77, tmp_path)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError) as caught:
        Resctrl(files=fake).watch(78, tmp_path)
    assert caught.value.errno == errno.ESRCH
    assert not fake.groups


def test_resctrl_that_is_not_mounted_or_cannot_monitor(tmp_path: Path) -> None:
    assert Resctrl(tmp_path / "nowhere").offer().reason == "resctrl is not mounted"
    (tmp_path / "info").mkdir()
    assert Resctrl(tmp_path).offer().reason == "the processor has no cache monitoring"


def test_resctrl_files_of_the_host(tmp_path: Path) -> None:
    """The real file system behind the same verbs; a plain folder cannot refuse, but it can be read."""
    monitor = tmp_path / "info" / "L3_MON"
    monitor.mkdir(parents=True)
    (monitor / "mon_features").write_text("llc_occupancy\nmbm_total_bytes\n")
    assert Resctrl(tmp_path).offer().counters == ("llc_occupancy_bytes", "memory_total_bytes")
    files = HostFiles()
    files.make(tmp_path / "mon_groups")
    (tmp_path / "tasks").touch()
    files.write(tmp_path / "tasks", "1\n")
    assert files.read(tmp_path / "tasks") == "1\n"
    files.remove(tmp_path / "mon_groups")
    assert files.names(tmp_path) == ["info", "tasks"]


def test_a_source_that_fails_at_the_start_is_left_out_of_the_run(tmp_path: Path) -> None:
    full = Resctrl(files=FakeResctrl(alive=set(), ids=1))
    ended, readings = observe(python("import time; time.sleep(0.3)"), [full, Procfs()], tmp_path, 60.0, interval_s=0.1)
    assert ended.status == 0
    assert {one.source for one in readings.values()} == {"procfs"}


# ---- valgrind ----

OUT_FILE = """desc: I1 cache: 65536 B
cmd: ls
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim
fl=x
fn=y
1 5 1 1 1 1 1 1 1 1 1 1 1 1
summary: 1000 10 5 300 40 30 200 20 10 100 7 50 3
"""


def test_counts_are_mapped_onto_the_schema() -> None:
    assert parse_totals(OUT_FILE) == {
        "instructions": 1000, "branch_instructions": 150, "branch_misses": 10, "cache_references": 70,
        "cache_misses": 45, "l1_dcache_loads": 300, "l1_dcache_load_misses": 40, "l1_dcache_store_misses": 20,
        "mem_uops_retired_all_loads": 300, "mem_uops_retired_all_stores": 200, "mem_load_uops_retired_llc_hit": 10,
        "mem_load_uops_retired_llc_miss": 30,
    }  # fmt: skip
    assert parse_totals(OUT_FILE.replace("summary", "torn")) == {}
    assert set(parse_totals(OUT_FILE)) == set(Valgrind().offer().counters) or not shutil.which("valgrind")


def test_caches_of_the_host(tmp_path: Path) -> None:
    rows = (("1", "Data", "48K", "12"), ("1", "Instruction", "32K", "8"), ("2", "Unified", "1280K", "20"),
            ("3", "Unified", "30720K", "20"))  # fmt: skip
    for number, (level, kind, size, ways) in enumerate(rows):
        index = tmp_path / f"index{number}"
        index.mkdir()
        facts = {"level": level, "type": kind, "size": size, "ways_of_associativity": ways, "coherency_line_size": "64"}
        for name, value in facts.items():
            (index / name).write_text(value + "\n")
    # 30 MB in 20 ways has 24,576 sets: rounded down to 16,384, as the tool wants a power of two
    assert cache_geometry(tmp_path) == {"D1": (49152, 12, 64), "I1": (32768, 8, 64), "LL": (20 << 20, 20, 64)}
    assert set(cache_geometry(tmp_path / "nowhere")) == {"D1", "I1", "LL"}


@pytest.mark.system
def test_valgrind_counts_the_same_every_time(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed (apt-get install valgrind)")
    found = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        request = Request(
            ("sh", "-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; true"), environment={"LANG": "C"}
        )
        found.append(observe_inside(request, Valgrind(), folder, 120.0, 0.5))
    # The folder's name is part of the command line valgrind sees, not of the program's: equal to the instruction.
    assert found[0] == found[1]
    assert found[0]["instructions"].mean > 2e5
    assert found[0]["instructions"].low is None
    assert 0 < found[0]["miss_ratio"].mean <= 1
    assert "ipc" not in found[0]
    assert "cpu_usage" not in found[0]


@pytest.mark.system
def test_a_program_that_fails_inside_valgrind(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed (apt-get install valgrind)")
    with pytest.raises(InputError, match="did not run inside valgrind"):
        observe_inside(Request(("false",)), Valgrind(), tmp_path, 60.0, 0.5)
