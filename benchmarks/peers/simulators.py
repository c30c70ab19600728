"""Simulators: each gets the same SWF file and machine in a process of its own and gives back its start times.

A peer is an `Adapter`: what stands in the way (`missing`), what to run (`command`), and how to read its own result file
(`starts`). A peer that is not there is named in the page with how to get it; it is never left out.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers.workload import COHABIT, Workload, compare
from benchmarks.processes import timed

DRIVERS = Path(__file__).parent / "drivers"
CQSIM_SETTINGS = """cluster_fraction=1.0
start=0
start_date=None
anchor=0
read_num={jobs}
debug_lvl=0
alg=w,+,2
alg_sign=1,0,1
backfill=1
bf_para=
win=0
win_para=1,0,0
ad_win=0
ad_bf=0
ad_alg=0
ad_win_para=
ad_bf_para=
ad_alg_para=
config_n=config_n.set
monitor=500
job_trace=peers.swf
node_struc=peers.swf
"""
ALEA_SETTINGS = {
    "data_sets": "peers.swf", "algorithms": "2", "visualize": "false", "estimates": "true", "failures": "false",
    "reqs": "false", "use_queues": "false", "use_fairshare": "false", "use_RAM": "false", "data": "false",
    "meta": "false",
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """Folders of peers and interpreters that the caller has."""

    folders: dict[str, Path] = field(default_factory=dict)
    accasim_python: str = ""  # a Python that has AccaSim; empty: one is made
    python2: str = "python2"


@dataclass(frozen=True)
class Adapter:
    """One simulator."""

    name: str
    how: str  # how to get it
    missing: Callable[[Given], str]  # what stands in the way; empty: nothing
    command: Callable[[Given, Workload, Path], list[str]]  # prepares the folder; what to run in it
    starts: Callable[[Path, Workload], dict[int, int]]  # from the folder, after the run
    version: Callable[[Given], str]
    note: str = ""


def read_pairs(text: str) -> dict[int, int]:
    """`job start` per line."""
    return {int(job): int(start) for job, start in (line.split() for line in text.splitlines())}


def read_cohabit(text: str) -> dict[int, int]:
    """jobs.csv of `cohabit simulate`."""
    return {int(row["job_id"]): int(float(row["start_s"])) for row in csv.DictReader(text.splitlines())}


def read_accasim(text: str) -> dict[int, int]:
    """Its dispatching plan: job;user;submitted__nodes__started;ended;..."""
    found = {}
    for line in text.splitlines():
        began, _, after = line.split("__")
        moment = datetime.strptime(after.split(";")[0], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        found[int(began.split(";")[0])] = int(moment.timestamp())
    return found


def read_cqsim(text: str, submitted: dict[int, int]) -> dict[int, int]:
    """Its .rst file: id;procs;procs;request;run;wait;submit;start;end. It may shift time, so the wait is taken."""
    rows = (line.split(";") for line in text.splitlines() if line.strip())
    return {int(row[0]): submitted[int(row[0])] + round(float(row[5])) for row in rows}


def read_alea(text: str, submitted: dict[int, int]) -> dict[int, int]:
    """Its jobs file: tabs, a header, decimals with a comma in some places. The wait is taken, as for CQSim."""
    lines = [[word.strip() for word in line.split("\t")] for line in text.splitlines() if line.strip()]
    job, wait = lines[0].index("job_ID"), lines[0].index("wait")
    found = {}
    for row in lines[1:]:
        number = int(float(row[job].replace(",", ".")))
        found[number] = submitted[number] + round(float(row[wait].replace(",", ".")))
    return found


def _submitted(work: Workload) -> dict[int, int]:
    return {job.job_id: job.submit for job in work.jobs}


def _folder_missing(key: str, marker: str) -> Callable[[Given], str]:
    """Check that --KEY DIR was given and holds what the adapter needs."""

    def missing(given: Given) -> str:
        folder = given.folders.get(key)
        if folder is None:
            return f"no folder was given (--{key} DIR)"
        return "" if (folder / marker).exists() else f"{folder.name} has no {marker}"

    return missing


def _commit(key: str) -> Callable[[Given], str]:
    """Which version lies in a folder."""

    def version(given: Given) -> str:
        words = ["git", "-C", str(given.folders[key]), "log", "-1", "--format=%h %cs"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"

    return version


def _cohabit(given: Given, work: Workload, folder: Path) -> list[str]:
    return [*COHABIT, "simulate", str(work.swf), "--backfill", "easy", "--out", str(folder / "out"), "--no-report"]


def _plain(given: Given, work: Workload, folder: Path) -> list[str]:
    module = "benchmarks.peers.drivers.plain_run"
    return [sys.executable, "-m", module, str(work.swf), str(work.nodes), str(folder / "starts")]


def make_accasim(folder: Path) -> str:
    """A Python of its own with AccaSim from the package index; empty: it could not be installed."""
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, check=False)
    python = folder / "bin" / "python"
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "accasim"]
    done = made.returncode or subprocess.run(words, capture_output=True, check=False, timeout=900).returncode
    return "" if done else str(python)


def _accasim(given: Given, work: Workload, folder: Path) -> list[str]:
    return [given.accasim_python, str(DRIVERS / "accasim_run.py"), str(work.swf), str(work.nodes), str(folder)]


def _accasim_version(given: Given) -> str:
    asked = "from importlib.metadata import version; print(version('accasim'))"
    return subprocess.check_output([given.accasim_python, "-c", asked], text=True).strip()


def _scheduleflow(given: Given, work: Workload, folder: Path) -> list[str]:
    source, driver = given.folders["scheduleflow"], str(DRIVERS / "scheduleflow_run.py")
    return [sys.executable, driver, str(source), str(work.swf), str(work.nodes), str(folder / "starts")]


def _pyss_missing(given: Given) -> str:
    problem = _folder_missing("pyss", "src/schedulers/easy_scheduler.py")(given)
    return problem or ("" if shutil.which(given.python2) else f"{given.python2} is not there (--python2 PROGRAM)")


def _pyss(given: Given, work: Workload, folder: Path) -> list[str]:
    source, driver = given.folders["pyss"] / "src", str(DRIVERS / "pyss_run.py")
    return [given.python2, "-O", driver, str(source), str(work.swf), str(work.nodes), str(folder / "starts")]


def _cqsim(given: Given, work: Workload, folder: Path) -> list[str]:
    """A copy of it with our trace as input and EASY, first come first served, no window, as settings."""
    copy = folder / "cqsim"
    shutil.copytree(given.folders["cqsim"] / "src", copy / "src")
    for name in ("InputFiles", "Results", "Fmt", "Debug"):
        (copy / "data" / name).mkdir(parents=True)
    shutil.copy(work.swf, copy / "data" / "InputFiles" / "peers.swf")
    (copy / "src" / "Config" / "peers.set").write_text(CQSIM_SETTINGS.format(jobs=len(work.jobs)))
    run = f"cd {copy / 'src'} && exec {sys.executable} cqsim.py -j peers.swf -n peers.swf -C peers.set"
    return ["sh", "-c", run]


def _cqsim_starts(folder: Path, work: Workload) -> dict[int, int]:
    (result,) = (folder / "cqsim" / "data" / "Results").glob("*.rst")
    return read_cqsim(result.read_text(), _submitted(work))


def _alea_missing(given: Given) -> str:
    problem = _folder_missing("alea", "src/xklusac/environment/ExperimentSetup.java")(given)
    return problem or ("" if shutil.which("javac") else "javac is not there (Debian: apt-get install default-jdk)")


def alea_settings(text: str, jobs: int) -> str:
    """Its configuration.properties for one data set and EASY; what we do not name stays."""
    wanted = ALEA_SETTINGS | {"total_gridlet": str(jobs)}
    for key, value in wanted.items():
        line = f"{key}={value}"
        text, found = re.subn(rf"^{key}\s*=.*$", line, text, flags=re.MULTILINE)
        text = text if found else f"{text.rstrip()}\n{line}\n"
    return text


def _alea(given: Given, work: Workload, folder: Path) -> list[str]:
    """A copy of it, compiled (not timed), with one cluster of as many one-core machines as there are nodes."""
    copy = folder / "alea"
    shutil.copytree(given.folders["alea"], copy)
    (copy / "data-set").mkdir(exist_ok=True)
    shutil.copy(work.swf, copy / "data-set" / "peers.swf")
    (copy / "data-set" / "peers.swf.machines").write_text(f"0\tpeers\t{work.nodes}\t1\t1\t1048576\n")
    settings = copy / "configuration.properties"
    settings.write_text(alea_settings(settings.read_text(), len(work.jobs)))
    sources = [str(path) for path in (copy / "src").rglob("*.java")]
    paths = os.pathsep.join([str(copy / "classes"), *map(str, (copy / "lib").glob("*.jar"))])
    subprocess.run(
        ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", paths, "-d", str(copy / "classes"), *sources], check=True,
        capture_output=True,
    )  # fmt: skip
    main = "xklusac.environment.ExperimentSetup"
    return ["sh", "-c", f"cd {copy} && exec java -Djava.awt.headless=true -cp {paths} {main}"]


def _alea_starts(folder: Path, work: Workload) -> dict[int, int]:
    found = max((folder / "alea").rglob("jobs_*.csv"), key=lambda path: path.stat().st_size)
    return read_alea(found.read_text(), _submitted(work))


def _pairs(folder: Path, work: Workload) -> dict[int, int]:
    return read_pairs((folder / "starts").read_text())


def _own_version(given: Given) -> str:
    return subprocess.check_output([*COHABIT, "--version"], text=True).split()[-1]


ADAPTERS = (
    Adapter(
        "Cohabit", "this project", lambda given: "", _cohabit,
        lambda folder, work: read_cohabit((folder / "out" / "jobs.csv").read_text()), _own_version,
    ),
    Adapter(
        "plain Python", "`benchmarks/plain_easy.py`, the yardstick of `make bench`", lambda given: "", _plain, _pairs,
        lambda given: sys.version.split()[0], "EASY written the plain way: no node identities, nothing to configure",
    ),
    Adapter(
        "AccaSim", "`pip install accasim`; done by this command in a temporary folder",
        lambda given: "" if given.accasim_python else "pip could not install it", _accasim,
        lambda folder, work: read_accasim(next(folder.glob("sched-*")).read_text()), _accasim_version,
        "EBF with first fit, `collections.Mapping` put back for it; by its source, a blocked job keeps the start it "
        "was promised even where nodes come free before, which textbook EASY does not do",
    ),
    Adapter(
        "ScheduleFlow", "its repository anagainaru/ScheduleFlow on GitHub: `--scheduleflow DIR`",
        _folder_missing("scheduleflow", "ScheduleFlow.py"), _scheduleflow, _pairs, _commit("scheduleflow"),
    ),
    Adapter(
        "pyss", "a copy of it on GitHub, such as dinesh121991/pyss: `--pyss DIR`, and a Python 2: `--python2 PROGRAM`",
        _pyss_missing, _pyss, _pairs, _commit("pyss"),
    ),
    Adapter(
        "CQSim", "its repository SPEAR-UIC/CQSim on GitHub: `--cqsim DIR`", _folder_missing("cqsim", "src/cqsim.py"),
        _cqsim, _cqsim_starts, _commit("cqsim"),
    ),
    Adapter(
        "Alea", "its repository aleasimulator/alea on GitHub: `--alea DIR` (the folder with src/ and lib/), and a JDK",
        _alea_missing, _alea, _alea_starts, _commit("alea"),
    ),
)  # fmt: skip


def measure(adapter: Adapter, given: Given, work: Workload, folder: Path, limit_s: float) -> dict[str, Any]:
    """One run; what it took and whether its start times are EASY's."""
    place = folder / f"{adapter.name.replace(' ', '-')}-{len(work.jobs)}"
    place.mkdir()
    try:
        command = adapter.command(given, work, place)
    except subprocess.CalledProcessError as error:
        return {"failed": f"it could not be built: {error.stderr.decode(errors='replace').strip()[-200:]}"}
    run = timed(command, place / "log", limit_s, env=os.environ | {"TZ": "UTC"})
    if run.late:
        return {"failed": f"not done after {run.cpu_s:.0f} CPU s; {run.peak_mb:.0f} MB by then"}
    if run.status:
        return {"failed": f"it ended with {run.status}: {run.output.strip()[-200:]}"}
    try:
        alike = compare(work, adapter.starts(place, work))
    except (OSError, ValueError, KeyError, StopIteration) as error:
        return {"failed": f"its result could not be read: {error!r}"}
    return {
        "wall_s": round(run.wall_s, 2), "cpu_s": round(run.cpu_s, 2), "peak_mb": round(run.peak_mb),
        "jobs_per_cpu_s": round(len(work.jobs) / run.cpu_s, 1), "easy": alike.text,
    }  # fmt: skip
