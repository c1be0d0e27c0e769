"""Waits of the tenants of a replay."""

from __future__ import annotations

import math
from typing import Any

import pytest
from rich.console import Console

from tiresias.sandbox.replay.replay_results import JobResult, JobRun
from tiresias.sandbox.replay.tenant_report import anomalies, table, waits
from tiresias.simulator.trace import TraceJob

SCALE = 60.0


def result(vc: str, waited: float, finished: bool = True) -> JobResult:
    run = JobRun(0, 100.0 + waited, 0, 0, 1, 1.0, 110.0 + waited, 10)
    end = run.end if finished else math.nan
    return JobResult(TraceJob("j", 0.0, 1, 600.0, vc=vc), "1", 100.0, (run,), end, 10, "")


def test_waits_are_seconds_of_the_trace() -> None:
    found = waits([result("a", 1.0), result("a", 3.0), result("b", 0.0), result("b", 9.0, finished=False)], SCALE)
    assert found["a"] == {"jobs": 2, "mean_queueing": 120.0, "p99_queueing": pytest.approx(178.8)}
    assert found["b"] == {"jobs": 1, "mean_queueing": 0.0, "p99_queueing": 0.0}


def outcome(**means: float) -> dict[str, Any]:
    return {
        "tenants": {name: {"jobs": 3, "mean_queueing": mean, "p99_queueing": 2 * mean} for name, mean in means.items()}
    }


OUTCOMES = {
    "slurm-private": outcome(a=100.0, b=100.0, c=90_000.0),
    "slurm-grptres": outcome(a=100.0 + SCALE, b=101.0 + SCALE, c=90_900.0),
    "slurm-fairshare": outcome(c=90_901.0, other=9.0),
    "las+virtual_clusters": outcome(a=500.0, b=0.0),
    "las+private_clusters": outcome(a=300.0, b=300.0),
    "fifo+gpu_quotas": outcome(a=900.0, b=900.0),
    "las": outcome(a=900.0, b=900.0),
}


def test_a_tenant_is_compared_with_nodes_of_its_own_in_the_same_order_of_jobs() -> None:
    """A second of the machine more does not count, nor does a hundredth."""
    found = {"slurm-grptres": ["b"], "slurm-fairshare": ["c"], "las+virtual_clusters": ["a"]}
    assert anomalies(OUTCOMES, SCALE) == found


def test_the_table_marks_who_waits_longer() -> None:
    console = Console(width=200, record=True)
    console.print(table(OUTCOMES, anomalies(OUTCOMES, SCALE), {}))
    rows = {line.split()[1]: line for line in console.export_text().splitlines() if line.startswith("│")}
    assert "*161 / 322 s" in rows["b"]
    assert "*500 / 1,000 s" in rows["a"]
    assert rows["a"].count("*") == rows["b"].count("*") == 1
