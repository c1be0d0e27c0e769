"""What follows from records alone is computed once for each, whatever the order in which they come back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.record_values import ObjectPlaces, RecordValues


class _Record:
    """Stands for a record: only its identity counts."""

    def __init__(self, number: int) -> None:
        self.number = number


RECORDS: list[Any] = list(map(_Record, range(8)))
some = st.lists(st.sampled_from(RECORDS), unique_by=id)


@settings(max_examples=200, deadline=None)
@given(st.lists(some, max_size=6))
def test_each_new_record_is_computed_once(calls: list[list[Any]]) -> None:
    computed: list[int] = []

    def value(job: Any) -> tuple[int]:
        computed.append(job.number)
        return (job.number,)

    values, before = RecordValues(value), list[Any]()
    for jobs in calls:
        computed.clear()
        assert values.of(jobs) == tuple((job.number,) for job in jobs)
        assert computed == [job.number for job in jobs if job not in before]
        before = jobs


@settings(max_examples=200, deadline=None)
@given(some, some)
def test_places_are_those_of_the_same_objects(first: list[Any], second: list[Any]) -> None:
    expected = [first.index(job) if job in first else -1 for job in second]
    assert ObjectPlaces(second).in_others(ObjectPlaces(first)).tolist() == expected


def test_nothing_is_kept_of_a_call_that_fails() -> None:
    fails = True

    def value(job: Any) -> int:
        if fails and job is RECORDS[-1]:
            raise ValueError("record 7")
        return int(job.number)

    values = RecordValues(value)
    assert values.of(RECORDS[:3]) == (0, 1, 2)
    with pytest.raises(ValueError, match="record 7"):
        values.of(RECORDS)
    fails = False
    assert values.of(RECORDS) == tuple(range(8))
