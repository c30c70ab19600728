"""Tokens for callers over TCP: made, rotated, revoked, and kept as hashes only, in one file of the place.

A token is ID.SECRET; the file has its sha-256. Several tokens of one user are valid side by side, so that a new one
can be handed out before the old one ends. Nothing here decides what a user may do.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pwd
import secrets
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from cohabit.model.errors import InputError
from cohabit.whole_files import replacing

FIRST_NUMBER = 2**31  # users without an account on this machine are numbered from here


class Token(msgspec.Struct, frozen=True):
    """What is kept of a token."""

    id: str
    user: str
    number: int  # the user's uid, or one of ours
    hash: str
    label: str
    made_at: float
    expires_at: float
    revoked_at: float | None = None

    def valid(self, now: float) -> bool:
        """Whether it still opens the door."""
        return self.revoked_at is None and now < self.expires_at


class Made(NamedTuple):
    """A new token; the secret is nowhere else."""

    kept: Token
    secret: str


class Tokens:
    """All tokens of one place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            content = path.read_bytes() if path.exists() else b"[]"
            self._tokens = {one.id: one for one in msgspec.json.decode(content, type=list[Token])}
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(
                f"the tokens cannot be read: {error}", str(path), "restore the file or remove it"
            ) from None

    def add(self, user: str, label: str, expires_in_s: float) -> Made:
        """A new token for a user."""
        name, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), time.time()
        text = f"{name}.{secret}"
        kept = Token(name, user, self.number_of(user), _hash(text), label, now, now + expires_in_s)
        self._keep({**self._tokens, name: kept})
        return Made(kept, text)

    def rotate(self, token_id: str, overlap_s: float) -> Made | None:
        """A new one like the old one, which goes on for a while; None: there is no such valid token."""
        old, now = self._tokens.get(token_id), time.time()
        if old is None or not old.valid(now):
            return None
        made = self.add(old.user, old.label, old.expires_at - old.made_at)
        ending = msgspec.structs.replace(old, expires_at=min(old.expires_at, now + overlap_s))
        self._keep({**self._tokens, old.id: ending})
        return made

    def revoke(self, token_id: str) -> Token | None:
        """It opens nothing any more."""
        old = self._tokens.get(token_id)
        if old is None or old.revoked_at is not None:
            return old
        gone = msgspec.structs.replace(old, revoked_at=time.time())
        self._keep({**self._tokens, old.id: gone})
        return gone

    def all(self) -> list[Token]:
        """In the order they were made."""
        return sorted(self._tokens.values(), key=lambda one: one.made_at)

    def get(self, token_id: str) -> Token | None:
        """One of them."""
        return self._tokens.get(token_id)

    def check(self, text: str) -> Token | None:
        """Whose token this is; None: nobody's, or not any more."""
        kept = self._tokens.get(text.partition(".")[0])
        expected = kept.hash if kept is not None else _hash("")  # the same work whether or not the ID exists
        right = hmac.compare_digest(_hash(text), expected)
        return kept if kept is not None and right and kept.valid(time.time()) else None

    def number_of(self, user: str) -> int:
        """The uid of an account of this machine; else a number of ours that stays the user's."""
        known = next((one.number for one in self._tokens.values() if one.user == user), None)
        if known is not None:
            return known
        try:
            return pwd.getpwnam(user).pw_uid
        except KeyError:
            used = [one.number for one in self._tokens.values() if one.number >= FIRST_NUMBER]
            return max(used, default=FIRST_NUMBER - 1) + 1

    def name_of(self, number: int) -> str | None:
        """The user who has this number among those with tokens."""
        return next((one.user for one in self._tokens.values() if one.number == number), None)

    def _keep(self, tokens: dict[str, Token]) -> None:
        with replacing(self._path) as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(msgspec.json.format(msgspec.json.encode(list(tokens.values())), indent=1))
            stream.flush()
            os.fsync(stream.fileno())
        self._tokens = tokens


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
