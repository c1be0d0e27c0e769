"""The supervisor's side of `tsbatch --steps-from`: the process that follows the output (steps_follower.py), one for each run."""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.protocol import environment
from tiresias.wrappers import isolated
from tiresias.wrappers.job import Job
from tiresias.wrappers.side_process import SideProcess


class Following(SideProcess):
    """The follower of one job; without a pattern or a control folder there is none.

    Args:
        job: The job.
        env: Its environment.
    """

    def __init__(self, job: Job, env: Mapping[str, str]) -> None:
        pattern = env.get(environment.STEPS_FROM, "")
        words = (pattern, str(job.control), str(job.restart))
        has_all = bool(pattern and job.control)
        command = isolated.command("tiresias.wrappers.steps_follower", *words) if has_all else []
        super().__init__(command, "the job's output cannot be followed")
