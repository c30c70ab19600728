"""Metrics for Prometheus: waiting and running jobs, the times of passes and commits, requests and refusals.

Each service has its own registry, so that two services in one process do not mix. Metrics that are states are read on
request; the others are counted as they happen.
"""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_RATIOS = (0.25, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0)


class Metrics:
    """The metrics; counted on the event loop, except the two histograms of the worker thread, which lock themselves."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauge, counter = partial(Gauge, registry=self.registry), partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.jobs = gauge("cohabit_jobs", "Jobs that are not over.", ["state"])
        self.nodes = gauge("cohabit_nodes", "Nodes by what they do.", ["state"])
        self.listeners = gauge("cohabit_event_listeners", "Callers who listen to events.")
        self.submissions = counter("cohabit_submissions_total", "Submissions taken.")
        self.refusals = counter("cohabit_refusals_total", "Requests refused.", ["status"])
        self.requests = counter("cohabit_requests_total", "Requests answered.", ["status"])
        self.node_reports = counter("cohabit_node_reports_total", "Reports of node daemons taken.", ["node"])
        self.node_refusals = counter("cohabit_node_reports_refused_total", "Reports of nodes refused.", ["status"])
        self.ended = counter("cohabit_jobs_ended_total", "Jobs that are over.", ["state"])
        self.audit_failures = gauge("cohabit_audit_failures", "Audit lines that could not be written.")
        self.left_out = gauge("cohabit_events_left_out", "Events of the journal on which the core raised.")
        self.batches = counter("cohabit_batches_total", "Batches of facts the core was told.")
        self.commit = histogram("cohabit_journal_commit_seconds", "A batch made durable.", buckets=_FAST)
        self.passes = histogram("cohabit_pass_seconds", "The core's step for a batch.", buckets=_FAST)
        self.ratio = histogram(
            "cohabit_slowdown_actual_over_predicted",
            "Actual slowdown of a job over the predicted one.",
            buckets=_RATIOS,
        )
        self.predicted = histogram("cohabit_slowdown_predicted", "Predicted slowdown of ended jobs.", buckets=_RATIOS)
        self.actual = histogram("cohabit_slowdown_actual", "Actual slowdown of ended jobs.", buckets=_RATIOS)

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

    def text(self) -> bytes:
        """Return the metrics as text."""
        return generate_latest(self.registry)
