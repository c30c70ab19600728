"""Policies against each other with real programs, alternating: medians over rounds with intervals.

    python -m benchmarks.trial                        # this machine, the controller of `cohabit up`
    python -m benchmarks.trial --slurm                # eight Slurm nodes started here (root, Debian's packages)
    python -m benchmarks.trial --slurm --from-nothing --policies sns,cs --jobs 120 --rounds 1
    python -m benchmarks.trial --conf /etc/slurm/slurm.conf --nodes 8 --node-cores 28 --partition test

Every round draws a queue of exercise programs that arrive over time; each policy runs that queue, another one first in
every round. With `--from-nothing` nothing is known before a round, every program comes in one kind, and the figures are
those of the last third of the jobs, when what the others taught can count. On a Slurm of yours give a partition of its
own: the controllers steer every held job there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.trial import judged, work
from benchmarks.trial.here import Here
from benchmarks.trial.slurm import UnderSlurm
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.live.controller.place import Place
from cohabit.model.errors import InputError
from cohabit.store.profiles import open_store
from cohabit.whole_files import replacing

OURS = "cohabit"
POLICIES = (OURS, "cs", "ce-easy")
HERE_PROGRAMS = "stream,dense,sort,remote"
SIX = "remote,sort,branchy,compression,dense,disk"
PRETENDED_PROGRAMS = "remote"  # nodes with more cores than the machine: programs that wait do not slow each other
SLURM_NODES, SLURM_CORES = 8, 4


def note(words: str) -> None:
    """Say what is being done."""
    print(f"trial: {words}", file=sys.stderr, flush=True)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=24, help="in a round")
    parser.add_argument("--seconds", type=float, default=4.0, help="a job of usual length takes alone")
    parser.add_argument("--load", type=float, default=1.5, help="core-seconds that arrive per core-second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", default=",".join(POLICIES), help="bundles, separated by commas")
    parser.add_argument("--programs", default="", help="exercises, separated by commas (`cohabit exercise --list`)")
    parser.add_argument("--nodes", type=int, default=0, help="default: 1 here, 8 under Slurm")
    parser.add_argument("--slurm", action="store_true", help="on Slurm nodes that are started here")
    parser.add_argument("--from-nothing", action="store_true", help="with an empty store; the last third counts")
    parser.add_argument("--conf", default="", help="on the Slurm of this slurm.conf")
    parser.add_argument("--partition", default="", help="of that Slurm")
    parser.add_argument("--node-cores", type=int, default=SLURM_CORES, help="of a Slurm node")
    parser.add_argument("--folder", type=Path, default=None, help="for scripts and logs; all nodes must see it")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="everything, as JSON")
    options = parser.parse_args(words)
    options.policies = options.policies.split(",")
    if options.rounds < 1:
        raise InputError(f"{options.rounds} rounds", "--rounds", "give a positive number")
    for name in options.policies:
        build(config_of(name))  # raises if there is no such policy
    return options


def config_of(name: str) -> PolicyConfig:
    """Return a bundle; ours shares nodes by cores where a program is unknown, as `cohabit up` does."""
    return PolicyConfig(name=name, unknown="cores") if name == OURS else PolicyConfig(name=name)


def place_of(options: argparse.Namespace, folder: Path) -> Here | UnderSlurm:
    """Return where the trial takes place."""
    if options.slurm or options.conf:
        nodes = options.nodes or SLURM_NODES
        given = (options.conf, options.partition, nodes, options.node_cores, note, options.from_nothing)
        return UnderSlurm(folder, *given)
    return Here(folder, options.nodes or 1, note, options.from_nothing)


def taught(place: Path) -> dict[str, list[int]]:
    """Return the scales whose times are in the store of a controller, by program."""
    where = Place(place).profiles
    if not where.exists():
        return {}
    with open_store(where) as store:
        known = store.profiles()
    return {one.program: [scale.scale for scale in one.scales if scale.time_s > 0] for one in known}


def words_of(known: dict[str, list[int]]) -> str:
    """Return what a store knows, for people."""
    return ", ".join(f"{name} (scales {', '.join(map(str, scales))})" for name, scales in known.items()) or "nothing"


def trial(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Run all rounds; return and print what they say."""
    place = place_of(options, folder)
    pretended = isinstance(place, UnderSlurm) and place.pretended
    usual = SIX if options.from_nothing else PRETENDED_PROGRAMS if pretended else HERE_PROGRAMS
    programs = (options.programs or usual).split(",")
    shape = (options.seconds, place.node_cores, place.cores, place.most_copies)
    kinds = work.kinds(programs, *shape, note, options.from_nothing)
    counted = max(options.jobs // 3, 1) if options.from_nothing else options.jobs
    learned: dict[str, dict[str, list[int]]] = {}
    rounds: dict[str, list[judged.Figures]] = {name: [] for name in options.policies}
    with place.prepared(kinds):
        for number in range(options.rounds):
            jobs = work.queue(kinds, options.jobs, place.cores, options.load, options.seed + number)
            first = number % len(options.policies)
            for name in [*options.policies[first:], *options.policies[:first]]:
                label = f"{number + 1}-{name}"
                ran = place.run(label, config_of(name), jobs)
                rounds[name].append(found := judged.figures(ran[-counted:]))
                learned[label] = taught(folder / label / "state" if pretended else folder / label)
                which, turnaround_s = f"round {number + 1} of {options.rounds}", found["mean_turnaround_s"]
                note(
                    f"{which}, {name}: mean turnaround {turnaround_s:.1f} s, all done after {found['makespan_s']:.1f} s"
                )
    print(f"\n{options.jobs} jobs a round of {', '.join(programs)} on {place.words}, load {options.load:g};")
    if options.from_nothing:
        print(f"nothing was known before; figures of the last {counted} jobs; afterwards the stores know")
        print("\n".join(f"  {label}: {words_of(known)}" for label, known in learned.items()))
    print(f"medians of {options.rounds} rounds, in brackets their 95 % intervals\n")
    print("\n".join(judged.lines(rounds, OURS)))
    about = {"place": place.words, "jobs": options.jobs, "programs": programs, "load": options.load, "learned": learned}
    return about | {"seed": options.seed, "seconds": options.seconds} | judged.document(rounds, OURS)


def main(words: Sequence[str] | None = None) -> None:
    """Run the trial; a refusal is one sentence and exit status 2."""
    try:
        options = parse(words)
        with tempfile.TemporaryDirectory(prefix="cohabit-trial-", dir=options.folder) as name:
            os.chmod(name, 0o755)  # the controller's account must pass it if root runs this
            found = trial(options, Path(name))
    except InputError as error:
        note(str(error))
        sys.exit(2)
    if options.json is not None:
        with replacing(options.json) as stream:
            stream.write(json.dumps(found, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
