"""The report of the parameter service as metrics for Prometheus. Pure. No label names a user, a job or an aggregator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from tiresias.protocol.service_report import STALE_S, ServiceReport
from tiresias.slurm_plugin.views.metrics import gauge, labelled

_STATES = ("requested", "waiting", "running", "draining", "ending")


def service_metrics(report: ServiceReport | None, now: float) -> Iterator[Metric]:
    """Yield the metrics of a report.

    Args:
        report: None where it cannot be read.
        now: Epoch seconds.
    """
    age = max(now - report["time"], 0.0) if report else None
    is_up = age is not None and age <= STALE_S
    yield gauge("service_up", "Whether the manager of the parameter service reports.", float(is_up))
    if report is None:
        return
    yield gauge("service_report_age_seconds", "Age of the manager's newest report.", age)
    yield gauge("service_leader_epoch", "Grows with each takeover of the manager.", report["epoch"])
    yield gauge("service_slurm_answers", "Whether Slurm answered the manager last time.", float(not report["problem"]))
    yield from _aggregators(report)
    of_user = {
        name: float(value) for name, value in report["limits"]["user"].items() if isinstance(value, (int, float))
    }
    yield labelled("service_user_limit", "What each user may use.", "of", of_user)
    totals = report["totals"]
    yield gauge("service_jobs", "Jobs of the parameter service.", totals["jobs"])
    yield gauge("service_waiting_jobs", "Jobs that wait for aggregators within the budget.", totals["waiting"])
    yield gauge("service_declared_servers", "Parameter servers that these jobs declared.", totals["servers"])
    yield gauge("service_allocated_aggregators", "Aggregators that are assigned or reserved.", totals["aggregators"])
    yield gauge("service_ratio", "Allocated aggregators for each declared server.", totals["ratio"])
    yield gauge(
        "service_declared_bytes", "Bytes of the tensors of these jobs, as they declare them.", totals["declared_bytes"]
    )
    yield gauge("service_reverts", "Assignments of these jobs that were revoked for their loss.", totals["reverts"])


def _aggregators(report: ServiceReport) -> Iterator[Metric]:
    states = Counter(each["state"] for each in report["aggregators"])
    counts = {state: states[state] for state in _STATES}
    yield labelled("service_aggregators", "Aggregators, by state.", "state", counts)
    yield gauge("service_budget", "The most aggregators at any time.", report["budget"])
    loads = [each["work_s"] / each["cycle_s"] for each in report["aggregators"] if each["cycle_s"] > 0]
    shares = {"mean": sum(loads) / len(loads), "largest": max(loads)} if loads else {}
    yield labelled("service_load", "Share of the execution cycle with work, over aggregators.", "of", shares)
