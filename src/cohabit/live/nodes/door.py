"""The controller's door for reports of node daemons: who may speak, and what is heard only once.

A report is signed with the key of its node. Refused are: a node without a key here, another node's name, an instant
outside the replay window or before this controller started, a number that is not higher than the last one, values out
of range. Every refusal is counted, and logged once for its node and reason.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping

from cohabit.live.peers.keys import PairKeys
from cohabit.live.peers.messages import KEY_HEADER, SIGNATURE_HEADER
from cohabit.live.peers.server import Doorkeeper, Refusal, Request
from cohabit.model.errors import InputError
from cohabit.model.node_report import Report, decode, signed_bytes, what_is_wrong

NODE_PATH = "/node"
WINDOW_US = 60_000_000  # how far the clocks of a node and of the controller may be apart
SAID_MOST = 1000
_SECOND = 1_000_000
_SECONDS = re.compile(r"[0-9]+ s")
log = logging.getLogger(__name__)


class NodeDoor(Doorkeeper):
    """Checks reports, without any network access. `hear` takes one, or says that it is too busy."""

    path, about = NODE_PATH, "node"

    def __init__(
        self,
        keys: Mapping[str, PairKeys],
        hear_report: Callable[[Report], bool],
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        super().__init__("", {}, lambda message: False)
        self._keys, self._hear_report, self._now_us = keys, hear_report, now_us
        self._since_us = now_us()
        self._numbers: dict[str, int] = {}  # the last one of every node
        self.taken: Counter[str] = Counter()  # reports by node
        self.turned_away: Counter[int] = Counter()  # refusals by status
        self.count_refusal: Callable[[int], None] = lambda status: None
        self._said: set[str] = set()

    def admit(self, request: Request, content: bytes) -> None:
        """Accept a report, or refuse it."""
        try:
            report = decode(content)
        except InputError as error:
            raise Refusal(400, error.what) from None
        node, keys = report.node, self._keys.get(report.node)
        if keys is None:
            raise Refusal(403, f"node {node} has no key here: cohabit node key {node}, then attach again")
        key_id, signature = request.headers.get(KEY_HEADER, ""), request.headers.get(SIGNATURE_HEADER, "")
        if not keys.sealed(signed_bytes(content), key_id, signature):
            raise Refusal(401, f"the report is not signed with the key of node {node}")
        request.proven(node)
        off_us = report.instant_us - self._now_us()
        if abs(off_us) > WINDOW_US:
            far = f"{abs(off_us) // _SECOND} s from the controller's, at most {WINDOW_US // _SECOND} s are allowed"
            raise Refusal(409, f"the clock of node {node} is {far}")
        if report.instant_us <= self._since_us:
            raise Refusal(409, f"the report of node {node} was signed before this controller started")
        if report.number <= self._numbers.get(node, 0):
            raise Refusal(409, f"the report of node {node} was received before")
        self._numbers[node] = report.number
        if wrong := what_is_wrong(report):
            raise Refusal(422, f"node {node}: {wrong}")
        if not self._hear_report(report):
            raise Refusal(503, "too busy, try again")
        self.taken[node] += 1

    def log_refusal(self, caller: object, refusal: Refusal) -> None:
        """Count a refusal, and log it the first time."""
        self.turned_away[refusal.status] += 1
        self.count_refusal(refusal.status)
        what = _SECONDS.sub("", refusal.reason)
        if what not in self._said and len(self._said) < SAID_MOST:
            self._said.add(what)
            log.warning("a report from %s was refused: %s", caller, refusal.reason)
