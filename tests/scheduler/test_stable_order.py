"""The stable order of whole numbers is that of a stable sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.stable_order import stable_order


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1)), max_size=40))
def test_the_first_of_equal_numbers_comes_first(numbers: list[int]) -> None:
    given_numbers = np.array(numbers, np.int64)
    assert stable_order(given_numbers).tolist() == sorted(range(len(numbers)), key=numbers.__getitem__)
    assert given_numbers.tolist() == numbers
