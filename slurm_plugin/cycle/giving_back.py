"""Gives jobs back to Slurm, without holds, pins and comments of the controller."""

from __future__ import annotations

import contextlib
import logging

from tiresias.durable.database import StateError
from tiresias.errors import Unavailable
from tiresias.slurm_plugin.comments.writer import CommentWriter
from tiresias.slurm_plugin.cycle.job_memory import JobMemory
from tiresias.slurm_plugin.cycle.services import Services

log = logging.getLogger("tiresias")


def release(services: Services, memory: JobMemory, comments: CommentWriter, admits: bool) -> list[str]:
    """Lift all holds and pins; return what could not be lifted, one line each.

    `admits`: jobs were set aside, and have comments; else a begin time is the user's own.
    """
    observer = memory.observer
    problems = memory.actor.release_all(services.clock(), lambda job: admits and observer.is_set_aside(job))
    with contextlib.suppress(StateError):
        services.decisions.add(memory.actor.take_news())
    if admits:
        remove_comments(services, memory, comments)
    return problems


def remove_comments(services: Services, memory: JobMemory, comments: CommentWriter) -> None:
    """Remove comments, after the holds: a comment that stays is harmless."""
    with contextlib.suppress(Unavailable):
        jobs = [job for job in services.backend.snapshot().jobs if job.id in memory.ledger.jobs]
        if not comments.remove_all(jobs):
            log.warning("comments of waiting jobs may be left: the next controller removes them")
