"""A run may be preempted only after its minimum run time, which counts from the first step and rises with the measured cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.evict.protection import protected_until, remaining
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.next_change import next_change

START = 900.0
LAS = PolicyConfig("las", thresholds=(400.0,), min_run=60.0, min_run_cost_factor=0.0, protection_limit=500.0)
seconds = st.sampled_from([0.0, 1.0, 30.0, 499.0, 1e6])
reported = st.sampled_from([math.nan, -1e9, 0.0, START, START + 30.0, START + 1e6, 1e300])


def cluster(snapshot_of: Any, now: float, **runs: Any) -> Snapshot:
    """A job in the last queue holds all GPUs, and a job of the first queue waits for them."""
    low = snapshot_of.Job("1", 4, JobState.RUNNING, attained=800.0, ran=200.0, last_start=START, **runs)
    made: Snapshot = snapshot_of([low, snapshot_of.Job("2", 4)], [snapshot_of.Node(4)], now)
    return made


def preempted(snapshot: Snapshot, config: PolicyConfig) -> bool:
    return bool(decide(snapshot, config).preemptions)


@pytest.mark.parametrize(
    ("config", "runs", "until"),
    [
        (LAS, {}, 960.0),
        (LAS, {"progress_from": 930.0}, 990.0),
        (LAS, {"progress_from": 5000.0}, START + 500.0 + 60.0),
        (replace(LAS, min_run_cost_factor=3.0), {"preemption_cost": 50.0}, START + 150.0),
        (replace(LAS, min_run_cost_factor=3.0), {"preemption_cost": 10.0}, 960.0),
        (replace(LAS, min_run_cost_factor=3.0, preemption_cost=40.0), {}, START + 120.0),
        (replace(LAS, min_run_cost_factor=3.0), {"preemption_cost": 1e9}, START + 500.0),
        (replace(LAS, min_run=0.0), {"progress_from": 930.0}, START),
    ],
)
def test_when_a_job_may_be_preempted(
    snapshot_of: Any, config: PolicyConfig, runs: dict[str, float], until: float
) -> None:
    early, late = cluster(snapshot_of, until - 0.1, **runs), cluster(snapshot_of, until, **runs)
    assert protected_until(late.jobs, config)[0] == until
    assert not preempted(early, config)
    assert preempted(late, config)
    if until > START:
        assert next_change(early, config) == until
        assert remaining(early, config)[0] == pytest.approx(0.1)


def test_a_run_without_a_first_step_is_protected_until_the_limit_only(snapshot_of: Any) -> None:
    for now in (START + 10.0, START + 559.0):
        assert not preempted(cluster(snapshot_of, now, progress_from=now), LAS)
    assert preempted(cluster(snapshot_of, START + 560.0, progress_from=START + 560.0), LAS)


@given(seconds, st.sampled_from([0.0, 1.0, 5.0]), seconds.filter(lambda limit: limit < 1e6), reported, seconds)
def test_no_report_gains_more_than_the_limit_twice(
    snapshot_of: Any, min_run: float, factor: float, limit: float, step: float, cost: float
) -> None:
    config = replace(LAS, min_run=min(min_run, 1e5), min_run_cost_factor=factor, protection_limit=limit)
    honest = START + config.min_run
    until = protected_until(cluster(snapshot_of, 2000.0, progress_from=step, preemption_cost=cost).jobs, config)[0]
    assert until >= START
    assert honest <= until <= honest + 2 * limit
