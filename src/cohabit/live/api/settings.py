"""The settings of the API in the site file: where it listens, its users, and the limits of each user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cohabit.model.errors import InputError
from cohabit.model.job import ACCOUNT_WORDS, is_account

USER, OPERATOR, ADMIN = "user", "operator", "admin"
ROLES = (USER, OPERATOR, ADMIN)
MAX_QUEUED, MAX_TOKENS, MAX_SUBMISSION_BYTES = 10_000, 50, 256 * 1024  # of one user, unless the site says otherwise
LONGEST_ARRAY = 20_000  # members, whatever the site allows: the core needs seconds for so many


@dataclass(frozen=True)
class UserLimits:
    """The limits of one user; None: no bound."""

    role: str = USER
    max_queued: int | None = MAX_QUEUED
    max_running: int | None = None
    qos: int = 0  # the priority of jobs that state none, and the highest one a user may state
    max_array: int = 1000  # members of one array
    max_tokens: int | None = MAX_TOKENS  # valid at the same time, without those of pages
    max_submission_bytes: int | None = MAX_SUBMISSION_BYTES  # command and environment of one submission
    accounts: tuple[str, ...] | None = None  # that a user may name, the first for jobs that name none; None: any


@dataclass(frozen=True)
class ApiSettings:
    """Everything the API needs to know besides the controller."""

    socket: Path | None = None  # None: PLACE/cohabit.sock
    host: str = ""  # "": no TCP
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    users: Mapping[str, UserLimits] = field(default_factory=dict)
    others: UserLimits = UserLimits()
    domains: tuple[str, ...] = ()  # this domain and its peers, for groups of mates

    def __post_init__(self) -> None:
        for name, limits in self.users.items():
            if limits.role not in ROLES:
                raise InputError(f"role = {limits.role!r}", f"users.{name}", f"use {', '.join(ROLES)}")
        for where, limits in (*((f"users.{name}", one) for name, one in self.users.items()), ("limits", self.others)):
            if not 1 <= limits.max_array <= LONGEST_ARRAY:
                raise InputError(f"max_array = {limits.max_array}", where, f"give 1 to {LONGEST_ARRAY:,}")
            if wrong := [name for name in limits.accounts or () if not is_account(name)]:
                raise InputError(f"accounts has {wrong[0]!r}", where, f"an account has {ACCOUNT_WORDS}")
        if self.host and not is_loopback(self.host) and self.certificate is None:
            raise InputError(
                f"tokens would be sent unencrypted to {self.host}",
                "api.listen",
                "give a certificate ([tls]), or listen on 127.0.0.1",
            )

    def limits_of(self, user: str) -> UserLimits:
        """Return the limits of a user, or those of all users the site file does not name."""
        return self.users.get(user, self.others)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address; a name that is not an address counts as reachable."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
