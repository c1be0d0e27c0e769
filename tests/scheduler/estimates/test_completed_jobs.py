"""How often a policy learns from the jobs that are over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED, Completed, MeanRun, next_fit


def test_a_policy_learns_from_the_first_jobs_one_by_one() -> None:
    assert [next_fit(completed) for completed in (0, 1, 10)] == [1, 2, 11]


@given(st.integers(11, 10**6))
def test_it_learns_again_when_there_is_a_tenth_more(completed: int) -> None:
    assert completed < next_fit(completed)
    assert completed * 0.1 <= next_fit(completed) - completed <= completed * 0.1 + 1


def completed(runs: Sequence[float], gpus: int = 4) -> Completed:
    count = len(runs)
    names = ("",) * count
    return Completed(np.full(count, gpus), gpus * np.asarray(runs, float), np.zeros(count), names, names, names)


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20), st.lists(st.floats(0.0, 1e6), max_size=20))
def test_the_mean_run_time(over: list[float], there: list[float]) -> None:
    """Runs that have not ended make it longer, never shorter."""
    found = completed(over).mean_run(np.array(there))
    assert found == pytest.approx((sum(over) + sum(there)) / len(over))
    assert found >= completed(over).mean_run(np.zeros(0)) * (1 - 1e-12)
    assert NO_JOBS_COMPLETED.mean_run(np.array(there)) == 0.0


@pytest.mark.parametrize("until", [300.0, 1000.0, 5000.0])
def test_the_mean_of_exponential_runs_of_which_the_long_ones_have_not_ended(until: float) -> None:
    """The mean of the completed runs alone would be 142 s where the runs are seen for 300 s each."""
    runs = np.random.default_rng(1).exponential(1000.0, 20_000)
    over, there = runs[runs < until], np.full(int((runs >= until).sum()), until)
    assert completed(over.tolist()).mean_run(there) == pytest.approx(1000.0, rel=0.03)


def test_the_mean_run_is_worked_out_again_as_jobs_complete() -> None:
    mean, there = MeanRun(), np.zeros(0)
    runs = [100.0]
    mean.learn(0, lambda: NO_JOBS_COMPLETED, there)
    assert mean.seconds == 0.0
    for number in range(2, 40):
        mean.learn(len(runs), lambda: completed(runs), there)
        assert mean.seconds == pytest.approx(sum(runs) / len(runs), rel=0.11)
        runs.append(100.0 + number)
