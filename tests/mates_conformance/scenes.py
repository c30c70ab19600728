"""The figures and algorithms of the coscheduling paper (ICPP 2011) as scenes, each with its answer worked out by hand.

Times are seconds. `LEAD` passes between the last vote and the start; a job that has lost its mates starts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.mates_conformance.scene import Domain, Job, Scene, Terms, Trouble, Window

LEAD = 0.2
USUAL, WATCHED = Terms(), Terms(overlap_s=-1.0, ask_s=10.0)


def figure_2(*, report: str, release_s: float) -> tuple[tuple[Domain, ...], tuple[Job, ...]]:
    """Two domains of ten nodes. a1 holds six of alpha's and waits for b1, b2 holds six of beta's and waits for a2."""
    domains = tuple(Domain(name, 10, on_deadlock=report, release_s=release_s) for name in ("alpha", "beta"))
    jobs = (
        Job("a1", "alpha", 0.0, 6, 600.0, 900.0, "one"),
        Job("b2", "beta", 1.0, 6, 600.0, 900.0, "two"),
        Job("a2", "alpha", 10.0, 6, 600.0, 900.0, "two"),
        Job("b1", "beta", 11.0, 6, 600.0, 900.0, "one"),
    )
    return domains, jobs


def deadlocks() -> Iterator[Scene]:
    """Figure 2 with and without a release."""
    first, second = 11.0 + LEAD, 611.0 + 2 * LEAD
    starts: dict[str, float | None] = {"a1": first, "b1": first, "a2": second, "b2": second}
    yield Scene("figure 2", *figure_2(report="release", release_s=1200.0), starts=starts, deadlock=True)
    # alpha releases at 1200: a2, whose mate holds nodes, goes first, and a1 last
    first, second = 1200.0 + LEAD, 1800.0 + 2 * LEAD
    starts = {"a2": first, "b2": first, "a1": second, "b1": second}
    reported, published = (figure_2(report=report, release_s=1200.0) for report in ("report", "ignore"))
    yield Scene("figure 2, periodic release", *reported, starts=starts, deadlock=True)
    yield Scene("figure 2, as published", *published, starts=starts, deadlock=False)
    never: dict[str, float | None] = dict.fromkeys(("a1", "a2", "b1", "b2"))
    yield Scene(
        "figure 2, no release", *figure_2(report="report", release_s=0.0), starts=never, deadlock=True, until_s=20_000.0
    )
    yield Scene(
        "a ring of three",
        tuple(Domain(name, 8) for name in ("alpha", "beta", "gamma")),
        (
            Job("a1", "alpha", 0.0, 8, 100.0, 100.0, "ab"),
            Job("b1", "beta", 1.0, 8, 100.0, 100.0, "bc"),
            Job("c1", "gamma", 2.0, 8, 100.0, 100.0, "ca"),
            Job("b2", "beta", 10.0, 8, 100.0, 100.0, "ab"),
            Job("c2", "gamma", 11.0, 8, 100.0, 100.0, "bc"),
            Job("a2", "alpha", 12.0, 8, 100.0, 100.0, "ca"),
        ),
        deadlock=True,
        starts={"a1": 12.0 + LEAD, "b2": 12.0 + LEAD},
    )


def schemes() -> Iterator[Scene]:
    """Algorithm 1 in its four combinations: who is ready first holds, and blocks others, or yields, and does not. First
    alpha is ready, then beta."""
    for alpha in ("hold", "yield"):
        for beta in ("hold", "yield"):
            yield Scene(
                f"{alpha}/{beta}",
                (Domain("alpha", 4, alpha), Domain("beta", 4, beta)),
                (
                    Job("x", "beta", 0.0, 4, 300.0, 300.0),
                    Job("a1", "alpha", 10.0, 2, 100.0, 200.0, "one"),
                    Job("b1", "beta", 20.0, 4, 100.0, 200.0, "one"),
                    Job("c", "alpha", 30.0, 4, 100.0, 100.0),
                    Job("y", "alpha", 2000.0, 4, 300.0, 300.0),
                    Job("b2", "beta", 2010.0, 2, 100.0, 200.0, "two"),
                    Job("a2", "alpha", 2020.0, 4, 100.0, 200.0, "two"),
                    Job("d", "beta", 2030.0, 4, 100.0, 100.0),
                ),
                starts={
                    "a1": 300.0 + LEAD,
                    "b1": 300.0 + LEAD,
                    "c": 400.0 + LEAD if alpha == "hold" else 30.0,
                    "a2": 2300.0 + LEAD,
                    "b2": 2300.0 + LEAD,
                    "d": 2400.0 + LEAD if beta == "hold" else 2030.0,
                },
                deadlock=False,
            )
    agreed = Scene(
        "agree/agree",
        (Domain("alpha", 4, "agree"), Domain("beta", 4, "agree")),
        (
            Job("x", "beta", 0.0, 4, 300.0, 300.0),
            Job("a1", "alpha", 10.0, 2, 100.0, 200.0, "one"),
            Job("b1", "beta", 20.0, 4, 100.0, 200.0, "one"),
            Job("c", "alpha", 30.0, 4, 100.0, 100.0),
        ),
        starts={"a1": 300.0 + LEAD, "b1": 300.0 + LEAD, "c": 30.0},
    )
    yield agreed
    yield replace(agreed, name="agree/agree on shared nodes", policy="cs")
    yield Scene(
        "an unsubmitted mate",
        (Domain("alpha", 4), Domain("beta", 4, "yield")),
        (Job("a1", "alpha", 0.0, 2, 100.0, 200.0, "one"), Job("b1", "beta", 500.0, 2, 100.0, 200.0, "one")),
        starts={"a1": 500.0 + LEAD, "b1": 500.0 + LEAD},
    )
    yield Scene(
        "an unsubmitted mate is not dead",
        (Domain("alpha", 4), Domain("beta", 4)),
        (Job("a1", "alpha", 0.0, 2, 100.0, 200.0, "one"), Job("b1", "beta", 500.0, 2, 100.0, 200.0, "one")),
        terms=Terms(when_dead="start_alone", dead_after_s=180.0),
        starts={"a1": 500.0 + LEAD, "b1": 500.0 + LEAD},
    )
    yield Scene(
        "coscheduling is off in one domain",
        (Domain("alpha", 4), Domain("beta", 4, enabled=False)),
        (
            Job("x", "beta", 0.0, 4, 300.0, 300.0),
            Job("a1", "alpha", 10.0, 2, 500.0, 500.0, "one"),
            Job("b1", "beta", 20.0, 4, 100.0, 200.0, "one"),
        ),
        starts={"a1": 300.0, "b1": 300.0},
    )


def _capped(name: str, domain: Domain, late_s: float, start_s: float) -> Scene:
    """alpha is ready at 10; beta is busy until 1000; c wants all of alpha and comes late."""
    return Scene(
        name,
        (domain, Domain("beta", 4)),
        (
            Job("x", "beta", 0.0, 4, 1000.0, 1000.0),
            Job("a1", "alpha", 10.0, 2, 100.0, 200.0, "one"),
            Job("b1", "beta", 20.0, 2, 100.0, 200.0, "one"),
            Job("s", "alpha", 100.0, 1, 5.0, 5.0),
            Job("c", "alpha", late_s, 4, 100.0, 100.0),
        ),
        starts={"a1": 1000.0 + LEAD, "b1": 1000.0 + LEAD, "c": start_s},
    )


def caps() -> Iterator[Scene]:
    """At most so many yields, at most so many held nodes."""
    unbounded, twice = Domain("alpha", 4, "yield"), Domain("alpha", 4, "yield", max_yields=2)
    yield _capped("yields without a cap", unbounded, 200.0, 200.0)
    # it yields at 10 and at 100, when s comes; at 105, when s has ended, it holds
    yield _capped("yields twice, then holds", twice, 200.0, 1100.0 + LEAD)
    # the third time something happens in its own domain is when c comes
    yield _capped("yields five times", Domain("alpha", 4, "yield", max_yields=5), 600.0, 600.0)
    yield Scene(
        "holds half of its nodes",
        (Domain("alpha", 4, max_held=0.5), Domain("beta", 4)),
        (
            Job("x", "beta", 0.0, 4, 300.0, 300.0),
            Job("a1", "alpha", 10.0, 2, 100.0, 200.0, "one"),
            Job("a2", "alpha", 11.0, 2, 100.0, 200.0, "two"),
            Job("b1", "beta", 20.0, 2, 100.0, 200.0, "one"),
            Job("b2", "beta", 21.0, 2, 100.0, 200.0, "two"),
            Job("c", "alpha", 30.0, 2, 100.0, 100.0),
        ),
        starts=dict.fromkeys(("a1", "a2", "b1", "b2"), 300.0 + LEAD) | {"c": 30.0},
    )
    yield Scene(
        "a hold is released and taken by another job",
        (Domain("alpha", 4, release_s=1200.0), Domain("beta", 4)),
        (
            Job("x", "beta", 0.0, 4, 3000.0, 3000.0),
            Job("a1", "alpha", 10.0, 2, 100.0, 200.0, "one"),
            Job("b1", "beta", 20.0, 4, 100.0, 200.0, "one"),
            Job("c", "alpha", 30.0, 4, 100.0, 100.0),
        ),
        starts={"c": 1200.0, "a1": 3000.0 + LEAD, "b1": 3000.0 + LEAD},
    )
    yield Scene(
        "too young a hold is not released",
        (Domain("alpha", 4, release_s=1200.0), Domain("beta", 4)),
        (
            Job("x", "beta", 0.0, 4, 3000.0, 3000.0),
            Job("a1", "alpha", 700.0, 2, 100.0, 200.0, "one"),
            Job("b1", "beta", 710.0, 4, 100.0, 200.0, "one"),
            Job("c", "alpha", 720.0, 4, 100.0, 100.0),
        ),
        starts={"c": 2400.0, "a1": 3000.0 + LEAD, "b1": 3000.0 + LEAD},
    )


def more() -> Iterator[Scene]:
    """Three domains; starts one after the other; clocks that show something else."""
    yield Scene(
        "three-way",
        (Domain("alpha", 4), Domain("beta", 4, "yield"), Domain("gamma", 4)),
        (
            Job("a1", "alpha", 0.0, 2, 100.0, 200.0, "one"),
            Job("x", "gamma", 1.0, 4, 700.0, 900.0),
            Job("b1", "beta", 50.0, 4, 100.0, 200.0, "one"),
            Job("c1", "gamma", 60.0, 3, 100.0, 200.0, "one"),
            Job("y", "beta", 70.0, 4, 100.0, 100.0),
        ),
        starts=dict.fromkeys(("a1", "b1", "c1"), 701.0 + LEAD) | {"y": 70.0},
    )
    yield Scene(
        "one minute later",
        (Domain("alpha", 4), Domain("beta", 4)),
        (Job("a1", "alpha", 0.0, 2, 300.0, 400.0, "one"), Job("b1", "beta", 50.0, 2, 300.0, 400.0, "one")),
        windows=(Window("alpha", "beta", 60.0, 60.0),),
        starts={"a1": 50.0 + LEAD, "b1": 110.0 + LEAD},
    )
    clocks = (Domain("alpha", 4), Domain("beta", 4, clock_offset_s=-1234.5), Domain("gamma", 4, clock_offset_s=77.0))
    yield Scene(
        "clocks that differ",
        clocks,
        (
            Job("a1", "alpha", 0.0, 2, 100.0, 200.0, "one"),
            Job("x", "gamma", 1.0, 4, 700.0, 900.0),
            Job("b1", "beta", 50.0, 4, 100.0, 200.0, "one"),
            Job("c1", "gamma", 60.0, 3, 100.0, 200.0, "one"),
        ),
        starts=dict.fromkeys(("a1", "b1", "c1"), 701.0 + LEAD),
    )


def _troubled(name: str, trouble: tuple[Trouble, ...], terms: Terms = USUAL, **starts: float | None) -> Scene:
    """a1 holds from 10 on, b1 waits for x until 300; both run for 500 s. c wants all of alpha."""
    return Scene(
        name,
        (Domain("alpha", 4), Domain("beta", 4)),
        (
            Job("x", "beta", 0.0, 4, 300.0, 300.0),
            Job("a1", "alpha", 10.0, 2, 500.0, 900.0, "one"),
            Job("b1", "beta", 20.0, 4, 500.0, 900.0, "one"),
            Job("c", "alpha", 30.0, 4, 100.0, 100.0),
        ),
        trouble=trouble,
        terms=terms,
        starts=starts,
    )


def troubles() -> Iterator[Scene]:
    """A mate that ends early, is cancelled or fails to start; a domain that dies and returns."""
    yield Scene(
        "a mate ends early",
        (Domain("alpha", 4), Domain("beta", 4)),
        (
            Job("a1", "alpha", 10.0, 4, 500.0, 900.0, "one"),
            Job("b1", "beta", 20.0, 4, 30.0, 900.0, "one"),
            Job("c", "alpha", 30.0, 4, 100.0, 100.0),
        ),
        terms=WATCHED,
        starts={"a1": 20.0 + LEAD, "b1": 20.0 + LEAD, "c": 520.0 + LEAD},
    )
    yield Scene(
        "a mate is over before the other is submitted",
        (Domain("alpha", 4), Domain("beta", 4)),
        (Job("b1", "beta", 0.0, 4, 30.0, 900.0, "one"), Job("a1", "alpha", 700.0, 4, 50.0, 900.0, "one")),
        trouble=(Trouble("cancel", "beta", 100.0, "b1"),),
        starts={"a1": 700.0, "b1": None},
    )
    together = 300.0 + LEAD
    cancelled = Trouble("cancel", "beta", 100.0, "b1")
    yield _troubled("a mate is cancelled in its queue", (cancelled,), a1=100.0, b1=None, c=600.0)
    cancelled = Trouble("cancel", "beta", 400.0, "b1")
    both = {"a1": together, "b1": together}
    yield _troubled("a mate is cancelled while it runs", (cancelled,), WATCHED, **both, c=800.0 + LEAD)
    # a1 is stopped with it; no nodes for b1 for a minute after the refusal
    refused = Trouble("refuse", "beta", 0.0, "b1")
    again = 360.0 + 2 * LEAD
    yield _troubled("a mate fails to start", (refused,), WATCHED, a1=again, b1=again)
    dead = Trouble("dead", "beta", 100.0, until_s=400.0)
    yield _troubled("a domain dies while a mate waits", (dead,), a1=400.0 + LEAD, b1=400.0 + LEAD)
    # it comes back while alpha still asks for its vote, and again just before that attempt lapses
    for back_s in (563.0, 618.0):
        dead = Trouble("dead", "beta", 100.0, until_s=back_s)
        both_then = dict.fromkeys(("a1", "b1"), back_s + LEAD)
        scene = _troubled(f"a domain comes back into an open attempt at {back_s:g}", (dead,), **both_then)
        yield replace(scene, as_live=True)
    alone = Terms(when_dead="start_alone", dead_after_s=180.0)
    yield _troubled("a domain dies and its mate starts alone", (Trouble("dead", "beta", 100.0, until_s=900.0),), alone)
    dead = Trouble("dead", "beta", 400.0, until_s=500.0)
    yield _troubled("a domain is dead for less than the lease", (dead,), WATCHED, **both)
    dead = Trouble("dead", "beta", 400.0, until_s=700.0)
    yield _troubled("a domain is dead for longer than the lease", (dead,), WATCHED, a1=700.0 + LEAD, b1=700.0 + LEAD)


GROUPS: tuple[Callable[[], Iterator[Scene]], ...] = (deadlocks, schemes, caps, more, troubles)
SCENES = tuple(scene for group in GROUPS for scene in group())
