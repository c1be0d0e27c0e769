"""As how many GPUs a job counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.charged_gpus import charged, drawn_to_mean, requested_beside

SIZES = st.lists(st.integers(1, 512), min_size=1, max_size=30).map(np.array)
SHARE = st.floats(0, 1)


def test_requested_beside_by_hand() -> None:
    """Of 1, 1 and 6 GPUs 6 of 8 are requested by the job of 6."""
    assert requested_beside(np.array([1, 1, 6])) == pytest.approx((1 + 1 + 36) / 8)
    assert requested_beside(np.zeros(0, np.int64)) == 0.0


def test_a_part_of_the_difference_from_the_mean_counts() -> None:
    assert charged(np.array([1, 8, 64]), 18.0, 0.75).tolist() == [13.75, 15.5, 29.5]
    assert charged(64, 18.0, 0.75) == 29.5


def test_small_jobs_count_as_they_are() -> None:
    assert drawn_to_mean(np.repeat([1, 8, 128], [80, 19, 1]), 2000, 100_000) == 0.0
    assert charged(60, 3.0, 0.0) == 60


def test_large_jobs_are_drawn_to_the_mean_as_far_as_they_are_known() -> None:
    """A GPU is requested by a job of a half of the cluster, nearly."""
    gpus = np.repeat([1, 64], 50)
    drawn = [drawn_to_mean(gpus, 128, completed) for completed in (0, 10, 100, 1000, 10**9)]
    assert drawn[:3] == [0.0, pytest.approx(0.85 / 11), 0.425]
    assert drawn[-1] == pytest.approx(0.85)
    assert all(before < after for before, after in pairwise(drawn))


def test_nothing_changes_while_no_cluster_is_known() -> None:
    assert drawn_to_mean(np.array([1, 64]), 0, 1000) == 0.0


@given(SIZES, SHARE)
def test_the_mean_of_all_jobs_stays_and_so_does_their_order(
    gpus: np.ndarray[tuple[int], np.dtype[np.int64]], drawn: float
) -> None:
    mean = float(gpus.mean())
    counted = charged(gpus, mean, drawn)
    assert counted.mean() == pytest.approx(mean)
    assert (np.diff(charged(np.sort(gpus), mean, drawn)) >= -1e-9).all()
    assert (counted > 0).all()


@given(SIZES, st.integers(0, 1024), st.integers(0, 10**6), st.integers(1025, 10**7))
def test_it_stays_between_nothing_and_the_most(
    gpus: np.ndarray[tuple[int], np.dtype[np.int64]], cluster: int, completed: int, never: int
) -> None:
    """Where no job has completed, and where no job is large, nothing changes; a job that never runs has no effect."""
    drawn = drawn_to_mean(gpus, cluster, completed)
    assert 0.0 <= drawn <= 0.85
    assert drawn == 0.0 or (completed and gpus.max() > cluster / 4)
    assert drawn_to_mean(np.append(gpus, never), cluster, completed) == drawn
