"""Proofs of identity between domains: secret keys that two of them share, or certificates on both sides (TLS).

A key file has a line "ID HEX" for every key, at least 32 bytes each, and belongs to its owner alone (mode 600). The
first key signs, all of them are accepted: to change a key, add the new one at the end on both sides, then put it first,
then remove the old one. With certificates each domain shows its own and trusts one authority. No network access.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import ssl
import stat
from pathlib import Path
from typing import NamedTuple

from cohabit.model.errors import InputError
from cohabit.model.peer import Message, signed_bytes
from cohabit.trusted import doubt_of

LEAST_BYTES = 32
_FIX = 'write a line "ID HEX" with at least 64 hexadecimal digits for every key'


class PairKeys:
    """The keys of this domain and one peer; `current` is the one it signs with."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        self._keys, self.current = keys, next(iter(keys))

    def sign(self, message: Message) -> str:
        """Return the signature of a message under the current key."""
        return self.seal(signed_bytes(message))

    def seal(self, content: bytes, key_id: str = "") -> str:
        """Return the signature of any other content, under the key a peer has used, or the current one."""
        return hmac.new(self._keys[key_id or self.current], content, hashlib.sha256).hexdigest()

    def sealed(self, content: bytes, key_id: str, signature: str) -> bool:
        """Return whether the content was signed with a key of ours."""
        if key_id not in self._keys or not signature.isascii():
            return False
        return hmac.compare_digest(self.seal(content, key_id), signature)

    def signed(self, message: Message, key_id: str, signature: str) -> bool:
        """Return whether the message was signed with a key of ours."""
        return self.sealed(signed_bytes(message), key_id, signature)


def read_keys(path: Path) -> PairKeys:
    """Read the keys of a file; one that others may read or change is refused."""
    if doubt := doubt_of(path):
        raise InputError(f"the key is not used: {doubt.what}", doubt.where, doubt.fix)
    try:
        with open(path, encoding="ascii") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            lines = [line.split() for line in stream if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise InputError(f"the key cannot be read: {str(reason).lower()}", str(path)) from error
    if stat.S_IMODE(mode) & 0o077:
        raise InputError("others may read the key", str(path), f"chmod 600 {path}")
    keys: dict[str, bytes] = {}
    for line in lines:
        try:
            name, digits = line
            keys[name] = bytes.fromhex(digits)
        except ValueError:
            raise InputError("is not a key file", str(path), _FIX) from None
        if len(keys[name]) < LEAST_BYTES:
            raise InputError(f"key {name} is too short", str(path), _FIX)
    if not keys:
        raise InputError("has no key", str(path), _FIX)
    return PairKeys(keys)


def write_new_key(path: Path) -> None:
    """Write a fresh key to a new file; never replace a file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"the key cannot be written: {reason}", str(path), "choose another name") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(f"1 {secrets.token_hex(LEAST_BYTES)}\n")


# ---- certificates ---------------------------------------------------------------------------------------------------


class Contexts(NamedTuple):
    """TLS contexts read from files that only root may be able to read. None: it is not used."""

    client: ssl.SSLContext | None = None  # messages to peers
    server: ssl.SSLContext | None = None  # messages from peers
    api: ssl.SSLContext | None = None  # callers with tokens


def api_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context for callers, which show tokens and no certificate."""
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key, None)


def server_context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """Return the context for the listener; a peer without a certificate of the authority is refused at once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, certificate, key, authority)


def client_context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """Return the context for messages to peers; a peer's certificate must be for the host in its address."""
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key, authority)


def _loaded(context: ssl.SSLContext, certificate: Path, key: Path, authority: Path | None) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
        if authority is not None:
            context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"certificates cannot be used: {reason}", str(certificate)) from error
    return context
