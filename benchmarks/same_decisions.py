"""Compare the decisions of two trees: `python -m benchmarks.same_decisions OTHER_TREE`. For changes meant for speed.

Every order of every core is hashed: in simulations of scenarios/ under all bundled policies, in random sequences of
events of the campaign, and in long queues of the benchmark. One line per case; exit 1 if any line differs. It runs with
the tests and benchmarks of this tree; the other tree gives only its package.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.live_passes import MACHINES, Bench
from cohabit.app.scenario.reading import read_scenario
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.simulate import simulation
from cohabit.core.core import SchedulerCore
from cohabit.model.command import Command
from cohabit.model.event import Event
from cohabit.policy.registry import BUNDLES
from tests.campaign import run_case

ROOT = Path(__file__).parent.parent
SHARING = ("caches", "guarantee", "sharing")
WHOLE_NODES = ("maintenance", "memory", "partitions")
Case = tuple[str, Callable[[], object]]


class Listener:
    """Hears every order of every core of this process."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=12)
        self._step = SchedulerCore.step

    def __enter__(self) -> Listener:
        def step(core: SchedulerCore, now_us: int, events: Sequence[Event]) -> list[Command]:
            commands = self._step(core, now_us, events)
            self._digest.update(now_us.to_bytes(8, "little", signed=True) + msgspec.msgpack.encode(commands))
            return commands

        SchedulerCore.step = step  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *_: object) -> None:
        SchedulerCore.step = self._step  # type: ignore[method-assign]

    def heard(self) -> str:
        """All of it so far."""
        return self._digest.hexdigest()


def simulated(name: str, policy: str) -> str:
    """The journal of a scenario under another bundled policy."""
    scenario = read_scenario(ROOT / "scenarios" / f"{name}.toml")
    alpha = scenario.policy.alpha if policy in ("sns", "sns-guarantee", "shepherd") else None
    scenario = msgspec.structs.replace(scenario, policy=PolicyConfig(name=policy, alpha=alpha))
    return simulation.run(simulation.prepare(scenario), engine="steps")[1].hash()


def cases(quick: bool) -> Iterator[Case]:
    """Everything that is compared."""
    plain = [name for name in BUNDLES if not name.startswith("cosched")]
    for policy in plain:
        for name in SHARING + WHOLE_NODES:
            yield f"scenario {name} under {policy}", lambda name=name, policy=policy: simulated(name, policy)  # type: ignore[misc]
    for number in range(160 if quick else 1200):
        if number % 2 == 0 or number % 4 == 3:
            yield f"campaign case {number}", lambda number=number: run_case(8, number)  # type: ignore[misc]
    for policy in BUNDLES:
        for machine in MACHINES:
            if quick and machine == "cluster":
                continue
            yield (
                f"queue of {policy} on {machine}",
                lambda policy=policy, machine=machine: Bench(policy, machine).measure(2000, 150) and None,  # type: ignore[misc]
            )


def tell(quick: bool) -> None:
    """A line per case."""
    for name, run in cases(quick):
        with Listener() as listener:
            try:
                found = run()
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
        print(f"{name}\t{listener.heard()}\t{str(found)[:200]}", flush=True)


def told_by(tree: Path, quick: bool) -> subprocess.Popen[str]:
    """The same with the package of that tree."""
    environment = os.environ | {"PYTHONPATH": f"{tree.resolve() / 'src'}:{ROOT}"}
    arguments = [sys.executable, "-m", "benchmarks.same_decisions", "--tell", *(["--quick"] if quick else [])]
    return subprocess.Popen(arguments, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def main() -> int:
    """Compare; 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_decisions", description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="the other tree")
    parser.add_argument("--quick", action="store_true", help="fewer cases")
    parser.add_argument("--tell", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.tell:
        tell(asked.quick)
        return 0
    if asked.other is None or not (asked.other / "src" / "cohabit").is_dir():
        parser.error("name the other tree: a folder with src/cohabit")
    ours, others = told_by(ROOT, asked.quick), told_by(asked.other, asked.quick)
    assert ours.stdout is not None
    assert others.stdout is not None
    count = differ = 0
    for one, other in zip(ours.stdout, others.stdout, strict=True):
        count += 1
        if one != other:
            differ += 1
            print(f"DIFFERENT\n  here:  {one.rstrip()}\n  there: {other.rstrip()}", flush=True)
    if ours.wait() or others.wait():
        print("one of the two did not come to its end")
        return 1
    print(f"{count} cases, {differ} different")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
