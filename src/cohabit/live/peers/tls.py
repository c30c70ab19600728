"""TLS between controllers, with certificates on both sides: each shows its own and believes one authority."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from cohabit.model.errors import InputError


class Contexts(NamedTuple):
    """What was read from files that only root may be able to read. None: it is not used."""

    client: ssl.SSLContext | None = None  # messages to peers
    server: ssl.SSLContext | None = None  # messages from peers
    api: ssl.SSLContext | None = None  # callers with tokens


def api_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """For callers, who show tokens and no certificate."""
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key, None)


def server_context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """For the listener; a peer without a certificate of the authority is turned away before it can say anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, certificate, key, authority)


def client_context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """For messages to peers; the certificate of the peer must be for the host in its address."""
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
