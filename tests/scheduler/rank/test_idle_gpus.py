"""Jobs that do not use their GPUs: their stages, and their rank after all others under every policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tiresias.scheduler.assist.preemption_gain import RunEstimates
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Effect, JobState
from tiresias.scheduler.pool_ranks import order_among
from tiresias.scheduler.rank.idle_gpus import IdleRule, IdleStage, ranking_of
from tiresias.scheduler.rank.policies import POLICIES


@pytest.mark.parametrize(
    ("action", "idle", "stage"),
    [
        ("off", (9e9,), IdleStage.NONE),
        ("show", (9e9,), IdleStage.SHOWN),
        ("warn", (9e9,), IdleStage.WARNED),
        ("demote", (), IdleStage.NONE),
        ("demote", (99.0, 500.0), IdleStage.NONE),
        ("demote", (100.0, 500.0), IdleStage.WARNED),
        ("demote", (200.0, 500.0), IdleStage.DEMOTED),
        ("demote", (500.0, 0.0), IdleStage.NONE),  # one of them is in use
    ],
)
def test_stages(action: str, idle: tuple[float, ...], stage: IdleStage) -> None:
    assert IdleRule(action, 100.0, 200.0).stage(idle) == stage


def test_no_job_is_demoted_before_it_is_warned() -> None:
    rule = IdleRule("demote", 100.0, 50.0)
    assert (rule.stage((99.0,)), rule.stage((100.0,))) == (IdleStage.NONE, IdleStage.DEMOTED)


def crowd(snapshot_of: Any) -> Any:
    jobs = [
        snapshot_of.Job(str(at), gpus=1 + at % 3, state=JobState.WAITING if at % 2 else JobState.RUNNING, submit=at,
                        attained=100.0 * (9 - at), first_start=500.0 + at, last_start=500.0 + at)
        for at in range(9)
    ]  # fmt: skip
    return snapshot_of(jobs, [snapshot_of.Node(gpus=8)] * 2)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_demoted_jobs_are_last_in_the_order_of_the_policy(snapshot_of: Any, name: str) -> None:
    plain, config, demoted = crowd(snapshot_of), PolicyConfig(name=name), np.arange(9) % 4 == 0
    usual = POLICIES[name].rank(plain, config).order
    snapshot = replace(plain, jobs=replace(plain.jobs, demoted=demoted))
    expected = [*usual[~demoted[usual]], *usual[demoted[usual]]]
    assert ranking_of(POLICIES[name], snapshot, config).order.tolist() == expected
    assert order_among(snapshot, np.ones(9, bool), config, POLICIES[name]).tolist() == expected
    assert ranking_of(POLICIES[name], plain, config).order.tolist() == usual.tolist()


def test_a_demoted_job_is_preempted_for_one_that_would_wait(snapshot_of: Any) -> None:
    run = {"state": JobState.RUNNING, "attained": 10.0, "ran": 10.0, "first_start": 100.0, "last_start": 100.0}
    jobs = [snapshot_of.Job("1", gpus=4, **run), snapshot_of.Job("2", gpus=4, **run), snapshot_of.Job("3", gpus=4)]
    snapshot = snapshot_of(jobs, [snapshot_of.Node(), snapshot_of.Node()])
    config = PolicyConfig(min_run=0.0)
    assert not decide(snapshot, config).preemptions
    found = decide(replace(snapshot, jobs=replace(snapshot.jobs, demoted=np.array([False, True, False]))), config)
    assert [one.job for one in found.preemptions] == ["2"]
    assert found.effect.tolist()[:2] == [Effect.KEEP, Effect.PREEMPT]
    assert [one.job for one in found.reserved] == ["3"]
    assert found.rank.tolist() == [0, 2, 1]


def test_in_mode_assist_a_demoted_job_counts_as_one_that_runs_for_ever(snapshot_of: Any) -> None:
    run = {"state": JobState.RUNNING, "attained": 10.0, "ran": 10.0, "first_start": 100.0, "last_start": 100.0}
    jobs = snapshot_of([snapshot_of.Job("1", gpus=4, **run), snapshot_of.Job("2", gpus=4)], [snapshot_of.Node()]).jobs
    config, running = PolicyConfig(), np.array([0])
    assert RunEstimates(jobs, config).may_precede(1, running).tolist() == []
    demoted = replace(jobs, demoted=np.array([True, False]))
    assert RunEstimates(demoted, config).may_precede(1, running).tolist() == [0]
