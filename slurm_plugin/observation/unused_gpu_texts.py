"""The words about jobs that do not use their GPUs: alarm, comment, decision. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tiresias.scheduler.rank.idle_gpus import IdleStage
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.comments.waiting_text import PREFIX, WaitingComment
from tiresias.slurm_plugin.observation.unused_gpus import GpuUse
from tiresias.slurm_plugin.state.intents import Notice
from tiresias.slurm_plugin.state.journal_rows import Decision

_TEXTS = {
    IdleStage.WARNED: "it does not use its GPUs",
    IdleStage.DEMOTED: "it does not use its GPUs: ranked after all other jobs until it does",
}


def decision(job_id: str, is_demoted: bool, now: float) -> Decision:
    """Return the decision that a job is demoted, or no longer."""
    if is_demoted:
        return Decision(
            now, job_id, Notice.DEMOTED, "its GPUs are unused: it is ranked after all others (idle_gpus.action)"
        )
    return Decision(now, job_id, Notice.RANKED_AGAIN, "it is no longer known to hold unused GPUs")


def alarms(unused: Collection[str], records: Sequence[SlurmJob]) -> list[str]:
    """Return a line where jobs hold unused GPUs. unused: their ids."""
    gpus = [job.gpus for job in records if job.id in unused]
    if not gpus:
        return []
    jobs = "1 job does not use its" if len(gpus) == 1 else f"{len(gpus)} jobs do not use their"
    return [f"{jobs} {sum(gpus)} GPUs; the jobs state it (tiresias status --watch, tiresias explain JOB)"]


def comments(unused: Mapping[str, GpuUse], records: Sequence[SlurmJob]) -> Iterator[WaitingComment]:
    """Yield the comments of warned jobs."""
    for job in records:
        use = unused.get(job.id)
        if use and use.stage in _TEXTS and job.state == "RUNNING":
            yield WaitingComment(job.id, job.raw_id, f"{PREFIX}{_TEXTS[use.stage]}")
