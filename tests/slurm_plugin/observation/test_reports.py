"""How often the jobs' control folders are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation.reports import PROGRESS_POLL_S, Reports

Make = Callable[..., SlurmJob]


class Folder(Reports):
    """The report in the control folder of the only job, and how often it was read."""

    report = JobReport()
    reads = 0

    def fresh(self, job: SlurmJob) -> JobReport:
        self.reads += 1
        return self.report


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def look(folder: Folder, job: SlurmJob, clock: list[float], ran: float) -> JobReport:
    clock[0] = ran
    folder.begin_cycle({job.id: job}, job.start_time + ran)
    return folder.of(job)


def test_a_run_that_is_not_ready_is_asked_less_often_the_longer_it_runs(clock: list[float], running: Make) -> None:
    folder, job = Folder(Path("/")), running(1000)
    for second in range(3600):
        look(folder, job, clock, float(second))
    assert 30 < folder.reads < 90  # at 0, 1, ... then every tenth of its age, from twenty minutes on every two minutes


def test_it_is_seen_soon_after_it_is_ready_and_stays_ready(clock: list[float], running: Make) -> None:
    folder, job = Folder(Path("/")), running(1000)
    look(folder, job, clock, 99.0)
    folder.report = JobReport(restart=0, ready=True, step=5)
    assert look(folder, job, clock, 99.0 + 9.9 + 0.1).ready
    assert folder.known(job) == folder.report
    folder.report = JobReport(restart=0, ready=False)
    assert look(folder, job, clock, 110.0 + PROGRESS_POLL_S).ready
    assert folder.reads == 3


def test_the_next_run_is_asked_at_once(clock: list[float], running: Make) -> None:
    folder, job = Folder(Path("/")), running(1000)
    folder.report = JobReport(restart=0, ready=True)
    look(folder, job, clock, 1.0)
    again = running(2000, restarts=1)
    assert folder.known(again) is None
    folder.report = JobReport(restart=1, ready=True, step=7)
    assert look(folder, again, clock, 2.0).step == 7


def test_what_has_ended_is_forgotten(clock: list[float], running: Make) -> None:
    folder, job = Folder(Path("/")), running(1000)
    folder.report = JobReport(restart=0, ready=True)
    look(folder, job, clock, 1.0)
    folder.begin_cycle({}, 2000.0)
    assert folder.known(job) is None
