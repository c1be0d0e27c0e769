"""Tensors that a job declares later are spread by the parameters that its aggregators have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiresias.services.parameter_service.manager.added_tensors import bytes_on, evenly


def test_blocks_of_a_split_tensor_count_in_equal_parts() -> None:
    sizes, at = {"fc": 100, "conv#1": 30}, {"fc": 1, "fc#1": 2, "conv#1": 2}
    assert bytes_on((1, 2, 3), sizes, at) == {1: 50.0, 2: 80.0, 3: 0.0}


@given(
    sizes=st.dictionaries(st.text(max_size=4), st.integers(1, 1000), max_size=30),
    present=st.dictionaries(st.integers(0, 9), st.integers(0, 1000), min_size=1, max_size=5),
)
def test_no_aggregator_is_fuller_than_the_largest_tensor_explains(
    sizes: dict[str, int], present: dict[int, int]
) -> None:
    placed = evenly(sizes, present)
    assert placed.keys() == sizes.keys()
    loads = dict(present)
    for tensor, number in placed.items():
        loads[number] += sizes[tensor]
    for number, load in loads.items():
        if load > present[number]:
            assert load - min(loads.values()) <= max(sizes.values())
