"""Names for tasks that share a record."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.slurm_commands import checked
from tiresias.slurm_plugin.cluster.arrays import LONGEST, members, together

Make = Callable[..., SlurmJob]
RECORDS = st.lists(st.sets(st.integers(0, 10_000), min_size=1, max_size=80), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS)
def test_each_job_is_in_exactly_one_name(pending: Make, records: list[set[int]]) -> None:
    jobs = [
        pending(id=f"{7 + number}_{task}", raw_id=7 + number, array_id=7 + number)
        for number, tasks in enumerate(records)
        for task in sorted(tasks)
    ]
    named = together(jobs)
    assert [job for several in named.values() for job in several] == jobs
    for name, several in named.items():
        assert members(name) == [job.id for job in several]
        assert checked(name) == name
        assert len(name) <= LONGEST + 10


def test_jobs_of_their_own_keep_their_names(pending: Make) -> None:
    jobs = [pending(id="7", raw_id=7), pending(id="9_3", raw_id=10, array_id=9), pending(id="12+1", raw_id=13)]
    assert list(together(jobs)) == ["7", "9_3", "12+1"]


def test_a_large_array_is_one(pending: Make) -> None:
    jobs = [pending(id=f"5_{task}", raw_id=5, array_id=5) for task in range(10_000)]
    assert list(together(jobs)) == ["5_[0-9999]"]
