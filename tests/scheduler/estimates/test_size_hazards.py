"""Hazards for each class of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.age_buckets import BUCKETS, bucket_of
from tiresias.scheduler.estimates.hazard import UNKNOWN
from tiresias.scheduler.estimates.size_hazards import NO_JOBS_KNOWN, by_size, cell_of

NO_AGES, NO_GPUS = np.zeros(0), np.zeros(0, np.int64)


def test_classes_are_powers_of_two() -> None:
    classes = [int(cell_of(gpus, 0.0)) // BUCKETS for gpus in (1, 2, 3, 4, 5, 8, 9, 64, 128, 129, 5000)]
    assert classes == [0, 1, 2, 2, 3, 3, 4, 6, 7, 8, 8]


@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 1e7)), min_size=1, max_size=20))
def test_one_and_many_are_in_the_same_cells(some: Any) -> None:
    gpus, ages = (np.array(column) for column in zip(*some, strict=True))
    assert cell_of(gpus, ages).tolist() == [cell_of(*each) for each in some]


def test_each_class_learns_its_own() -> None:
    """Jobs of 1 GPU end after 100 s, jobs of 8 after 10,000 s."""
    ages, gpus = np.repeat([100.0, 10_000.0], 200), np.repeat([1, 8], 200)
    hazard = by_size(ages, gpus, NO_AGES, NO_GPUS).of_bucket
    early, late = bucket_of(100.0), bucket_of(10_000.0)
    assert hazard[0, early] > 0.95
    assert hazard[3, early] < 0.05
    assert hazard[3, late] > 0.95


def test_a_class_without_jobs_is_as_any_other() -> None:
    ages = np.linspace(1, 1e5, 300)
    hazard = by_size(ages, np.ones(300, np.int64), NO_AGES, NO_GPUS).of_bucket
    assert hazard[5] == pytest.approx(hazard[8])
    assert not np.allclose(hazard[5], UNKNOWN)


def test_a_class_with_one_job_is_near_all_jobs() -> None:
    ages, gpus = np.append(np.full(300, 100.0), 10_000.0), np.append(np.ones(300, np.int64), 64)
    hazard = by_size(ages, gpus, NO_AGES, NO_GPUS).of_bucket
    early = bucket_of(100.0)
    assert hazard[6, early] == pytest.approx(
        3 / 4 * hazard[7, early]
    )  # one job reached the bucket and did not end there


def test_nothing_known_is_the_same_for_all_sizes() -> None:
    hazard = NO_JOBS_KNOWN.of_bucket
    assert hazard == pytest.approx(np.full_like(hazard, UNKNOWN))
