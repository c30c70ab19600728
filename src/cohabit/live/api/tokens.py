"""Tokens for callers over TCP: made, rotated, revoked, and kept as hashes only, in one file of the place.

A token is ID.SECRET; the file has its sha-256. Several tokens of one user are valid side by side, so that a new one
can be handed out before the old one ends. A token knows the tokens it was made with (`parents`) and those it was
rotated from (`family`): it ends no later than they do, and revoking one of them revokes it. Tokens of pages are in
memory only and end with the server. Nothing here decides what a user may do.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pwd
import secrets
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from cohabit.model.errors import InputError
from cohabit.whole_files import replacing

FIRST_NUMBER = 2**31  # users without an account on this machine are numbered from here
PAGE = "page"  # the label of a page's token
PAGE_S = 12 * 3600.0
MOST_PAGES = 20  # tokens of pages of one user; with one more the oldest ends
ENDED_KEPT_S = 30 * 86400.0  # how long an ended token is still listed
ENDED_MOST = 100  # of one user


class Token(msgspec.Struct, frozen=True):
    """The stored part of a token."""

    id: str
    user: str
    number: int  # the user's uid, or one assigned here
    hash: str  # empty for a page's token, which signs and is not sent
    label: str
    made_at: float
    expires_at: float
    revoked_at: float | None = None
    family: str = ""  # the first token of those it was rotated from; empty: it was not rotated
    parents: tuple[str, ...] = ()  # families of the tokens it was made with; none: it was made over the socket
    page: bool = False

    def valid(self, now: float) -> bool:
        """Return whether the token is valid."""
        return self.revoked_at is None and now < self.expires_at

    @property
    def line(self) -> str:
        """The family; a token that was not rotated is the first of its own."""
        return self.family or self.id


class Made(NamedTuple):
    """A new token; the secret is stored nowhere else."""

    kept: Token
    secret: str


class Tokens:
    """All tokens of one place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            content = path.read_bytes() if path.exists() else b"[]"
            kept = msgspec.json.decode(content, type=list[Token])
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(
                f"the tokens cannot be read: {error}", str(path), "restore the file or remove it"
            ) from None
        self._tokens = {one.id: one for one in kept if not _of_a_page(one)}
        self._pages: dict[str, Token] = {}

    def add(self, user: str, label: str, expires_in_s: float, parent: Token | None = None) -> Made:
        """Make a token for a user; one made with another token ends no later than that."""
        return self._add(self._new(user, label, time.time() + expires_in_s, parent))

    def rotate(self, token_id: str, overlap_s: float, parent: Token | None = None) -> Made | None:
        """Replace a token: the new one ends when the old one would have ended; the old one stays valid for a while.
        None: there is no such valid token."""
        old, now = self._tokens.get(token_id), time.time()
        if old is None or not old.valid(now):
            return None
        new = self._new(old.user, old.label, old.expires_at, parent)
        parents = tuple(dict.fromkeys((*old.parents, *new.parents)))
        ending = msgspec.structs.replace(old, expires_at=min(old.expires_at, now + overlap_s))
        return self._add(msgspec.structs.replace(new, family=old.line, parents=parents), ending)

    def add_page(self, user: str, number: int, parent: Token | None = None) -> Token:
        """Make a token for a page; it is forgotten when the server ends."""
        now = time.time()
        own = [one for one in self._pages.values() if one.number == number]
        for one in own[: max(len(own) - MOST_PAGES + 1, 0)]:
            del self._pages[one.id]
        for one in list(self._pages.values()):
            if one.expires_at < now:
                del self._pages[one.id]
        new = self._new(user, PAGE, now + PAGE_S, parent)
        self._pages[new.id] = msgspec.structs.replace(new, number=number, page=True)
        return self._pages[new.id]

    def revoke(self, token_id: str) -> Token | None:
        """Revoke a token and all tokens that were rotated from it or made with it."""
        old, now = self.get(token_id), time.time()
        if old is None:
            return None
        gone = {one.id for one in self._descendants(old) if one.revoked_at is None}
        ended = {name: msgspec.structs.replace(self._known(name), revoked_at=now) for name in gone}
        self._pages |= {name: one for name, one in ended.items() if one.page}
        kept = {name: one for name, one in ended.items() if not one.page}
        if kept:
            self._tokens |= kept  # the tokens are revoked even if the write fails
            self._keep(self._tokens)
        return self.get(token_id)

    def all(self) -> list[Token]:
        """Return all tokens in the order they were made."""
        return sorted((*self._tokens.values(), *self._pages.values()), key=lambda one: one.made_at)

    def get(self, token_id: str) -> Token | None:
        """Return a token by its ID."""
        return self._tokens.get(token_id) or self._pages.get(token_id)

    def valid(self, token_id: str) -> bool:
        """Return whether a token is valid."""
        found = self.get(token_id)
        return found is not None and found.valid(time.time())

    def held_by(self, user: str) -> int:
        """Return how many tokens of a user are valid, without those of pages."""
        now = time.time()
        return sum(one.user == user and one.valid(now) for one in self._tokens.values())

    def check(self, text: str) -> Token | None:
        """Return the token with this text; None: it is unknown or no longer valid."""
        kept = self._tokens.get(text.partition(".")[0])
        expected = kept.hash if kept is not None else hash_of("")  # the same work whether or not the ID exists
        right = hmac.compare_digest(hash_of(text), expected)
        return kept if kept is not None and right and kept.valid(time.time()) else None

    def number_of(self, user: str) -> int:
        """Return the uid of an account of this machine; else a number assigned here that the user keeps."""
        known = next((one.number for one in self._tokens.values() if one.user == user), None)
        if known is not None:
            return known
        try:
            return pwd.getpwnam(user).pw_uid
        except KeyError:
            used = [one.number for one in self._tokens.values() if one.number >= FIRST_NUMBER]
            return max(used, default=FIRST_NUMBER - 1) + 1

    def name_of(self, number: int) -> str | None:
        """Return the user with this number, among the users with tokens."""
        return next((one.user for one in self._tokens.values() if one.number == number), None)

    def _known(self, token_id: str) -> Token:
        found = self.get(token_id)
        assert found is not None
        return found

    def _new(self, user: str, label: str, expires_at: float, parent: Token | None) -> Token:
        parents = () if parent is None else tuple(dict.fromkeys((*parent.parents, parent.line)))
        end = expires_at if parent is None else min(expires_at, parent.expires_at)
        return Token(secrets.token_hex(6), user, self.number_of(user), "", label, time.time(), end, parents=parents)

    def _add(self, new: Token, *changed: Token) -> Made:
        text = f"{new.id}.{secrets.token_urlsafe(32)}"
        kept = msgspec.structs.replace(new, hash=hash_of(text))
        self._keep({**self._tokens, **{one.id: one for one in changed}, kept.id: kept})
        return Made(kept, text)

    def _descendants(self, first: Token) -> list[Token]:
        """Return the token, those rotated from it later, and all tokens made with any of these."""
        found = [one for one in self.all() if one.line == first.line and one.made_at >= first.made_at]
        lines: set[str] = set()
        while new := {one.line for one in found} - lines:
            lines |= new
            found += [one for one in self.all() if not new.isdisjoint(one.parents)]
        return found

    def _keep(self, tokens: dict[str, Token]) -> None:
        tokens = _without_old(tokens, time.time())
        with replacing(self._path) as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(msgspec.json.format(msgspec.json.encode(list(tokens.values())), indent=1))
            stream.flush()
            os.fsync(stream.fileno())
        self._tokens = tokens


def hash_of(text: str) -> str:
    """Return the hash of a token's text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _of_a_page(token: Token) -> bool:
    """Return whether this is a page's token. Earlier versions stored these; they were to end with the server."""
    return token.page or (token.label == PAGE and token.expires_at - token.made_at <= PAGE_S + 1)


def _without_old(tokens: dict[str, Token], now: float) -> dict[str, Token]:
    """Drop tokens that ended long ago. A user without an account keeps one: it records the user's number."""
    used = Counter(one.user for one in tokens.values() if one.valid(now))
    ended = Counter[str]()
    gone: set[str] = set()
    for one in sorted((one for one in tokens.values() if not one.valid(now)), key=_ended_at, reverse=True):
        ended[one.user] += 1
        old = ended[one.user] > ENDED_MOST or now - _ended_at(one) > ENDED_KEPT_S
        last = one.number >= FIRST_NUMBER and not used[one.user] and ended[one.user] == 1
        if old and not last:
            gone.add(one.id)
    return {name: one for name, one in tokens.items() if name not in gone}


def _ended_at(token: Token) -> float:
    return token.expires_at if token.revoked_at is None else min(token.revoked_at, token.expires_at)
