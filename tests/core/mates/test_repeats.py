"""What tests/mates_conformance found, by itself: repeated tries, refused starts, questions about unknown groups."""

from __future__ import annotations

import msgspec

from cohabit.core.columns import HOLDING, STATE
from cohabit.core.mates.protocol import step
from cohabit.core.mates.state import Heard, MatesState
from cohabit.model.event import StartRefused
from cohabit.model.peer import NEVER, UNSUBMITTED, Status
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND
from cohabit.sim.coupled import CoupledWorlds, Link, fitting_terms
from cohabit.sim.trouble import Trouble
from tests.support.coupled import CoupledCase, DomainCase, build

OFTEN = msgspec.structs.replace(fitting_terms(Link()), ask_us=10 * SECOND, retry_us=30 * SECOND)


def two_domains(a: Scheme, *jobs: tuple[str, int, int, int, int]) -> CoupledWorlds:
    """The first two jobs are mates; messages take no time, and mates are asked every ten seconds."""
    domains = DomainCase("a", 4, a), DomainCase("b", 4, Scheme())
    return build(CoupledCase(domains, jobs, ((0, 1),)), check=True, terms=OFTEN)


def test_only_local_events_count_towards_the_cap_of_yields() -> None:
    """Between 0 and 500 it is tried fifty times, and yields every time: a message may have been lost. It yields for the
    second time when another job comes, and holds when that has ended."""
    cap = Scheme(scheme="yield", most_yields=2, release_us=0)
    worlds = two_domains(cap, ("a", 0, 2, 100, 100), ("b", 5000, 1, 10, 10), ("a", 500, 4, 50, 50))
    worlds.run(until_us=549 * SECOND)
    world = worlds.worlds["a"]
    assert world.outcomes["2"].start_us == 500 * SECOND
    coupled = world.core.state.coupled
    assert coupled is not None
    assert coupled.jobs["0"].yields == 2
    worlds.run(until_us=551 * SECOND)
    assert world.core.state.jobs[STATE, world.core.state.rows["0"]] == HOLDING


def test_a_job_whose_start_was_refused_does_not_pass_for_ready_and_tells_when_it_is() -> None:
    """b:1 may be tried again after a minute: then both start at once, and not at the next attempt for its own sake."""
    worlds = two_domains(Scheme(), ("a", 0, 2, 100, 100), ("b", 5, 2, 100, 100))
    worlds.worlds["b"].suffer(Trouble(refused={"1": 0}))
    told: list[str] = []
    worlds.worlds["b"].observe = lambda now, events, commands: told.extend(
        command.message.phase  # type: ignore[union-attr]
        for command in commands
        if 6 * SECOND < now < 60 * SECOND and isinstance(getattr(command, "message", None), Status)
    )
    worlds.run()
    back_us = StartRefused("1", 1).back_off_us
    starts = [worlds.worlds[domain].outcomes[job].start_us for domain, job in (("a", "0"), ("b", "1"))]
    assert starts == [5 * SECOND + back_us + 1] * 2
    assert told
    assert "ready" not in told


def test_a_question_about_an_unknown_group_is_answered_also_before_there_are_mates_here() -> None:
    asked = Status(group="pair", sender="a", receiver="b", epoch=1, seq=1, phase="ready", asked_us=7)
    (answer,) = step(MatesState("b"), 100, Heard(asked)).messages
    assert isinstance(answer, Status)
    assert (answer.receiver, answer.phase, answer.answers_us) == ("a", UNSUBMITTED, 7)
    strangers = step(MatesState("b", peers=("c",)), 100, Heard(asked))
    assert not strangers.messages
    assert "no peer" in strangers.refused[0]
    assert asked.answers_us == NEVER
