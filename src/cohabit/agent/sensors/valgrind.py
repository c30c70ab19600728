"""Cache and branch counters from valgrind's simulation: on any machine, and the same in every run of the same program.

The program runs once more, some fifty times slower, inside cachegrind, with this machine's cache sizes. Its counts are
mapped to the schema's names; what it does not simulate (cycles, prefetching, the kernel) is not reported.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from cohabit.agent.sensors.source import Offer, Source, Watch
from cohabit.model.errors import InputError

OUT_FILE, LOG_FILE = "cachegrind.out", "valgrind.log"
COUNTERS = (
    "instructions", "branch_instructions", "branch_misses", "cache_references", "cache_misses", "l1_dcache_loads",
    "l1_dcache_load_misses", "l1_dcache_store_misses", "mem_uops_retired_all_loads", "mem_uops_retired_all_stores",
    "mem_load_uops_retired_llc_hit", "mem_load_uops_retired_llc_miss",
)  # fmt: skip
PLAIN_CACHES = {"I1": (32768, 8, 64), "D1": (32768, 8, 64), "LL": (8 << 20, 16, 64)}  # where the host does not say


def cache_geometry(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, tuple[int, int, int]]:
    """Return size, ways and line of the first and last levels, as cachegrind takes them (a power of two of sets)."""
    found, last = dict(PLAIN_CACHES), 0
    for index in sorted(root.glob("index*")):
        try:
            level, kind = int((index / "level").read_text()), (index / "type").read_text().strip()
            size = int((index / "size").read_text().strip().rstrip("K")) * 1024
            ways, line = (int((index / name).read_text()) for name in ("ways_of_associativity", "coherency_line_size"))
        except (OSError, ValueError):
            continue
        if min(size, ways, line) <= 0:
            continue
        sets = 1 << max(0, (size // (ways * line)).bit_length() - 1)
        key = {"Data": "D1", "Instruction": "I1"}.get(kind, "LL") if level == 1 else "LL"
        if key != "LL" or level > last:
            found[key] = (sets * ways * line, ways, line)
            last = max(last, level) if key == "LL" else last
    return found


class Valgrind(Source):
    """The source; `caches` to simulate, by default those of this machine."""

    name = "valgrind"
    slows_down = True

    def __init__(self, caches: Mapping[str, tuple[int, int, int]] | None = None) -> None:
        self.caches = caches

    def offer(self) -> Offer:
        """Check for the tool, which is all it needs."""
        if shutil.which("valgrind") is None:
            return Offer(self.name, False, "valgrind is not installed", "apt-get install valgrind")
        return Offer(self.name, True, "a run of its own, about fifty times slower", "", COUNTERS)

    def prefix(self, folder: Path) -> tuple[str, ...]:
        """Return valgrind's words; every process of the tree writes a file of its own."""
        caches = [
            f"--{name}={size},{ways},{line}"
            for name, (size, ways, line) in sorted((self.caches or cache_geometry()).items())
        ]
        return (
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--branch-sim=yes",
            "--trace-children=yes",
            *caches,
            f"--cachegrind-out-file={folder / OUT_FILE}.%p",
            f"--log-file={folder / LOG_FILE}.%p",
        )

    def watch(self, pid: int, folder: Path) -> Watch:
        """Watch the files; they have no values until the program has ended."""
        return ValgrindWatch(folder)


class ValgrindWatch(Watch):
    """The files of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sample(self) -> Mapping[str, float]:
        """Return nothing: there are no values before the end."""
        return {}

    def stop(self) -> Mapping[str, float]:
        """Return totals over all processes of the tree; if valgrind itself failed, that is the reported reason."""
        for log in sorted(self.folder.glob(f"{LOG_FILE}.*")):
            for line in log.read_text(errors="replace").splitlines():
                if line.startswith("valgrind: "):
                    raise InputError(
                        f"valgrind gave up ({line.removeprefix('valgrind: ').strip()})",
                        "",
                        "use a newer valgrind, or leave it out of the sources",
                    )
        totals: dict[str, float] = {}
        for path in sorted(self.folder.glob(f"{OUT_FILE}.*")):
            for name, value in parse_totals(path.read_text(errors="replace")).items():
                totals[name] = totals.get(name, 0.0) + value
        return totals


def parse_totals(text: str) -> dict[str, float]:
    """Parse our counters from a cachegrind out file; empty if it is incomplete."""
    events: list[str] = []
    counts: list[int] = []
    for line in text.splitlines():
        if line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("summary:"):
            counts = [int(word.replace(",", "")) for word in line.split()[1:]]
    if not events or len(events) != len(counts):
        return {}
    n = dict.fromkeys(("Bc", "Bcm", "Bi", "Bim"), 0) | dict(zip(events, counts, strict=True))
    found = {
        "instructions": n["Ir"],
        "branch_instructions": n["Bc"] + n["Bi"],
        "branch_misses": n["Bcm"] + n["Bim"],
        "cache_references": n["I1mr"] + n["D1mr"] + n["D1mw"],
        "cache_misses": n["ILmr"] + n["DLmr"] + n["DLmw"],
        "l1_dcache_loads": n["Dr"],
        "l1_dcache_load_misses": n["D1mr"],
        "l1_dcache_store_misses": n["D1mw"],
        "mem_uops_retired_all_loads": n["Dr"],
        "mem_uops_retired_all_stores": n["Dw"],
        "mem_load_uops_retired_llc_hit": n["D1mr"] - n["DLmr"],
        "mem_load_uops_retired_llc_miss": n["DLmr"],
    }
    return {name: float(value) for name, value in found.items()}
