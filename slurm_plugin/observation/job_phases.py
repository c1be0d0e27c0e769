"""The phase of a job in Slurm, as a decision counts it: waiting, starting, running or releasing, and the time between two runs."""

from __future__ import annotations

from tiresias.scheduler.model import JobState
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.intents import Intent, IntentKind

SETTLE_S = 2.0  # between two runs of a job
CLEAN_UP_S = 5.0  # COMPLETING takes at most so long where no process hangs


def settled_at(job: SlurmJob, now: float) -> float:
    """Return when a requeued job may start again.

    A run that began at the moment of its predecessor's clean-up failed once on Slurm 24.11. The submit time of a requeued job is
    the end of that clean-up; a submit time in the future means that the clock was set back.
    """
    return job.submit_time + SETTLE_S if job.restarts and job.submit_time <= now + SETTLE_S else 0.0


def counts_as_ended(job: SlurmJob, now: float) -> bool:
    """Return whether a completing job counts as ended.

    Slurm starts a successor that is released by then at the end of the clean-up, one that is released later only in its next
    scheduling pass, up to a second later (job_scheduler.c).
    """
    return job.completing and now - job.end_time < CLEAN_UP_S


def decision_state(job: SlurmJob, intent: Intent | None) -> JobState:
    """Return the state of the job for a decision."""
    if intent and intent.kind == IntentKind.START:
        return JobState.STARTING
    if job.completing or (intent and job.state == "RUNNING"):  # preempted, or parked for its time limit
        return JobState.RELEASING
    return JobState.RUNNING if job.state in ("RUNNING", "SUSPENDED") else JobState.WAITING
