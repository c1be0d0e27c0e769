"""Which jobs the view lists, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.example_status import example_status, hostile_status
from tiresias.slurm_plugin.watch.listing import SORTS, listed

JOBS: Any = example_status()["jobs"]


def ids(sort: str = "rank", reverse: bool = False, words: str = "") -> list[str]:
    return [job["id"] for job in listed(JOBS, sort, reverse, words)]


def test_rank_is_the_published_order() -> None:
    assert ids() == [job["id"] for job in JOBS]
    assert ids(reverse=True) == ids()[::-1]


@pytest.mark.parametrize(
    ("sort", "field", "falls"),
    [("submit", "submit_time", False), ("attained", "attained", True), ("user", "user", False), ("GPUs", "gpus", True)],
)
def test_sorts(sort: str, field: str, falls: bool) -> None:
    values: list[Any] = [dict(job)[field] for job in listed(JOBS, sort, False, "")]
    assert values == sorted(values, reverse=falls)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("ELIN", {"1213", "1214"}),
        ("saving", {"1140"}),
        ("sweep bilal", {"1204"}),
        ("1204", {"1204"}),
        (" vgg  waiting ", {"1105"}),
        ("nobody", set()),
    ],
)
def test_a_filter_needs_all_its_words(words: str, found: set[str]) -> None:
    assert set(ids(words=words)) == found


@given(st.sampled_from(SORTS), st.booleans(), st.text(max_size=60))
def test_any_filter_on_any_names(sort: str, reverse: bool, words: str) -> None:
    jobs: Any = hostile_status()["jobs"]
    found = listed(jobs, sort, reverse, words)
    assert {job["id"] for job in found} <= {job["id"] for job in jobs}
    assert len(found) == len(jobs) or words.split()
