"""Which nodes of aggregators are given back: by what sinfo and squeue print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.services.parameter_service.manager.aggregator_jobs import AggregatorJobs
from tiresias.services.parameter_service.manager.fleet_state import QueuedAggregator
from tiresias.services.parameter_service.manager.requested_nodes import (
    PendingJob,
    draining,
    parsed_nodes,
    parsed_pending,
    requested_by_jobs,
)

SINFO = """n1|cpu|1|mixed
n1|urgent|10|mixed
n2|cpu|1|draining*
n3|cpu|1|idle~
n3|urgent|10|idle~
n4|cpu|1|mixed$
nonsense
n5|cpu|x|idle
"""


def running(number: int, node: str, priority: int = 50, partition: str = "cpu") -> QueuedAggregator:
    return QueuedAggregator(100 + number, number, True, node, False, partition, priority)


def requested(*pending: PendingJob, given: dict[int, set[str]] | None = None) -> dict[int, set[str]]:
    aggregators = [running(0, "n1"), running(1, "n1"), running(2, "n3"), running(3, "n4")]
    return requested_by_jobs(pending, parsed_nodes(SINFO), aggregators, given or {})


def test_nodes_that_drain() -> None:
    assert draining(parsed_nodes(SINFO)) == {"n2"}


def test_jobs_that_wait_for_nodes() -> None:
    listed = """7|cpu,urgent|40|Resources|2|train
8|cpu|40|Dependency|1|later
9|cpu|40|Priority|1|a|b
10|cpu|40|Resources|1|tiresias-ps-m-3
x|cpu|40|Resources|1|x
11|cpu|40
"""
    assert parsed_pending(listed, "tiresias-ps-m-") == [
        PendingJob(7, ("cpu", "urgent"), 40, 2),
        PendingJob(9, ("cpu",), 40, 1),
    ]


def test_a_higher_priority_or_tier_gets_as_many_nodes_as_it_needs() -> None:
    assert requested(PendingJob(7, ("cpu",), 50, 1)) == {}, "no higher priority"
    assert requested(PendingJob(7, ("cpu",), 51, 1)) == {7: {"n3"}}, "with the fewest aggregators"
    assert requested(PendingJob(7, ("urgent",), 1, 9)) == {7: {"n1", "n3"}}
    assert requested(PendingJob(7, ("gpu",), 99, 1)) == {}
    assert requested(PendingJob(7, ("cpu",), 51, 2), PendingJob(8, ("urgent",), 1, 1)) == {8: {"n3"}, 7: {"n1", "n4"}}


def test_a_job_that_waits_for_something_else_gets_nothing_more() -> None:
    job = PendingJob(7, ("cpu",), 51, 2)
    assert requested(job, given={7: {"n8"}}) == {7: {"n3"}}
    assert requested(job, given={7: {"n8", "n9"}}) == {}


def test_the_queue_shows_a_preemption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (
        "7|RUNNING|n1|2026-11-27T08:09:47|cpu|40|tiresias-ps-m-1|",
        "8|RUNNING|n2|N/A|cpu|4294901756|tiresias-ps-m-2|",
        "9|PENDING||N/A|cpu|40|tiresias-ps-m-3|",
        "10|COMPLETED|n1|N/A|cpu|40|tiresias-ps-m-4|",
        "11|RUNNING|n1|N/A|cpu|40|tiresias-ps-other-1|",
        "12|RUNNING|n1|N/A|cpu|40|a|b|",
    )
    (tmp_path / "squeue").write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert AggregatorJobs("m", Path("script")).queue() == [
        QueuedAggregator(7, 1, True, "n1", True, "cpu", 40),
        QueuedAggregator(8, 2, True, "n2", False, "cpu", 4294901756),
        QueuedAggregator(9, 3, False, "", False, "cpu", 40),
    ]
