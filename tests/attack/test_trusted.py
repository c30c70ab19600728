"""Files that root would execute, load or obey, laid out by an ordinary account."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cohabit import kept_code
from cohabit.trusted import doubt_of
from tests.attack.accounts import Account, act_as, shell

SCENARIO = '[cluster]\nnodes = 4\n[jobs]\ngenerator = "poisson"\njobs = 20\nload = 1.0\n'
ORDER = "def scores(jobs, rows, now_us):\n    return jobs.nodes[rows] * 1.0\n"


def run(*command: object, umask: int = -1, **environment: str) -> subprocess.CompletedProcess[str]:
    """By root; without the caches that the tests' own environment names."""
    kept = {key: value for key, value in os.environ.items() if key not in ("COHABIT_CACHE", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300, check=False, cwd="/",
        env=kept | environment, umask=umask,
    )  # fmt: skip


def cohabit(*words: object) -> subprocess.CompletedProcess[str]:
    """A verb, typed by root."""
    return run("-m", "cohabit.cli", *words)


def refused(done: subprocess.CompletedProcess[str], *said: str) -> bool:
    """In one sentence that says these words."""
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert all(word in done.stderr for word in said), done.stderr
    return True


@pytest.fixture
def proof(folder: Path) -> Path:
    """A file that only what the attacker wrote would make, as root."""
    return folder / "proof"


def orders(proof: Path) -> str:
    """A site file that has root touch it."""
    return f'place = "."\n[[job]]\nname = "x"\ncommand = ["/bin/touch", "{proof}"]\nlimit = "1m"\n'


def test_a_strangers_site_file_is_not_obeyed(ann: Account, proof: Path) -> None:
    shell(ann, f"mkdir -p ~/x && cat > ~/x/site.toml <<'EOF'\n{orders(proof)}EOF\n")
    assert refused(cohabit("up", "--until-idle", "--place", ann.home / "x"), "belongs to user cohabit-ann")
    assert refused(cohabit("controller", "--until-idle", ann.home / "x" / "site.toml"), "is not obeyed", "cohabit-ann")
    assert refused(cohabit("slurm", "status", ann.home / "x" / "site.toml"), "is not obeyed", "cohabit-ann")
    assert [path.name for path in (ann.home / "x").iterdir()] == ["site.toml"]
    assert not proof.exists()


def test_roots_own_site_file_in_a_strangers_folder_is_not_obeyed(ann: Account, folder: Path, proof: Path) -> None:
    """Who owns a folder can replace every file in it."""
    theirs, site = folder / "theirs", folder / "theirs" / "site.toml"
    theirs.mkdir()
    site.write_text(orders(proof))
    os.chown(theirs, ann.uid, ann.gid)
    assert refused(cohabit("controller", "--until-idle", site), "on the way to it, belongs to user cohabit-ann")
    link = folder / "link.toml"
    link.symlink_to(site)
    assert refused(cohabit("controller", "--until-idle", link), "on the way to it, belongs to user cohabit-ann")
    assert not proof.exists()


def test_a_place_in_which_a_group_may_write_is_refused(ann: Account, folder: Path) -> None:
    place = folder / "place"
    place.mkdir()
    os.chown(place, 0, ann.gid)
    place.chmod(0o775)
    assert refused(cohabit("up", "--place", place), "group cohabit-ann may write to it", "chmod g-w")
    assert list(place.iterdir()) == []


def test_a_place_below_a_folder_that_others_may_write_to_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    words = "on the way to it, is open: every account may write to it"
    assert refused(cohabit("up", "--place", folder / "place"), words)
    assert not (folder / "place").exists()
    folder.chmod(0o1777)  # as /tmp is
    assert cohabit("up", "--until-idle", "--place", folder / "place").returncode == 0


def test_an_order_of_another_account_is_not_executed(ann: Account, folder: Path, proof: Path) -> None:
    scenario, order = folder / "s.toml", ann.home / "order.py"
    scenario.write_text(SCENARIO)
    shell(ann, f"cat > ~/order.py <<'EOF'\nopen({str(proof)!r}, 'w')\n{ORDER}EOF\n")
    assert refused(cohabit("simulate", scenario, "--order", order), "is not executed", "belongs to user cohabit-ann")
    assert not proof.exists()


def test_bytecode_that_somebody_laid_beside_an_order_is_not_executed(ann: Account, folder: Path, proof: Path) -> None:
    """In /tmp anybody can make the folder __pycache__ before Python does."""
    folder.chmod(0o1777)
    scenario, order = folder / "s.toml", folder / "order.py"
    scenario.write_text(SCENARIO)
    order.write_text(ORDER)
    found = order.stat()
    code = compile(f"open({str(proof)!r}, 'w')\n{ORDER}", str(order), "exec")
    from importlib._bootstrap_external import _code_to_timestamp_pyc  # type: ignore[import-not-found]

    content = bytes(_code_to_timestamp_pyc(code, int(found.st_mtime), found.st_size))

    def plant() -> None:
        pyc = Path(importlib.util.cache_from_source(str(order)))
        pyc.parent.mkdir()
        pyc.write_bytes(content)

    act_as(ann, plant)
    done = cohabit("simulate", scenario, "--order", order)
    assert done.returncode == 0, done.stderr
    assert not proof.exists()


def planted(proof: Path) -> bytes:
    """Read by pickle, as numba reads an index, it touches a file."""
    return f"cos\nsystem\n(S'touch {proof}'\ntR.".encode()


COMPILE = "from cohabit.orders.power import power; power(2.0, 3.0)"


@pytest.mark.parametrize("how", ["everybody writes", "of another", "one file"])
def test_machine_code_that_others_may_change_is_not_loaded(ann: Account, folder: Path, proof: Path, how: str) -> None:
    cache = folder / "cache"
    first = run("-c", COMPILE, COHABIT_CACHE=str(cache))
    assert (first.returncode, first.stderr) == (0, "")
    indices = list(cache.rglob("*.nbi"))
    assert indices
    if how == "everybody writes":
        for one in (cache, *cache.rglob("*")):
            one.chmod(0o777)
        act_as(ann, lambda: [one.write_bytes(planted(proof)) for one in indices])
    else:
        for one in indices:
            one.write_bytes(planted(proof))
            os.chown(one, ann.uid, ann.gid)
        if how == "of another":
            os.chown(cache, ann.uid, ann.gid)
    again = run("-c", COMPILE, COHABIT_CACHE=str(cache))
    assert again.returncode == 0
    assert not proof.exists()
    assert again.stderr.startswith("cohabit: machine code is not kept in ")
    assert again.stderr.count("\n") == 1


def test_accounts_share_roots_machine_code_and_cannot_change_it(ann: Account, folder: Path) -> None:
    def uses_it() -> bool:
        for name in ("COHABIT_CACHE", "XDG_CACHE_HOME"):
            os.environ.pop(name, None)
        kept_code.SHARED = folder
        return kept_code._kernels() == str(kept_code._in(folder))

    made = run("-c", COMPILE, COHABIT_CACHE=str(folder), umask=0)
    assert made.returncode == 0, made.stderr
    shared = next((folder / "cohabit" / "kernels").iterdir())
    modes = {stat_of(one) for one in (shared, *shared.rglob("*"))}
    assert modes <= {(0, 0o40755), (0, 0o100644)}
    assert act_as(ann, uses_it)
    shared.chmod(0o777)
    assert not act_as(ann, uses_it)


def stat_of(path: Path) -> tuple[int, int]:
    """Its owner and mode."""
    found = path.stat()
    return found.st_uid, found.st_mode


def test_a_process_that_gives_up_roots_rights_still_compiles(ann: Account, folder: Path) -> None:
    code = f"""
import os
from cohabit import compiled
from cohabit.orders.power import power
power(2.0, 3.0)  # numba is loaded: Python may lie where the account cannot read
os.setgroups([]); os.setresgid({ann.gid}, {ann.gid}, {ann.gid}); os.setresuid({ann.uid}, {ann.uid}, {ann.uid})
import numpy as np
from cohabit.core.columns import JOB_COLUMNS, NODES, columns_of
entry = compiled.compile_order("somebody", "def score_one(jobs, row, now_us):\\n    return jobs.nodes[row] * 2.0", 0)
jobs = np.zeros((JOB_COLUMNS, 3), np.int64)
jobs[NODES] = 1, 2, 4
print(entry.scores(columns_of(jobs, np.zeros((2, 2))), np.arange(3), 0, ()).tolist())
"""
    done = run("-c", code, COHABIT_CACHE=str(folder / "cache"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2.0, 4.0, 8.0]\n", "")


def test_files_of_ones_own_are_trusted_also_with_a_private_group(ann: Account, bob: Account, folder: Path) -> None:
    def look() -> list[object]:
        os.umask(0o002)
        own = ann.home / "groups"
        own.mkdir(exist_ok=True)
        (own / "site.toml").write_text("")
        return [own.stat().st_mode & 0o777, doubt_of(own / "site.toml"), doubt_of(Path("/etc/passwd"))]

    assert act_as(ann, look) == [0o775, None, None]
    of_bob = folder / "site.toml"
    of_bob.write_text("")
    os.chown(of_bob, ann.uid, bob.gid)
    of_bob.chmod(0o664)
    assert "group cohabit-bob may write to it" in act_as(ann, lambda: doubt_of(of_bob))[0]
