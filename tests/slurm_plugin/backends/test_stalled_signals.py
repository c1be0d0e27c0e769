"""A signal that scancel sends again and again, as slurmctld cannot signal the job: with a command in place of Slurm's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import JobRefused, NotSignalled, SlurmJob, SlurmUnavailable, TimedOut

Make = Callable[..., SlurmJob]


class StalledSlurm(CommandsBackend):
    """Each command takes a minute. slurmctld shows these records of the job, one for each question; without one it is away."""

    def __init__(self, folder: Path, *shown: SlurmJob) -> None:
        command = folder / "command"
        command.write_text("#!/bin/sh\nexec sleep 60\n")
        command.chmod(0o755)
        super().__init__(0.2, (str(command),))
        self._shown = list(shown)

    def job(self, job_id: str) -> SlurmJob:
        if not self._shown:
            raise SlurmUnavailable("slurmctld is away")
        return self._shown.pop(0)


def test_a_job_that_slurmctld_cannot_signal_is_refused(tmp_path: Path, running: Make) -> None:
    """The controller went on trying for five minutes, and no other job was started."""
    slurm = StalledSlurm(tmp_path, running(1005), running(1005))
    with pytest.raises(NotSignalled, match=r"^job 1: slurmctld answers, and does not signal it"):
        slurm.signal("1", "USR2")


def test_a_job_that_has_ended_meanwhile_is_not_signalled(tmp_path: Path, running: Make, pending: Make) -> None:
    with pytest.raises(JobRefused, match="not running"):
        StalledSlurm(tmp_path, running(1005), pending(restarts=1)).signal("1", "USR2")


def test_a_slurmctld_that_does_not_answer_is_away(tmp_path: Path, running: Make) -> None:
    with pytest.raises(SlurmUnavailable, match="away"):
        StalledSlurm(tmp_path, running(1005)).signal("1", "USR2")


def test_another_change_that_does_not_end_says_nothing_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(TimedOut, match="is slurmctld up"):
        StalledSlurm(tmp_path).lift("1")
