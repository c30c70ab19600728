"""TLS between controllers, with certificates on both sides: each shows its own and trusts one authority."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from cohabit.model.errors import InputError


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
