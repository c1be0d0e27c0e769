from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.place.test_placer import Placed
from tiresias.scheduler.place.even import equal_parts
from tiresias.scheduler.place.placements import style_code

EVEN = style_code("even")


@pytest.fixture(scope="module")
def placed(snapshot_of: Any) -> Placed:
    return Placed(snapshot_of)


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([4, 4, 4], 4, ((0, 4),)),
        ([4, 4, 4], 6, ((0, 3), (1, 3))),
        ([2, 4, 4], 7, ((1, 4), (2, 3))),
        ([4, 2, 4, 4], 9, ((0, 3), (2, 3), (3, 3))),
        ([5, 1], 6, ((0, 5), (1, 1))),
    ],
)
def test_equal_parts_of_the_fewest_nodes(placed: Placed, free: list[float], gpus: int, expected: Any) -> None:
    assert placed(np.array(free, dtype=float), gpus, style=EVEN) == expected


def test_a_job_that_does_not_fit(placed: Placed) -> None:
    assert placed(np.array([2.0, 2.0]), 5, style=EVEN) is None


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 24))
def test_no_other_parts_have_less_traffic(free: list[int], gpus: int) -> None:
    """Each GPU is worker and server: the slowest one exchanges with all GPUs that are not in its part."""
    if len(free) <= gpus <= sum(free):
        parts = equal_parts(np.array(free), gpus).tolist()
        assert sum(parts) == gpus
        assert all(part <= most for part, most in zip(parts, free, strict=True))
        others = itertools.product(*(range(1, most + 1) for most in free))
        assert gpus - min(parts) == min(gpus - min(each) for each in others if sum(each) == gpus)
