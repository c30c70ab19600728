"""One server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cohabit.live.api.settings import ApiSettings
from tests.live.api.serving import Server, served


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with a socket, and TCP on loopback."""
    with served(ApiSettings(host="127.0.0.1")) as one:
        yield one
