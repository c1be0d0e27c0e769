"""Keys of jobs that are shown otherwise are those that the policy computes for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import any_jobs, any_nodes, build, many
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.known_keys import KnownKeys
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import IncrementalPolicy

BY_KEYS = [name for name, policy in POLICIES.items() if isinstance(policy, IncrementalPolicy)]


@pytest.mark.parametrize("name", BY_KEYS)
@many
@given(
    jobs=any_jobs, nodes=any_nodes, shown=st.lists(st.tuples(st.integers(0, 13), st.sampled_from(JobState)), max_size=4),
    left_out=st.integers(0, 13),
)  # fmt: skip
def test_keys_of_jobs_in_other_states(
    snapshot_of: Any, name: str, jobs: Any, nodes: Any, shown: list[tuple[int, JobState]], left_out: int
) -> None:
    snapshot, config, policy = build(snapshot_of, jobs, nodes), PolicyConfig(name), POLICIES[name]
    assert isinstance(policy, IncrementalPolicy)
    state = snapshot.jobs.state.copy()
    for row, other in shown:
        state[row % max(len(state), 1) : row % max(len(state), 1) + 1] = other
    now = replace(snapshot.jobs, state=state)
    keys, promoted = policy.sort_keys(snapshot.jobs, snapshot.time, config)
    known = KnownKeys(snapshot.jobs, snapshot.time, config, policy, keys, promoted)
    rows = np.array([row for row in range(len(now)) if row != left_out], np.int64)
    found, found_promoted = known.of(now, rows)
    expected, expected_promoted = policy.sort_keys(now, snapshot.time, config)
    for column, right in zip([*found, found_promoted], [*expected, expected_promoted], strict=True):
        np.testing.assert_array_equal(column, right[rows])
