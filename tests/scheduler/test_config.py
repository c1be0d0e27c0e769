from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.las_order import queue_of
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import Policy

NAN = math.nan


def test_every_name_has_its_policy() -> None:
    assert all(isinstance(POLICIES[name], Policy) for name in POLICIES)


@pytest.mark.parametrize(
    ("knob", "value", "allowed"),
    [
        ("name", "lass", "las, fifo, best_effort"),
        ("thresholds", (3200.0, 100.0), "each above the one before"),
        ("thresholds", (100.0, 100.0), "each above the one before"),
        ("thresholds", (0.0,), "positive numbers"),
        ("thresholds", (NAN,), "positive numbers"),
        ("thresholds", (math.inf,), "positive numbers"),
        ("thresholds", [3200.0], "positive numbers"),
        ("in_queue_order", "random", "running_first, first_start, last_start"),
        ("promote_knob", NAN, "a number above 0, or inf"),
        ("promote_knob", 0.0, "a number above 0, or inf"),
        ("starve_limit", -1.0, "seconds above 0, or inf"),
        ("starve_factor", 1.0, "a number above 1, or inf"),
        ("min_run", -1.0, "seconds, 0 or more"),
        ("min_run", math.inf, "seconds, 0 or more"),
        ("cooldown", NAN, "seconds, 0 or more"),
        ("max_preemptions", 1.5, "a whole number"),
        ("max_preemptions", True, "a whole number"),
        ("quantum", 0.5, "seconds, 1 or more"),
        ("quantum", math.inf, "seconds, 1 or more"),
    ],
)
def test_mistakes_name_the_knob_and_what_is_allowed(knob: Any, value: Any, allowed: Any) -> None:
    with pytest.raises(UsageError) as error:
        PolicyConfig(**{knob: value})
    assert str(error.value).startswith(f"{knob} = ")
    assert allowed in str(error.value)


def test_no_threshold_is_one_queue() -> None:
    assert queue_of(np.array([0.0, 1e9]), PolicyConfig(thresholds=())).tolist() == [0, 0]


def test_queue_holds_its_lower_limit_and_not_its_upper() -> None:
    config = PolicyConfig(thresholds=(100.0, 200.0))
    assert queue_of(np.array([0.0, 99.9, 100.0, 199.9, 200.0, 1e9]), config).tolist() == [0, 0, 1, 1, 2, 2]


def test_paper_presets() -> None:
    """Sections 5.2 and 5.3: two queues, 3,200 GPU-s on the testbed and an hour in production; nothing is promoted."""
    testbed, production = PolicyConfig.paper(), PolicyConfig.paper("gittins", "production")
    assert (testbed.name, testbed.thresholds) == ("las", (3200.0,))
    assert (production.name, production.thresholds) == ("gittins", (3600.0,))
    for each in (testbed, production):
        assert (each.min_run, each.cooldown, each.max_preemptions) == (0.0, 0.0, 0)
        assert not each.promotes


def test_only_policies_with_queues_have_limits_of_queues() -> None:
    assert PolicyConfig().name == "adaptive"
    assert [replace(PolicyConfig(), name=name).limits for name in ("adaptive", "las", "gittins")] == [
        (),
        (3200.0,),
        (3200.0,),
    ]


def test_scaled_divides_thresholds_and_times_only() -> None:
    scaled = PolicyConfig(
        min_run=60.0, cooldown=30.0, starve_limit=600.0, promote_knob=2.0, max_preemptions=3, interval=600.0
    ).scaled(30)
    assert scaled == PolicyConfig(
        thresholds=(3200 / 30,), min_run=2.0, cooldown=1.0, starve_limit=20.0, promote_knob=2.0, max_preemptions=3,
        protection_limit=60.0, drain_limit=120.0, preemption_cost=2.0, quantum=10.0, interval=20.0, sample_time=2.0,
        usage_half_life=1440.0, usage_period=120.0,
    )  # fmt: skip
    assert PolicyConfig().scaled(30).promote_knob == math.inf
