"""Who decides about a threshold, in any order of comings, goings, deaths and full disks: never open for one alone."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cohabit.live.peers.threshold import MOST_KEPT, Ask, Decider, Round
from cohabit.model.errors import InputError
from tests.breadth import examples

DOMAINS = ("alpha", "beta", "gamma")
ROUNDS = (Round("pair", 1, DOMAINS[:2]), Round("pair", 2, DOMAINS[:2]), Round("trio", 1, DOMAINS))
rounds, runs = st.sampled_from(ROUNDS), st.sampled_from(("a", "b"))


def ask(round_: Round, sender: str, run: str, stands: bool = True) -> Ask:
    return Ask(round_, sender, round_.decider, run, stands)


class Comings(RuleBasedStateMachine):
    """What is true is kept here beside it: who stands where, and what was on the disk before it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: dict[str, int] = {}
        self.full = False
        self.standing: dict[Round, dict[str, str]] = {one: {} for one in ROUNDS}
        self.complete: set[Round] = set()  # all stood there at one moment
        self.decider = Decider("alpha", {}, self.save)

    def save(self, opened: dict[str, int]) -> None:
        if self.full:
            raise InputError("cannot be written: no space left on device")
        self.disk = dict(opened)

    @rule(round_=rounds, domain=st.sampled_from(DOMAINS), run=runs)
    def comes(self, round_: Round, domain: str, run: str) -> None:
        if domain not in round_.members:
            assert self.decider.wrong(ask(round_, domain, run))
            return
        self.standing[round_][domain] = run
        if set(self.standing[round_]) == set(round_.members):
            self.complete.add(round_)
        try:
            opened = self.decider.stand(ask(round_, domain, run))
        except InputError:
            assert self.full
            self.standing[round_].pop(domain)  # it hears that it was not heard
            self.complete.discard(round_)
            return
        assert not opened or round_ in self.complete, "open, and not all of them stand there"
        assert not opened or self.disk.get(round_.group) == round_.number, "told before it was kept"
        if opened:
            self.standing[round_].clear()  # they have begun

    @rule(round_=rounds, domain=st.sampled_from(DOMAINS), run=runs)
    def goes(self, round_: Round, domain: str, run: str) -> None:
        """Who hears that it was not opened can rely on it: nobody is told open before it comes again."""
        if domain not in round_.members:
            return
        opened = self.decider.leave(ask(round_, domain, run, stands=False))
        if self.standing[round_].get(domain) == run:
            del self.standing[round_][domain]
        if not opened:
            self.complete.discard(round_)

    @rule()
    def dies(self) -> None:
        """And comes back: with what is on the disk, and nobody stands there until it comes again."""
        for there in self.standing.values():
            there.clear()
        self.decider = Decider("alpha", self.disk, self.save)

    @rule(full=st.booleans())
    def fills(self, full: bool) -> None:
        self.full = full

    @invariant()
    def never_open_for_some(self) -> None:
        for one in ROUNDS:
            assert not self.decider.is_open(one) or one in self.complete
            assert self.decider.is_open(one) == (self.disk.get(one.group) == one.number)


Comings.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestComings = Comings.TestCase


def test_it_opens_when_all_stand_there() -> None:
    kept: list[dict[str, int]] = []
    decider = Decider("alpha", {}, kept.append)
    trio = ROUNDS[2]
    assert [decider.stand(ask(trio, domain, "a")) for domain in DOMAINS] == [False, False, True]
    assert kept == [{"trio": 1}]
    assert decider.leave(ask(trio, "beta", "a", stands=False)), "who leaves then may begin, as the others do"
    assert not decider.is_open(Round("trio", 2, DOMAINS)), "another attempt is another threshold"


def test_only_the_lowest_of_those_who_take_part_decides() -> None:
    decider = Decider("beta", {}, lambda opened: None)
    assert decider.wrong(ask(ROUNDS[0], "beta", "a"))
    assert decider.wrong(Ask(Round("pair", 1, ()), "beta", "beta", "a", stands=True))
    assert decider.wrong(Ask(Round("pair", 1, ("gamma", "beta")), "gamma", "beta", "a", stands=True))
    assert not decider.wrong(Ask(Round("pair", 1, ("beta", "gamma")), "gamma", "beta", "a", stands=True))


def test_old_openings_are_forgotten() -> None:
    kept: dict[str, int] = {}

    def save(opened: dict[str, int]) -> None:
        kept.clear()
        kept.update(opened)

    decider = Decider("alpha", {f"old{number}": 1 for number in range(MOST_KEPT)}, save)
    assert decider.stand(ask(Round("alone", 1, ("alpha",)), "alpha", "a"))
    assert len(kept) == MOST_KEPT
    assert "old0" not in kept
    assert kept["alone"] == 1
