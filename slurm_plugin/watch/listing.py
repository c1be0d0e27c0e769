"""Selection and order of the listed jobs. Cost: O(n log n) in the number of published jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiresias.protocol.published_job import PublishedJob
from tiresias.slurm_plugin.views.jobs import state_word

_SEARCHED_CHARACTERS = 200  # of each field
_KEYS: dict[str, Callable[[PublishedJob], Any]] = {
    "submit": lambda job: job.get("submit_time", 0.0),
    "attained": lambda job: -job.get("attained", 0.0),
    "user": lambda job: job.get("user", ""),
    "GPUs": lambda job: -job.get("gpus", 0),
}
SORTS = ("rank", *_KEYS)  # rank: in the controller's order, jobs on nodes first


def listed(jobs: Sequence[PublishedJob], sort: str, reverse: bool, search: str) -> list[PublishedJob]:
    """Return the matching jobs in order.

    Args:
        jobs: as published
        sort: one of SORTS
        reverse: whether the order is reversed
        search: words that must all occur in a job's user, name, id or state, in either case
    """
    words = search.casefold().split()
    found = [job for job in jobs if _has(job, words)] if words else list(jobs)
    if sort in _KEYS:
        found.sort(key=_KEYS[sort])
    return found[::-1] if reverse else found


def _has(job: PublishedJob, words: Sequence[str]) -> bool:
    fields = (job["id"], job.get("user", ""), job.get("name", ""), state_word(job))
    text = " ".join(field[:_SEARCHED_CHARACTERS] for field in fields).casefold()
    return all(word in text for word in words)
