"""The jobs of one user in the status: `tiresias status --user` and `--me`.

Sums and the map of nodes remain those of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tiresias.slurm_plugin.views.jobs import NO_JOBS, Listing, listed_jobs, unlisted_jobs
from tiresias.slurm_plugin.views.symbols import symbols_of
from tiresias.slurm_plugin.views.text import printable

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedDecision, PublishedJob
    from tiresias.protocol.status import Status


def jobs_of(jobs: list[PublishedJob], user: str) -> list[PublishedJob]:
    """Return the jobs of the user; all jobs if `user` is ""."""
    return [job for job in jobs if job.get("user") == user] if user else jobs


def decisions_of(status: Status, user: str) -> list[PublishedDecision]:
    """Return the decisions on the user's jobs that are still published."""
    ids = {job["id"] for job in jobs_of(listed_jobs(status), user)}
    decisions = status.get("decisions", [])
    return [one for one in decisions if one["job"] in ids] if user else decisions


def of_user(status: Status, user: str) -> Status:
    """Return the status with the jobs and decisions of the user only."""
    jobs, blocked = jobs_of(status.get("jobs", []), user), jobs_of(status.get("blocked", []), user)
    return {**with_decisions_of(status, user), "jobs": jobs, "blocked": blocked}


def with_decisions_of(status: Status, user: str) -> Status:
    """Return the status with the decisions on the user's jobs only."""
    return {**status, "decisions": decisions_of(status, user)}


def listing_of(status: Status, user: str) -> Listing:
    """Return the table of the user's jobs, in the symbols that they have on the map."""
    holders = cast("list[PublishedJob]", status["rest"]["holders"] if "rest" in status else [])
    return Listing(
        jobs_of(listed_jobs(status), user),
        symbols_of([*status.get("jobs", []), *holders]),
        title_of(user),
        empty=none_of(user),
        unlisted=unlisted_jobs(status),
    )


def title_of(user: str) -> str:
    """Return the heading of the table of jobs."""
    return f"jobs of {printable(user, 30)}" if user else "jobs"


def none_of(user: str) -> str:
    """Return the text in place of an empty table of jobs."""
    return f"{printable(user, 30)} has no jobs in the managed partitions" if user else NO_JOBS
