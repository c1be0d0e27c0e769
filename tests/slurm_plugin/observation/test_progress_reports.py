"""The reports of a job become a claim: steps are timed by the controller, over all runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tiresias.protocol import control, progress
from tiresias.protocol.control import JobReport
from tiresias.protocol.progress import Progress
from tiresias.scheduler.estimates.claims import Trust
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.cycle import observe_stage
from tiresias.slurm_plugin.observation.progress_reports import LONGEST_WAIT_S, ProgressReports
from tiresias.slurm_plugin.state import job_claims
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
START = 1000


@pytest.fixture
def job(running: Make) -> SlurmJob:
    return replace(running(START), uid=os.getuid())


@pytest.fixture
def folder(tmp_path: Path, job: SlurmJob) -> Path:
    made = control.job_folder(tmp_path, job.uid, job.id)
    control.make(made, "")
    return made


class Job:
    """One job whose program makes a step every two seconds of work."""

    def __init__(self, root: Path, job: SlurmJob) -> None:
        self.reports, self.job, self.folder = ProgressReports(root), job, control.job_folder(root, job.uid, job.id)
        self.row = JobRow("k", job.id, job.uid, float(START))
        self.runs = [RunRow("k", 0, float(START), 0.0, 4, "gpu01:4", restore=10.0)]

    def report(self, step: int, total: int = 1000) -> None:
        progress.write(self.folder, Progress(self.job.restarts, step, total))

    def read(self, now: float) -> bool:
        return self.reports.follow(self.job, self.row, self.runs, now) is not None

    def left(self, now: float) -> float:
        found = job_claims.expected(self.row, self.runs, now, Trust())
        assert found
        return found.remaining


def test_the_remaining_time_is_the_steps_left_times_the_measured_seconds_a_step(
    tmp_path: Path, folder: Path, job: SlurmJob
) -> None:
    one = Job(tmp_path, job)
    one.report(0)
    assert one.read(1010.0)
    assert one.row.claim_left is None, "no step is timed"
    one.report(100)
    assert one.read(1210.0)
    assert (one.row.progress, one.row.total_steps) == (100.0, 1000.0)
    assert one.left(1210.0) == pytest.approx(1800.0)
    assert one.left(1310.0) == pytest.approx(1700.0), "between two reports the time left passes"


def test_a_preempted_job_keeps_its_claim_and_continues_it_in_the_next_run(
    tmp_path: Path, folder: Path, job: SlurmJob
) -> None:
    one = Job(tmp_path, job)
    one.report(0)
    one.read(1010.0)
    one.report(100)
    one.read(1210.0)
    one.runs[0].end = 1210.0
    assert one.left(9000.0) == pytest.approx(1800.0), "no work is done while it waits"
    one.job = replace(job, restarts=1, start_time=9000)
    one.runs.append(RunRow("k", 1, 9000.0, 0.0, 4, "gpu01:4", restore=30.0))
    assert not one.read(9030.0), "the report is of the run before"
    one.report(105)
    assert one.read(9040.0)
    assert one.left(9040.0) == pytest.approx(1790.0)
    assert one.row.earliest_at == pytest.approx(200.0)
    assert one.row.earliest_left == pytest.approx(1800.0)


def test_a_report_without_a_total_claims_nothing(tmp_path: Path, folder: Path, job: SlurmJob) -> None:
    one = Job(tmp_path, job)
    for step, now in ((0, 1010.0), (100, 1210.0)):
        one.report(step, total=-1)
        assert one.read(now)
    assert (one.row.progress, one.row.total_steps) == (100.0, None)
    assert job_claims.expected(one.row, one.runs, 1210.0, Trust()) is None


def test_the_seconds_over_which_steps_are_timed_are_configured(tmp_path: Path, folder: Path, job: SlurmJob) -> None:
    for timed, claims in ((10.0, False), (0.5, True)):
        one = Job(tmp_path, job)
        one.reports.timed = timed
        one.report(0)
        assert one.read(1001.0)
        one.report(4)
        assert one.read(1001.0 + one.reports.timed / 2) or not claims
        one.report(8)
        one.read(1004.0)
        assert (one.row.claim_left is not None) == claims


def test_the_step_of_a_run_that_reports_is_not_that_of_its_older_program_report(
    tmp_path: Path, folder: Path, job: SlurmJob, journal: Journal
) -> None:
    """program.json has the step of its last reading, which is up to two minutes old."""
    ledger, one = Ledger(journal, Scope(frozenset({"gpu"}))), Job(tmp_path, job)
    ledger.apply(SlurmSnapshot(START + 1, (job,), ()))
    observer = SimpleNamespace(progress=one.reports)
    memory: Any = SimpleNamespace(ledger=ledger, observer=observer)
    observe_stage._note_cost(memory, job, JobReport(0, at=1))
    one.row = ledger.jobs[job.id]
    assert one.row.progress == 1.0
    one.report(50)
    assert one.read(START + 100.0)
    observe_stage._note_cost(memory, job, JobReport(0, at=1))
    assert one.row.progress == 50.0
    again = replace(job, restarts=1)
    assert not one.reports.is_reported(again), "another run has not reported yet"


def test_a_long_run_is_read_rarely(tmp_path: Path, folder: Path, job: SlurmJob) -> None:
    one, seen = Job(tmp_path, job), 0
    for second in range(0, 7200, 2):
        one.report(second)
        seen += one.read(START + float(second))
    assert 7200 / LONGEST_WAIT_S <= seen < 200


def test_the_trust_in_an_owner_is_learned_from_the_ended_job() -> None:
    row = JobRow("k", "7", 1001, 0.0, claim_at=900.0, claim_left=1.0, earliest_at=0.0, earliest_left=100.0)
    runs = [RunRow("k", 0, 0.0, 1010.0, 4, "", restore=10.0)]
    broken = job_claims.learned(Trust(), row, runs, 1010.0)
    assert broken.weight < 0.9
    assert job_claims.learned(Trust(), JobRow("k", "7", 1001, 0.0), runs, 1010.0) == Trust()
