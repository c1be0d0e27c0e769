from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.age_buckets import EDGES, bucket_of, end_of
from tiresias.scheduler.estimates.hazard import Hazards

UNKNOWN = 1 - 2**-0.5
NO_JOBS = np.zeros(0)
ages = st.lists(st.floats(0, 1e7), max_size=40).map(np.array)


def test_buckets() -> None:
    assert [bucket_of(age) for age in (0.0, 0.5, 1.0, 1.5, 2.0)] == [0, 0, 1, 2, 3]
    assert end_of(0) == 1.0
    assert end_of(3) == pytest.approx(2**1.5)
    assert end_of(bucket_of(1e300)) == math.inf


@given(st.lists(st.floats(0, 1e11), min_size=1, max_size=20))
def test_one_and_many_are_in_the_same_buckets(some: Any) -> None:
    together = bucket_of(np.array(some))
    assert together.tolist() == [bucket_of(age) for age in some]
    assert end_of(together).tolist() == [end_of(bucket_of(age)) for age in some]


def test_hazards_by_hand() -> None:
    """Two ended, at 0.5 s and at 3 s; one is there and 1.2 s old, which is half way through the second bucket."""
    half_way = (1 + EDGES[2]) / 2
    hazard = Hazards.of(np.array([0.5, 3.0]), np.array([half_way, 0.0])).of_bucket
    assert hazard[0] == pytest.approx((1 + UNKNOWN) / (3 + 1))
    assert hazard[1] == pytest.approx(UNKNOWN / (1.5 + 1))
    assert hazard[2] == pytest.approx(UNKNOWN / (1 + 1))
    assert hazard[4] == pytest.approx((1 + UNKNOWN) / (1 + 1))  # 2.83 to 4 s
    assert hazard[5:] == pytest.approx(UNKNOWN)


def test_without_jobs_the_hazards_are_the_prior() -> None:
    assert Hazards.of(NO_JOBS, NO_JOBS).of_bucket == pytest.approx(UNKNOWN)


def test_nothing_known_ranks_by_age() -> None:
    index = Hazards.of(NO_JOBS, NO_JOBS).index(0.0)[1:]
    assert index.tolist() == sorted(index, reverse=True)
    assert index[10] / index[12] == pytest.approx(2.0)  # half as promising at twice the age


def by_hand(hazard: Any, bucket: Any, overhead: Any) -> Any:
    """The definition, one sum after the other."""
    best, reached, ended, seconds = 0.0, 1.0, 0.0, overhead
    for at in range(bucket, len(hazard)):
        ended += reached * hazard[at]
        seconds += reached * (EDGES[at + 1] - EDGES[at]) * (1 - hazard[at] / 2)
        reached *= 1 - hazard[at]
        best = max(best, ended / seconds)
    return best


@given(ages, ages, st.sampled_from([0.0, 1.0, 62.0, 1e5]))
def test_the_index_is_what_it_is_defined_to_be(ended: Any, there: Any, overhead: Any) -> None:
    hazards = Hazards.of(ended, there)
    assert ((hazards.of_bucket > 0) & (hazards.of_bucket < 1)).all()
    index = hazards.index(overhead)
    for bucket in (0, 1, 17, 40, 66):
        assert index[bucket] == pytest.approx(by_hand(hazards.of_bucket, bucket, overhead))


@given(ages, ages)
def test_overhead_makes_every_job_less_promising(ended: Any, there: Any) -> None:
    hazards = Hazards.of(ended, there)
    assert (hazards.index(60.0) < hazards.index(0.0)).all()


def test_the_index_is_high_close_to_the_usual_end() -> None:
    """Jobs of about an hour: few run for longer, and those end late."""
    index = Hazards.of(np.linspace(3000, 4000, 200), NO_JOBS).index(0.0)
    assert index[bucket_of(3500.0)] > index[bucket_of(100.0)]
    assert index[bucket_of(3500.0)] > index[bucket_of(5000.0)]


def test_a_prior_counts_as_so_many_jobs() -> None:
    """One job of two ended in the first bucket; expected was one of ten, with the weight of 8 jobs."""
    hazards = Hazards.of(np.array([0.5, 9.0]), NO_JOBS, 0.1, 8.0)
    assert hazards.of_bucket[0] == pytest.approx((1 + 0.8) / (2 + 8))


def test_the_rate_of_a_constant_hazard() -> None:
    """Half the jobs end in the second bucket, 0.41 s long, at a constant rate."""
    rate = Hazards(np.full(len(EDGES) - 1, 0.5)).per_second
    assert math.exp(-rate[1] * (EDGES[2] - EDGES[1])) == pytest.approx(0.5)


def test_a_job_that_reports_is_stopped_at_its_first_claim() -> None:
    """One in ten jobs ends after a minute, the others after an hour: they are stopped after 30 s, about half of the minute."""
    hazards = Hazards.of(np.array([60.0, *[3600.0] * 9] * 100), NO_JOBS)
    plain, all_report = hazards.index(0.0)[0], hazards.index(0.0, 1.0)[0]
    assert 1.7 * plain < all_report < 2.3 * plain
    assert hazards.index(0.0, 0.0).tolist() == hazards.index(0.0).tolist()
    old = bucket_of(60.0)
    assert hazards.index(0.0, 1.0)[old:].tolist() == hazards.index(0.0)[old:].tolist()


@given(ages, st.floats(0.0, 1000.0))
def test_the_more_jobs_report_the_more_is_a_start_worth(some: Any, overhead: float) -> None:
    hazards = Hazards.of(some, NO_JOBS)
    by_share = [hazards.index(overhead, share) for share in (0.0, 0.5, 1.0)]
    assert (by_share[0] <= by_share[1]).all()
    assert (by_share[1] <= by_share[2]).all()
    assert np.isfinite(by_share[2]).all()
