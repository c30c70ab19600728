"""Metrics for Prometheus: waiting and running jobs, the times of passes and commits, requests and refusals.

Each service has its own registry, so that two services in one process do not mix. Metrics that are states are read on
request; the others are counted as they happen.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_RATIOS = (0.25, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0)


class Metrics:
    """The metrics; counted on the event loop, except the two histograms of the worker thread, which lock themselves."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        make = self._gauge
        self.jobs = Gauge("cohabit_jobs", "Jobs that are not over.", ["state"], registry=self.registry)
        self.nodes = Gauge("cohabit_nodes", "Nodes by what they do.", ["state"], registry=self.registry)
        self.listeners = make("cohabit_event_listeners", "Callers who listen to events.")
        self.submissions = self._counter("cohabit_submissions_total", "Submissions taken.")
        self.refusals = Counter("cohabit_refusals_total", "Requests refused.", ["status"], registry=self.registry)
        self.requests = Counter("cohabit_requests_total", "Requests answered.", ["status"], registry=self.registry)
        self.ended = Counter("cohabit_jobs_ended_total", "Jobs that are over.", ["state"], registry=self.registry)
        self.audit_failures = make("cohabit_audit_failures", "Audit lines that could not be written.")
        self.left_out = make("cohabit_events_left_out", "Events of the journal on which the core raised.")
        self.batches = self._counter("cohabit_batches_total", "Batches of facts the core was told.")
        self.commit = self._histogram("cohabit_journal_commit_seconds", "A batch made durable.", _FAST)
        self.passes = self._histogram("cohabit_pass_seconds", "The core's step for a batch.", _FAST)
        self.ratio = self._histogram(
            "cohabit_slowdown_actual_over_predicted", "Actual slowdown of a job over the predicted one.", _RATIOS
        )
        self.predicted = self._histogram("cohabit_slowdown_predicted", "Predicted slowdown of ended jobs.", _RATIOS)
        self.actual = self._histogram("cohabit_slowdown_actual", "Actual slowdown of ended jobs.", _RATIOS)

    def answered(self, status: int) -> None:
        """Count an answered request."""
        self.requests.labels(str(status)).inc()
        if status >= 400:
            self.refusals.labels(str(status)).inc()

    def compared(self, predicted: float | None, actual: float | None) -> None:
        """Record the known slowdowns of an ended job."""
        if predicted is not None:
            self.predicted.observe(predicted)
        if actual is not None:
            self.actual.observe(actual)
        if predicted and actual is not None:
            self.ratio.observe(actual / predicted)

    def text(self, refresh: Callable[[], None]) -> bytes:
        """Return the metrics as text; states are read first."""
        refresh()
        return generate_latest(self.registry)

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(name, what, registry=self.registry)

    def _counter(self, name: str, what: str) -> Counter:
        return Counter(name, what, registry=self.registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, what, buckets=buckets, registry=self.registry)
