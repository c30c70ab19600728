"""What is kept of tokens, refusals and slots, without a server: parents, ends, what is forgotten, how much is kept."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.live.api import audit as audit_module
from cohabit.live.api import tokens as tokens_module
from cohabit.live.api.audit import Audit, Refused
from cohabit.live.api.tokens import FIRST_NUMBER, Token, Tokens
from cohabit.live.controller.slots import Held, Slots

DAY_S = 86400.0


def kept(path: Path, *tokens: Token) -> Tokens:
    path.write_bytes(msgspec.json.encode(tokens))
    return Tokens(path)


def token(name: str, user: str, made_s: float, ends_s: float, **others: object) -> Token:
    """Seconds from now."""
    now = time.time()
    return Token(name, user, 1000, "", "", now + made_s, now + ends_s, **others)  # type: ignore[arg-type]


def test_files_of_earlier_versions_are_read_without_their_tokens_of_pages(tmp_path: Path) -> None:
    now = time.time()
    old = [{"id": name, "user": "ann", "number": 1000, "hash": "", "label": label, "made_at": now - 60,
            "expires_at": now - 60 + life_s} for name, label, life_s in
           (("aa", "page", 12 * 3600), ("bb", "page", 90 * DAY_S), ("cc", "laptop", 12 * 3600))]  # fmt: skip
    path = tmp_path / "tokens.json"
    path.write_bytes(msgspec.json.encode(old))
    tokens = Tokens(path)
    assert [one.id for one in tokens.all()] == ["bb", "cc"]
    assert (tokens.all()[0].parents, tokens.all()[0].line) == ((), "bb")


def test_tokens_that_ended_long_ago_are_forgotten(tmp_path: Path) -> None:
    tokens = kept(
        tmp_path / "tokens.json", token("aa", "ann", -90 * DAY_S, -31 * DAY_S), token("bb", "ann", -90 * DAY_S, -DAY_S),
        token("cc", "ann", -90 * DAY_S, DAY_S, revoked_at=time.time() - 31 * DAY_S),
    )  # fmt: skip
    new = tokens.add("ann", "", 60.0).kept
    assert {one.id for one in Tokens(tmp_path / "tokens.json").all()} == {"bb", new.id}


def test_no_more_than_so_many_that_have_ended_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "ENDED_MOST", 5)
    tokens = Tokens(tmp_path / "tokens.json")
    for _ in range(20):
        tokens.revoke(tokens.add("ann", "", 60.0).kept.id)
    assert len(tokens.all()) == 5
    assert tokens.held_by("ann") == 0


def test_the_number_of_a_user_without_an_account_is_never_given_to_another(tmp_path: Path) -> None:
    old = token("aa", "guest-one", -90 * DAY_S, -40 * DAY_S)
    tokens = kept(tmp_path / "tokens.json", msgspec.structs.replace(old, number=FIRST_NUMBER))
    assert tokens.add("guest-two", "", 60.0).kept.number == FIRST_NUMBER + 1
    assert tokens.add("guest-one", "", 60.0).kept.number == FIRST_NUMBER


def test_tokens_of_pages_are_in_no_file_and_the_oldest_of_too_many_ends(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    first, other = tokens.add_page("ann", 1000), tokens.add_page("bob", 1001)
    pages = [tokens.add_page("ann", 1000) for _ in range(tokens_module.MOST_PAGES)]
    assert not tokens.valid(first.id)
    assert all(tokens.valid(one.id) for one in (*pages, other))
    assert not (tmp_path / "tokens.json").exists()
    assert (tokens.rotate(other.id, 60.0), tokens.check(f"{other.id}.")) == (None, None)


STEPS = st.tuples(st.sampled_from(["add", "rotate", "page"]), st.integers(0, 30), st.integers(-1, 30))


@given(st.lists(STEPS, max_size=25), st.integers(0, 30))
def test_nothing_outlives_its_parents_and_revoking_takes_all(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], revoked: int
) -> None:
    """Any tree of tokens; its shape is kept beside it."""
    tokens = Tokens(tmp_path_factory.mktemp("tokens") / "tokens.json")
    made = [tokens.add("ann", "", 1000.0).kept]
    from_: dict[str, set[str]] = {made[0].id: set()}
    ends = {made[0].id: made[0].expires_at}
    for what, which, with_ in steps:
        parent = made[with_ % len(made)] if with_ >= 0 else None
        if parent is not None and parent.page:
            continue
        old = made[which % len(made)]
        origins = {parent.id} if parent is not None else set()
        if what == "rotate":
            result = None if old.page else tokens.rotate(old.id, 500.0, tokens.get(parent.id) if parent else None)
            if result is None:
                continue
            new, origins = result.kept, origins | {old.id}
        elif what == "page":
            new = tokens.add_page("ann", 1000, tokens.get(parent.id) if parent else None)
        else:
            new = tokens.add("ann", "", 2000.0 if parent else 1000.0, tokens.get(parent.id) if parent else None).kept
        assert all(new.expires_at <= ends[one] for one in origins)
        made.append(new)
        from_[new.id], ends[new.id] = origins, new.expires_at
    target = made[revoked % len(made)]
    gone = {target.id}
    while more := {name for name, origins in from_.items() if name not in gone and origins & gone}:
        gone |= more
    tokens.revoke(target.id)
    assert not [name for name in gone if tokens.valid(name)]


# ---- slots ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=200))
def test_slots_are_bounded_and_some_are_kept(steps: list[tuple[int, bool, bool]]) -> None:
    slots, held = Slots(most=10, each=3, kept=2), dict.fromkeys(range(5), 0)
    for holder, favoured, leaves in steps:
        if leaves:
            if held[holder]:
                slots.leave(holder)
                held[holder] -= 1
            continue
        total = sum(held.values())
        fits = total < 10 if favoured else total < 8 and held[holder] < 3
        assert slots.take(holder, favoured) == fits
        held[holder] += fits
        assert slots._held[holder] == held[holder]


def test_a_slot_moves_to_who_has_proved_who_it_is() -> None:
    strangers, known, held = Slots(2, 1), Slots(1, 1), Held()
    assert held.move(strangers, "address")
    assert not Held().move(strangers, "address")
    assert held.move(known, "ann")
    assert Held().move(strangers, "address")
    assert held.move(known, "ann")
    assert not Held().move(known, "bob")
    held.leave()
    held.leave()
    assert Held().move(known, "bob")


# ---- the audit log --------------------------------------------------------------------------------------------------


def test_the_audit_log_is_bounded_and_read_across_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "FILE_BYTES", 2000)
    monkeypatch.setattr(audit_module, "OLD_FILES", 3)

    async def scene() -> None:
        audit = Audit(tmp_path / "audit.jsonl")
        for number in range(200):
            await audit.note("ann", "user", "here", "submit", str(number), 201)
        names = {one.name for one in tmp_path.iterdir()}
        assert names == {"audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"}
        assert all(one.stat().st_size < 2300 for one in tmp_path.iterdir())
        found = [int(one["about"]) for one in await audit.newest(30)]
        assert found == list(range(199, 169, -1))

    asyncio.run(scene())


def test_origins_beyond_a_number_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MOST_ORIGINS", 3)

    async def scene() -> None:
        audit = Audit(tmp_path / "audit.jsonl")
        for number in range(500):
            audit.refuse(Refused(f"2001:db8::{number:x}", "GET", "/v1/ping", 401, "no token\ud800"))
        audit.close()
        found = await audit.newest(1000)
        assert len(found) == 3 + 30 + 1
        assert (found[0]["from"], found[0]["said"]) == ("other origins", "467 more refusals within a minute")

    asyncio.run(scene())
