"""The start forecast of a waiting job: which jobs hold the GPUs it waits for, and when they are released."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.forecast.forecast_codes import ForecastCode, ForecastReason
from tiresias.scheduler.forecast.forecast_words import forecast_in_words
from tiresias.scheduler.forecast.start_forecast import StartForecast, start_forecast
from tiresias.scheduler.model import JobState

NOW = 1000.0
LAS = PolicyConfig("las", thresholds=(400.0,), min_run_cost_factor=0.0, starve_limit=math.inf, drain_limit=0.0)


def seen(snapshot_of: Any, config: PolicyConfig = LAS, **waiting: Any) -> StartForecast:
    def runs(name: str, gpus: int, attained: float, started: float, **more: Any) -> Any:
        return snapshot_of.Job(name, gpus, JobState.RUNNING, attained, attained / gpus, last_start=started, **more)

    jobs = [
        runs("ahead", 2, 100.0, 950.0),
        runs("protected", 1, 600.0, 990.0),
        runs("fixed", 3, 900.0, 100.0, movable=False),
        snapshot_of.Job("mine", 4, **waiting),
    ]
    nodes = [snapshot_of.Node(4), snapshot_of.Node(4), snapshot_of.Node(2, usable=False)]
    snapshot = snapshot_of(jobs, nodes, NOW)
    return start_forecast(snapshot, decide(snapshot, config), config, len(jobs) - 1)


def test_every_gpu_is_counted_once(snapshot_of: Any) -> None:
    found = seen(snapshot_of)
    assert (found.free, found.ahead, found.lower_ranked, found.fixed, found.others) == (2, 2, 1, 3, 2)


def test_what_frees_gpus_without_a_decision_the_soonest_first(snapshot_of: Any) -> None:
    steps = seen(snapshot_of, packed_until=1500.0).steps
    assert [(step.at, step.what.job) for step in steps] == [(1050.0, "protected"), (1150.0, "ahead"), (1500.0, "")]
    assert [forecast_in_words(step.what).split(",")[0] for step in steps] == [
        "job protected (1 GPU)",
        "job ahead (2 GPUs) sinks below Q1",
        "it takes more nodes than the fewest",
    ]


def test_in_the_last_queue_only_a_promotion_helps(snapshot_of: Any) -> None:
    low: dict[str, Any] = {"attained": 500.0, "ran": 125.0, "waited": 10.0}
    assert seen(snapshot_of, **low).bound.at == math.inf
    assert "promoted before it again" in forecast_in_words(
        seen(snapshot_of, replace(LAS, starve_limit=100.0), **low).bound.why
    )
    found = seen(snapshot_of, replace(LAS, starve_limit=1000.0), **low)
    assert found.steps[-1] == (1990.0, ForecastReason(ForecastCode.RANK_CHANGES, "it is promoted"))
    assert found.bound.at < math.inf


def test_a_policy_without_queues_has_no_bound(snapshot_of: Any) -> None:
    found = seen(snapshot_of, replace(LAS, name="best_effort"))
    assert found.bound.at == math.inf
    assert not any("sinks" in step.what for step in found.steps)
