"""What a site keeps of ended jobs. Pure."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from tiresias.checkpoint.gc.job_folder import NAME, JobFolder
from tiresias.checkpoint.store import STEP

DAY_S = 86400.0


class Retained(NamedTuple):
    """What stays.

    Attributes:
        days: A job's checkpoints stay so many days after the last change of its folder, then none of them.
        keep: So many of the newest stay within these days; None: all.
    """

    days: int
    keep: int | None = None

    def removed(self, job: JobFolder, now: float) -> list[str]:
        """Return the entries of an ended job's folder that do not stay: none where an entry is no part of a checkpoint."""
        if job.strange:
            return []
        if job.changed < now - self.days * DAY_S:
            return sorted(job.sizes)
        if self.keep is None:
            return []
        newest = {f"step-{step}" for step in job.steps[: self.keep]}
        return sorted(name for name in job.sizes if STEP.fullmatch(name) and name not in newest)


def is_of_an_ended_job(name: str, active: Container[str]) -> bool:
    """Whether the name of a folder in a root is that of a job's, and of none in `active`, the ids of jobs as squeue prints them."""
    found = NAME.fullmatch(name)
    return found is not None and (bool(found["aside"]) or found["job"] not in active)
