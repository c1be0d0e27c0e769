"""How often a policy learns from the jobs that are over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.completed_jobs import next_fit


def test_a_policy_learns_from_the_first_jobs_one_by_one() -> None:
    assert [next_fit(completed) for completed in (0, 1, 10)] == [1, 2, 11]


@given(st.integers(11, 10**6))
def test_it_learns_again_when_there_is_a_tenth_more(completed: int) -> None:
    assert completed < next_fit(completed)
    assert completed * 0.1 <= next_fit(completed) - completed <= completed * 0.1 + 1
