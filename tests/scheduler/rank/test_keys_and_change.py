"""`IncrementalPolicy.keys_and_change` of each policy returns what `keys` and `change` return, for one running job."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import IncrementalPolicy
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.simulated_job import SimulatedJob

NAMES = [name for name, policy in POLICIES.items() if isinstance(policy, IncrementalPolicy)]
CONFIGS = [
    PolicyConfig(), PolicyConfig.paper(), replace(PolicyConfig.paper(), starve_limit=500.0, drain_limit=100.0),
    PolicyConfig(target_slowdown=3.0), PolicyConfig(starve_limit=500.0), PolicyConfig(starve_limit=500.0, starve_factor=math.inf),
]  # fmt: skip


def learned(name: str) -> IncrementalPolicy:
    """Forty jobs have completed; none is there."""
    draw = np.random.default_rng(1)
    gpus, names = draw.choice([1, 2, 8, 32], 40), ("",) * 40
    nothing_there = JobColumns()
    nothing_there.now = 0.0
    completed = Completed(gpus, draw.pareto(1.0, 40) * 100.0 * gpus + 1.0, np.arange(40.0), names, names, names)
    policy = POLICIES[name].fitted(completed, nothing_there)
    assert isinstance(policy, IncrementalPolicy)
    return policy


LEARNED = {name: learned(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@given(
    config=st.sampled_from(CONFIGS),
    gpus=st.sampled_from([1, 2, 3, 8, 128, 129, 1000]),
    waited=st.sampled_from([0.0, 499.9995, 500.0, 7200.0]),
    held=st.sampled_from([0.0, 77.25]),
    ran=st.one_of(st.sampled_from([0.0, 1.0, 2.0**0.5, 2.0, 1024.0]), st.floats(0.0, 1e7)),
    claimed=st.sampled_from([math.nan, 400.0, 1e6]),
)
def test_both_are_those_of_keys_and_of_change(
    name: str, config: PolicyConfig, gpus: int, waited: float, held: float, ran: float, claimed: float
) -> None:
    job = SimulatedJob(0, gpus, 1000.0, 1e8)
    job.held, job.claimed_total = held, claimed
    job.start(1000.0 + held + waited, 0.0, config)
    job.at(job.last_start + ran)
    expected = LEARNED[name].keys(job, job.now, config, False), LEARNED[name].change(job, job.now, config)
    assert LEARNED[name].keys_and_change(job, job.now, config) == expected
