"""Waiting times of each tenant of a replay, and which tenants wait longer than on nodes of their own. Pure.

Waiting is all time of a job in which its trainer does not run, in seconds of the trace.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from tiresias.sandbox.replay.replay_policies import private_counterpart
from tiresias.sandbox.replay.replay_results import JobResult

TOLERANCE_S, TOLERANCE = 1.0, 0.01  # seconds of this machine, share: a mean that is longer by less than both is as long
MEAN, P99 = "mean_queueing", "p99_queueing"


def waits(results: Sequence[JobResult], time_scale: float) -> dict[str, dict[str, float]]:
    """Return by tenant the number of finished jobs, and the mean and the 99th percentile of their waits."""
    by_tenant: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        if result.finished:
            by_tenant[result.job.vc].append((result.jct - result.training) * time_scale)
    return {
        tenant: {"jobs": len(found), MEAN: float(np.mean(found)), P99: float(np.percentile(found, 99))}
        for tenant, found in sorted(by_tenant.items())
    }


def anomalies(outcomes: Mapping[str, Mapping[str, Any]], time_scale: float) -> dict[str, list[str]]:
    """Return by policy the tenants whose mean wait is longer than under its private counterpart, where that was replayed too."""
    return {
        policy: _longer(outcome["tenants"], outcomes[private]["tenants"], TOLERANCE_S * time_scale)
        for policy, outcome in outcomes.items()
        if (private := private_counterpart(policy)) in outcomes and private != policy
    }


def _longer(own: Mapping[str, Any], private: Mapping[str, Any], tolerance: float) -> list[str]:
    limits = {name: row[MEAN] + max(tolerance, TOLERANCE * row[MEAN]) for name, row in private.items()}
    return [name for name, row in own.items() if row[MEAN] > limits.get(name, math.inf)]


def table(
    outcomes: Mapping[str, Mapping[str, Any]], longer: Mapping[str, Sequence[str]], labels: Mapping[str, str]
) -> Table:
    """Return a row for each tenant: jobs, then mean / 99th percentile under each policy. `longer`: as of `anomalies`."""
    result = Table(title="waits of each tenant: mean / 99th percentile", title_justify="left")
    if longer:
        result.caption, result.caption_justify = "*: longer than on nodes of its own in the same order of jobs", "left"
    result.add_column("tenant", no_wrap=True)
    result.add_column("jobs", justify="right")
    for policy in outcomes:
        result.add_column(labels.get(policy, policy), justify="right", no_wrap=True)
    for tenant in sorted({name for outcome in outcomes.values() for name in outcome["tenants"]}):
        rows = {policy: outcome["tenants"].get(tenant) for policy, outcome in outcomes.items()}
        jobs = max(row["jobs"] for row in rows.values() if row)
        result.add_row(tenant, f"{jobs:,}", *(_cell(row, tenant in longer.get(name, ())) for name, row in rows.items()))
    return result


def _cell(row: Mapping[str, float] | None, is_longer: bool) -> str:
    return f"{'*' if is_longer else ''}{row[MEAN]:,.0f} / {row[P99]:,.0f} s" if row else ""
