"""The order by several keys."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.rank.policy import natural, ordered

RARE = st.sampled_from([0, 0, 1, 2])
NUMBERS = st.sampled_from([0.0, 0.0, 1.5, -1.0, math.inf, -math.inf])
rows = st.lists(st.tuples(RARE, st.integers(-3, 70_000), NUMBERS, RARE, NUMBERS), max_size=12)


@given(
    rows, st.sampled_from([(0, 1, 2, 3, 4), (0, 3, 2, 4), (3, 2, 4, 1), (2, 4), (0,), ()]), st.booleans(), st.booleans()
)
def test_rows_are_sorted_by_all_keys_then_by_id(
    drawn: list[tuple[float, ...]], columns: tuple[int, ...], same: bool, numbered: bool
) -> None:
    """Also by keys that are one value for all rows."""
    kinds = (np.int64, np.int64, np.float64, np.int64, np.float64)
    keys = [np.array([row[at] for row in drawn], kinds[at]) for at in columns]
    if same:
        keys.insert(1, np.broadcast_to(np.asarray(7), (len(drawn),)))
    ids = [f"{(at * 7) % 13}" if numbered or at % 3 else f"{at}_{at * 5 % 4}" for at in range(len(drawn))]
    expected = sorted(range(len(drawn)), key=lambda at: ([key[at] for key in keys], natural(ids[at])))
    assert ordered(keys, ids).tolist() == expected
