"""The rows of jobs in one snapshot after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.job_rows import JobRows

ids = st.lists(st.sampled_from("abcdefgh"), unique=True).map(tuple)


@given(st.lists(ids, min_size=1, max_size=5))
def test_where_the_jobs_of_any_earlier_snapshot_are(snapshots: list[tuple[str, ...]]) -> None:
    rows = JobRows()
    for at, now in enumerate(snapshots):
        rows.follow(now)
        assert dict(rows.of) == {name: row for row, name in enumerate(now)}
        for before in snapshots[: at + 1]:
            expected = None if before == now else [now.index(name) if name in now else -1 for name in before]
            found = rows.now(before)
            assert (None if found is None else found.tolist()) == expected
