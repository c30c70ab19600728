"""The node's side of the channel: a thread that sends signed reports, with two bounded queues.

A caller never waits, also while the controller is away. What is refused for its content is dropped; everything else is
tried again, with a new number and a new instant. The number is the node's clock in microseconds, so it rises across
restarts without a file.
"""

from __future__ import annotations

import http.client
import logging
import threading
import time
from collections import deque
from typing import Any, NamedTuple

from cohabit.live.nodes.door import NODE_PATH
from cohabit.live.peers.keys import PairKeys
from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, SIGNATURE_HEADER
from cohabit.model.node_report import (
    MOST_RUNS,
    MOST_SAMPLES,
    EndedRun,
    NodeMeters,
    Report,
    Sample,
    encode,
    signed_bytes,
)
from cohabit.model.telemetry import WINDOW_US

EVERY_S, LONGEST_PAUSE_S = 2.0, 30.0
TIMEOUT_S, LAST_TIMEOUT_S = 5.0, 1.0
RUNS_KEPT, SAMPLES_KEPT = 4096, 1024
_TAKEN, _FOR_CONTENT = 202, (400, 413, 422)
log = logging.getLogger(__name__)


class Controller(NamedTuple):
    """Where reports go, and the key that signs them."""

    host: str
    port: int
    keys: PairKeys

    @property
    def address(self) -> str:
        """Return it for display."""
        return f"{self.host}:{self.port}"


class Sender:
    """The sender of one node."""

    def __init__(
        self, node: str, controller: Controller, every_s: float = EVERY_S, meters: NodeMeters | None = None
    ) -> None:
        self.node, self.controller, self.every_s, self._meters = node, controller, every_s, meters
        self._runs: deque[EndedRun] = deque(maxlen=RUNS_KEPT)
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_KEPT)
        self._lock, self._wanted, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._number = self.sent = self.dropped = 0
        self.trouble, self._sent_s = "", 0.0
        self._thread = threading.Thread(target=self._live, name="reports", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Try to send what is left, for a second, and end."""
        self._over.set()
        self._wanted.set()
        self._thread.join(TIMEOUT_S + LAST_TIMEOUT_S)

    def ended(self, run: EndedRun) -> None:
        """Queue a run that has ended; if too many wait, the oldest is dropped."""
        with self._lock:
            self.dropped += len(self._runs) == RUNS_KEPT
            self._runs.append(run)
        self._wanted.set()

    def sampled(self, sample: Sample) -> None:
        """Queue a sample; if too many wait, the oldest is dropped."""
        with self._lock:
            self._samples.append(sample)

    def standing(self, now_s: float) -> dict[str, Any]:
        """Return how it goes, for display."""
        with self._lock:
            waiting = len(self._runs), len(self._samples)
        return {
            "controller": self.controller.address,
            "sent": self.sent,
            "last_s": round(now_s - self._sent_s, 1) if self._sent_s else None,
            "runs_waiting": waiting[0],
            "samples_waiting": waiting[1],
            "runs_dropped": self.dropped,
            "trouble": self.trouble,
        }

    def _live(self) -> None:
        pause_s = self.every_s
        while not self._over.is_set():
            self._wanted.wait(pause_s)
            self._wanted.clear()
            if self._over.is_set():
                break
            pause_s = self.every_s if self._send_all(TIMEOUT_S) else min(2 * pause_s, LONGEST_PAUSE_S)
            if self.trouble:
                self._over.wait(min(pause_s, self.every_s))  # a run that ends does not make it try at once
        self._send_all(LAST_TIMEOUT_S)

    def _send_all(self, timeout_s: float) -> bool:
        """Send until the queues are empty; False: the controller took nothing more."""
        while self._waiting():
            if not self._send(timeout_s):
                return False
        return True

    def _waiting(self) -> bool:
        oldest_us = time.time_ns() // 1000 - WINDOW_US
        with self._lock:
            while self._samples and self._samples[0].at_us < oldest_us:
                self._samples.popleft()  # no window would take it
            return bool(self._runs or self._samples)

    def _send(self, timeout_s: float) -> bool:
        now_us = time.time_ns() // 1000
        self._number = max(self._number + 1, now_us)
        with self._lock:
            runs, samples = tuple(self._runs)[:MOST_RUNS], tuple(self._samples)[:MOST_SAMPLES]
        content = encode(Report(self.node, self._number, now_us, runs, samples, self._meters))
        status, said = self._post(content, timeout_s)
        taken = status == _TAKEN
        if taken:
            self.sent, self._sent_s = self.sent + 1, time.time()
        trouble = "" if taken else said
        if trouble and trouble != self.trouble:
            log.warning("controller %s: %s", self.controller.address, trouble)
        self.trouble = trouble
        if taken or status in _FOR_CONTENT:
            with self._lock:
                self.dropped += 0 if taken else len(runs)
                _remove(self._runs, runs)
                _remove(self._samples, samples)
        return taken

    def _post(self, content: bytes, timeout_s: float) -> tuple[int, str]:
        keys = self.controller.keys
        headers = {
            "content-type": CONTENT_TYPE,
            KEY_HEADER: keys.current,
            SIGNATURE_HEADER: keys.seal(signed_bytes(content)),
        }
        link = http.client.HTTPConnection(self.controller.host, self.controller.port, timeout=timeout_s)
        try:
            link.request("POST", NODE_PATH, content, headers)
            answer = link.getresponse()
            text = answer.read(300).decode("utf-8", "replace").strip()
            return answer.status, f"refuses reports: {answer.status} {text}"
        except (OSError, http.client.HTTPException) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return 0, f"is not reached: {(why or type(error).__name__).lower()}"
        finally:
            link.close()


def _remove(waiting: deque[Any], sent: tuple[Any, ...]) -> None:
    """Remove what was sent; some of it may have been dropped meanwhile."""
    for one in sent:
        if waiting and waiting[0] is one:
            waiting.popleft()
