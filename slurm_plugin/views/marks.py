"""One letter and one colour a running job, the same in the map of nodes and in the table of jobs, stable from frame to frame.

The letter alone already tells jobs apart, for eyes and terminals without colours, up to as many jobs as there are letters.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiresias.slurm_plugin.views.published import PublishedJob

LETTERS = string.ascii_uppercase + string.ascii_lowercase
# Light enough for black letters on a dark and on a white terminal. 11 of them: no common factor with the 52 letters.
COLOURS = (
    "#5aa9e6", "#f4a259", "#6bc46d", "#ef6f6c", "#b58fe0", "#e9d758", "#4fc9c4", "#f08cc0", "#a3c94a", "#8fa3f7", "#d9a77a",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    letter: str
    style: str


NO_MARK = Mark(" ", "")


def marks(jobs: Iterable[PublishedJob]) -> Mapping[str, Mark]:
    """The marks of the jobs that hold nodes, by job id.

    A job takes the slot of its number, or the next free one; going by submit time, a newcomer never changes an older one's.
    """
    holding = sorted(
        (job for job in jobs if job.get("nodes")), key=lambda job: (job.get("submit_time", 0.0), job["id"])
    )
    slots = max(len(LETTERS), len(holding))
    taken: dict[int, str] = {}
    for job in holding:
        slot = _number(job["id"]) % slots
        while slot in taken:
            slot = (slot + 1) % slots
        taken[slot] = job["id"]
    return {job_id: _mark(slot) for slot, job_id in taken.items()}


def _mark(slot: int) -> Mark:
    return Mark(LETTERS[slot % len(LETTERS)], f"bold #14141c on {COLOURS[slot % len(COLOURS)]}")


def _number(job_id: str) -> int:
    return sum(int(digits) for digits in re.findall(r"[0-9]{1,18}", job_id))
