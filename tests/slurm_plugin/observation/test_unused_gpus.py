"""The reports of GPU use as the controller reads them, and what it does about them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.protocol import control, gpu_activity
from tiresias.protocol.gpu_activity import GpuActivity
from tiresias.scheduler.rank.idle_gpus import IdleRule, IdleStage
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation import unused_gpu_texts
from tiresias.slurm_plugin.observation.unused_gpus import LONGEST_POLL_S, MISSED, IdleGpus

RULE = IdleRule("demote", 100.0, 200.0)
START = 10_000.0


@pytest.fixture
def job(running: Callable[..., SlurmJob]) -> SlurmJob:
    return replace(running(START), uid=os.getuid())


@pytest.fixture
def report(tmp_path: Path, job: SlurmJob) -> Callable[..., None]:
    folder = control.job_folder(tmp_path, job.uid, job.id)
    control.make(folder, "")

    def write(count: int, *idle: float, restart: int = 0) -> None:
        gpu_activity.write(folder, GpuActivity(restart, "nvml", count, idle))

    return write


def test_a_job_is_warned_demoted_and_ranked_again(tmp_path: Path, job: SlurmJob, report: Callable[..., None]) -> None:
    idle, stages = IdleGpus(tmp_path, RULE, 60.0), []
    for at, seconds in enumerate((0.0, 120.0, 250.0, 0.0)):
        report(at, seconds, 900.0)
        idle.poll(job, START + 1000.0 + LONGEST_POLL_S * at)
        stages.append((idle.found[job.id].stage, list(idle.changes())))
    assert stages == [
        (IdleStage.NONE, []), (IdleStage.WARNED, []), (IdleStage.DEMOTED, [("1", True)]), (IdleStage.NONE, [("1", False)]),
    ]  # fmt: skip
    assert not idle.unused()


def test_a_new_controller_finds_the_job_demoted(tmp_path: Path, job: SlurmJob, report: Callable[..., None]) -> None:
    report(3, 500.0)
    idle = IdleGpus(tmp_path, RULE, 60.0)
    idle.poll(job, START + 600.0)
    assert idle.is_demoted(job.id)


def test_no_claim_is_older_than_the_run(tmp_path: Path, job: SlurmJob, report: Callable[..., None]) -> None:
    report(0, 1e9)
    idle = IdleGpus(tmp_path, RULE, 60.0)
    idle.poll(job, START + 30.0)
    assert idle.found[job.id].idle == (30.0,)
    assert idle.found[job.id].stage == IdleStage.NONE


def test_reports_of_another_run_or_that_stay_the_same_do_not_count(
    tmp_path: Path, job: SlurmJob, report: Callable[..., None]
) -> None:
    report(0, 500.0, restart=1)
    idle, now = IdleGpus(tmp_path, RULE, 60.0), START + 6000.0
    idle.poll(job, now)
    assert not idle.found
    report(1, 500.0)
    for at in range(1, MISSED + 3):
        idle.poll(job, now + LONGEST_POLL_S * at)
        assert idle.is_demoted(job.id) == (at <= MISSED + 1), "its process has ended"
    idle.begin_cycle([])
    assert not idle.found


def test_off_reads_nothing(tmp_path: Path, job: SlurmJob, report: Callable[..., None]) -> None:
    report(0, 500.0)
    idle = IdleGpus(tmp_path, IdleRule("off"), 60.0)
    idle.poll(job, START + 6000.0)
    assert not idle.found


def test_words(tmp_path: Path, job: SlurmJob, report: Callable[..., None]) -> None:
    idle = IdleGpus(tmp_path, RULE, 60.0)
    report(0, 500.0)
    idle.poll(job, START + 6000.0)
    (comment,) = unused_gpu_texts.comments(idle.unused(), [job])
    assert comment.text == "Tiresias: it does not use its GPUs: ranked after all other jobs until it does"
    assert unused_gpu_texts.alarms(idle.unused().keys(), [job, replace(job, id="2")])[0].startswith(
        f"1 job does not use its {job.gpus} GPUs;"
    )
    assert unused_gpu_texts.alarms((), [job]) == []
