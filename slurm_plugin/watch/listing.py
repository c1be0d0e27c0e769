"""Which of the published jobs are listed, and in which order. Cost: O(n log n) in their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiresias.protocol.published_job import PublishedJob
from tiresias.slurm_plugin.views.jobs import state_word

_SEARCHED = 200  # characters of each field
_KEYS: dict[str, Callable[[PublishedJob], Any]] = {
    "submit": lambda job: job.get("submit_time", 0.0),
    "attained": lambda job: -job.get("attained", 0.0),
    "user": lambda job: job.get("user", ""),
    "GPUs": lambda job: -job.get("gpus", 0),
}
SORTS = ("rank", *_KEYS)  # rank: as the controller publishes them, those on nodes first


def listed(jobs: Sequence[PublishedJob], sort: str, reverse: bool, wanted: str) -> list[PublishedJob]:
    """wanted: words that must all occur in a job's user, name, number or state, in either case."""
    words = wanted.casefold().split()
    found = [job for job in jobs if _has(job, words)] if words else list(jobs)
    if sort in _KEYS:
        found.sort(key=_KEYS[sort])
    return found[::-1] if reverse else found


def _has(job: PublishedJob, words: Sequence[str]) -> bool:
    fields = (job["id"], job.get("user", ""), job.get("name", ""), state_word(job))
    text = " ".join(field[:_SEARCHED] for field in fields).casefold()
    return all(word in text for word in words)
