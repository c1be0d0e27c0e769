"""Jobs that slurmctld refuses to change are left alone for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.slurm_plugin.backends.interface import JobRefused
from tiresias.slurm_plugin.backends.slurm_commands import SlurmCommands
from tiresias.slurm_plugin.backends.unindexed_jobs import FIRST_WAIT_S, FORGOTTEN_AFTER_S, LONGEST_WAIT_S, UnindexedJobs

WORDS = "job 14: Job update not available right now, the DB index is being set, try again in a bit for job 14"


def test_a_refused_job_waits_twice_as_long_each_time() -> None:
    now = [100.0]
    jobs = UnindexedJobs(lambda: now[0])
    for wait in (FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S):
        jobs.check("14")
        jobs.note("14", WORDS)
        now[0] += wait - 0.1
        with pytest.raises(JobRefused, match="DB index"):
            jobs.check("14")
        jobs.check("15")
        now[0] += 0.1
    for _ in range(9):
        jobs.note("14", WORDS)
    now[0] += LONGEST_WAIT_S
    jobs.check("14")


@pytest.mark.parametrize("answer", ["", "job 14: Job is pending execution"])
def test_another_answer_ends_the_wait(answer: str) -> None:
    jobs = UnindexedJobs(lambda: 100.0)
    jobs.note("14", WORDS)
    jobs.note("14", answer)
    jobs.check("14")


def test_slurm_is_not_asked_again_meanwhile(tmp_path: Path) -> None:
    """A command in place of Slurm's, which writes down each call and refuses it."""
    calls, command = tmp_path / "calls", tmp_path / "command"
    command.write_text(f'#!/bin/sh\necho "$@" >> {calls}\necho "{WORDS.partition(": ")[2]}" >&2\nexit 1\n')
    command.chmod(0o755)
    slurm = SlurmCommands(10.0, (str(command),))
    for _ in range(3):
        with pytest.raises(JobRefused, match=r"^job 14: Job update not available"):
            slurm.update("14", "Priority=0")
    with pytest.raises(JobRefused, match=r"^job 15"):
        slurm.update("15", "Priority=0")
    assert calls.read_text().splitlines() == [f"scontrol update JobId={job} Priority=0" for job in ("14", "15")]


def test_jobs_that_are_changed_no_more_are_forgotten() -> None:
    now = [100.0]
    jobs = UnindexedJobs(lambda: now[0])
    jobs.note("14", WORDS)
    now[0] += FIRST_WAIT_S + FORGOTTEN_AFTER_S
    jobs.note("15", WORDS)
    assert list(jobs._waits) == ["15"]
