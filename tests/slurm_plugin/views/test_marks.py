"""A job's letter and colour from frame to frame."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.slurm_plugin.views.marks import LETTERS, Marks

MANY = 600


def job(number: int, runs: bool = True) -> Any:
    return {"id": str(number), "submit_time": float(number), "nodes": [("gpu01", 1)] if runs else []}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.integers(1, 2000), st.booleans(), max_size=120), max_size=8))
def test_a_mark_stays_while_the_job_holds_nodes(frames: list[dict[int, bool]]) -> None:
    """Whoever comes, goes, waits or comes back meanwhile."""
    known, before = Marks(), {}
    for frame in frames:
        now = known.of([job(number, runs) for number, runs in frame.items()])
        assert set(now) == {str(number) for number, runs in frame.items() if runs}
        assert all(now[each] == before[each] for each in now if each in before)
        assert len(set(now.values())) == len(now)
        before = now


def test_letters_alone_tell_as_many_jobs_apart_as_there_are() -> None:
    alike = [job(52 * number) for number in range(1, len(LETTERS) + 1)]
    assert {mark.letter for mark in Marks().of(alike).values()} == set(LETTERS)


def test_a_job_that_comes_back_has_its_old_mark() -> None:
    known = Marks()
    first = known.of([job(1), job(53)])
    assert known.of([job(1, runs=False), job(53)]) == {"53": first["53"]}
    assert known.of([job(53), job(1)]) == first


def test_more_jobs_than_marks() -> None:
    known = Marks()
    first = known.of(job(number) for number in range(MANY))
    assert len(first) == MANY
    assert known.of(job(number) for number in range(MANY)) == first
