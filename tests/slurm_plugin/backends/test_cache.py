"""Records are read again when their signature changed, and only then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tiresias.slurm_plugin.backends import cache, commands
from tiresias.slurm_plugin.backends.cache import JobCache
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmUnavailable

Make = Callable[..., SlurmJob]


class Slurm:
    """The records that a query would find: number -> version."""

    def __init__(self, pending: Make) -> None:
        self.records: dict[int, int] = {}
        self.asked: list[int] = []
        self._pending = pending

    def read(self, numbers: Sequence[str]) -> list[SlurmJob]:
        self.asked += map(int, numbers)
        return [self.job(one) for one in map(int, numbers) if one in self.records]

    def job(self, one: int) -> SlurmJob:
        return self._pending(id=str(one), raw_id=one, priority=self.records[one])


def test_a_steady_queue_is_not_read(pending: Make) -> None:
    slurm = Slurm(pending)
    slurm.records = dict.fromkeys(range(1, 1200), 0)
    jobs = JobCache(slurm.read)
    jobs.refresh(slurm.records)
    assert [job.raw_id for job in jobs] == list(range(1, 1200))
    slurm.asked.clear()
    jobs.refresh(dict(slurm.records))
    assert slurm.asked == []


def test_what_changed_is_read_and_what_is_gone_is_forgotten(pending: Make) -> None:
    slurm = Slurm(pending)
    slurm.records = {1: 0, 2: 0, 3: 0}
    jobs = JobCache(slurm.read)
    jobs.refresh(slurm.records)
    slurm.records, slurm.asked = {1: 0, 2: 5}, []
    jobs.refresh(slurm.records)
    assert slurm.asked == [2]
    assert [(job.raw_id, job.priority) for job in jobs] == [(1, 0), (2, 5)]


def test_one_that_goes_between_the_listing_and_the_reading_is_missing(pending: Make) -> None:
    slurm = Slurm(pending)
    slurm.records = {1: 0}
    jobs = JobCache(slurm.read)
    jobs.refresh({1: 0, 2: 0})
    assert [job.raw_id for job in jobs] == [1]


def test_what_was_read_before_an_error_is_kept(pending: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CHUNK", 1)
    slurm = Slurm(pending)
    slurm.records = {1: 0, 2: 0}

    def read(numbers: Sequence[str]) -> list[SlurmJob]:
        if numbers == ["2"]:
            raise SlurmUnavailable("down")
        return slurm.read(numbers)

    jobs = JobCache(read)
    with pytest.raises(SlurmUnavailable):
        jobs.refresh(slurm.records)
    assert [job.raw_id for job in jobs] == [1]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("N/A|0|JobHeldAdmin|x", "N/A|0|JobHeldAdmin|x"),
        ("12:00|0|JobHeldUser|x", "12:00|0|JobHeldUser|x"),
        ("12:00|17|BeginTime|x", "12:00|17|BeginTime|x"),
        ("12:00|17|Resources|x", "17|Resources|x"),
        ("4", "4"),
    ],
)
def test_a_forecast_of_slurms_is_no_change(line: str, kept: str) -> None:
    """A begin time is one."""
    assert commands._without_forecast(line) == kept
