"""Runs of elastic jobs whose program does not use their size."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.protocol import control, rank_files
from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation.rank_counts import RankCounts
from tiresias.slurm_plugin.state import job_reasons
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

Make = Callable[..., SlurmJob]
ROW = JobRow("1@1000", "1", os.getuid(), 1000.0, elastic="1-8")
TRAINS = JobReport(restart=1, ready=True, restore=3.0)
BEFORE = RunRow("1@1000", 0, 1000.0, 1100.0, 2, "gpu01:2", restore=4.0)


@pytest.fixture
def job(running: Make) -> SlurmJob:
    """Run 1, with four GPUs since second 2000."""
    return running(2000, uid=os.getuid(), restarts=1)


def register(root: Path, count: int) -> None:
    folder = control.job_folder(root, os.getuid(), "1") / control.RANKS
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"gpu01-{100 + number}-5").touch()
    (folder / ".gpu01-1-1.99").touch()  # a temporary file


def judge(root: Path, job: SlurmJob, now: float, report: JobReport = TRAINS, row: JobRow = ROW) -> str:
    return job_reasons.text(RankCounts(root, 30.0).why_rigid(job, row, report, [BEFORE], now))


def test_ranks_of_another_number_than_the_size(tmp_path: Path, job: SlurmJob) -> None:
    register(tmp_path, 2)
    words = "its program ignores the number of GPUs: 2 ranks registered with 4 GPUs in place of 4"
    assert judge(tmp_path, job, 2033.0) == words
    assert judge(tmp_path, job, 2032.0) == "", "files of other nodes may not be visible yet"


@pytest.mark.parametrize("count", [4, 8])
def test_one_rank_for_each_task_or_gpu(tmp_path: Path, running: Make, count: int) -> None:
    register(tmp_path, count)
    two_each = running(2000, uid=os.getuid(), restarts=1, gpus=8, tasks=4)
    assert judge(tmp_path, two_each, 2100.0) == ""


def test_one_rank_for_each_node_where_the_nodes_change(tmp_path: Path, running: Make) -> None:
    register(tmp_path, 1)
    whole = running(2000, uid=os.getuid(), restarts=1, gpus_per_node=4)
    assert judge(tmp_path, whole, 2100.0) == ""
    assert judge(tmp_path, running(2000, uid=os.getuid(), restarts=1), 2100.0) != ""


def test_a_run_without_a_step_is_judged_later(tmp_path: Path, job: SlurmJob) -> None:
    waits = JobReport(restart=1)
    assert judge(tmp_path, job, 2029.0, waits) == ""
    assert "0 ranks registered" in judge(tmp_path, job, 2030.0, waits)
    never_trained = RankCounts(tmp_path, 30.0).why_rigid(job, ROW, waits, [], 9000.0)
    assert never_trained == "", "the program may not use checkpoints at all"


def test_a_process_that_registers_for_the_whole_job(tmp_path: Path, job: SlurmJob) -> None:
    register(tmp_path, 1)
    assert judge(tmp_path, job, 2100.0, TRAINS._replace(alone=True)) == ""


def test_jobs_of_a_fixed_size_are_not_judged(tmp_path: Path, job: SlurmJob) -> None:
    register(tmp_path, 1)
    assert judge(tmp_path, job, 2100.0, row=JobRow("1@1000", "1", os.getuid(), 1000.0)) == ""


def test_a_run_is_judged_once(tmp_path: Path, job: SlurmJob) -> None:
    register(tmp_path, 4)
    counts = RankCounts(tmp_path, 30.0)
    assert counts.why_rigid(job, ROW, TRAINS, [BEFORE], 2100.0) == ""
    next((control.job_folder(tmp_path, os.getuid(), "1") / control.RANKS).glob("gpu*")).unlink()
    assert counts.why_rigid(job, ROW, TRAINS, [BEFORE], 2200.0) == "", "a rank may end before the others"
    counts.begin_cycle({})
    assert counts.why_rigid(job, ROW, TRAINS, [BEFORE], 2200.0) != ""


def test_files_reached_by_a_link_do_not_count(tmp_path: Path) -> None:
    register(tmp_path / "elsewhere", 3)
    assert rank_files.registered(tmp_path / "elsewhere", os.getuid(), "1") == 3
    root = tmp_path / "root"
    folder = control.job_folder(root, os.getuid(), "1")
    folder.mkdir(parents=True)
    elsewhere = control.job_folder(tmp_path / "elsewhere", os.getuid(), "1") / control.RANKS
    (folder / control.RANKS).symlink_to(elsewhere)
    assert rank_files.registered(root, os.getuid(), "1") == 0
