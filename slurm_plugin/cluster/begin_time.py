"""The origin of a waiting job's begin time: its owner (--begin, `scontrol update StartTime=`), Slurm after a requeue, or
job_submit.lua, which delays a new job for the controller. A start ignores the last two and waits for the first."""

from __future__ import annotations

from collections.abc import Collection

from tiresias.slurm_plugin.backends.interface import SlurmJob


def is_set_aside(job: SlurmJob, admission_waits: Collection[float]) -> bool:
    """Return whether job_submit.lua delayed the job: no user requests a wait of exactly that length."""
    return any(abs(job.begin_time - job.submit_time - wait) <= 1 for wait in admission_waits)


def has_begun(job: SlurmJob, now: float, admission_waits: Collection[float]) -> bool:
    """Return whether no begin time of its owner delays the job.

    A begin time at the moment of the submission is none: the clock was set back since.
    """
    if job.begin_time <= now or job.begin_time <= job.submit_time:
        return True
    return job.begins_after_requeue or is_set_aside(job, admission_waits)
