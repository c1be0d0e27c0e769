"""One letter and one colour a running job, the same in the map of nodes and in the table of jobs.

The letter alone already tells jobs apart, for eyes and terminals without colours, up to as many jobs as there are letters;
letter and colour together up to 572. Who keeps a `Marks` from frame to frame never sees a job change its mark while it holds nodes.
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
_SLOTS = len(LETTERS) * len(COLOURS)


@dataclass(frozen=True, slots=True)
class Mark:
    letter: str
    style: str


NO_MARK = Mark(" ", "")


class Marks:
    """Gives a job the slot of its number, or the next one whose letter is free; by submit time, so that one frame alone shows what
    a hundred do. A job that comes back gets what it had, if nobody has it now."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}  # of all that had one and are still published
        self._shown: Mapping[str, Mark] = {}

    def of(self, jobs: Iterable[PublishedJob]) -> Mapping[str, Mark]:
        """Of the jobs that hold nodes, by job id; `jobs`: all that are published."""
        alive = {job["id"]: job for job in jobs}
        self._slots = {job_id: slot for job_id, slot in self._slots.items() if job_id in alive}
        holding = [job_id for job_id, job in alive.items() if job.get("nodes")]
        stay = [job_id for job_id in holding if job_id in self._shown]
        come = [job_id for job_id in holding if job_id not in self._shown]
        come.sort(key=lambda job_id: (job_id not in self._slots, alive[job_id].get("submit_time", 0.0), job_id))
        taken = {self._slots[job_id] for job_id in stay}
        letters = {slot % len(LETTERS) for slot in taken}
        for job_id in come:
            slot = self._slots[job_id] = _free(self._slots.get(job_id, _number(job_id)) % _SLOTS, taken, letters)
            taken.add(slot)
            letters.add(slot % len(LETTERS))
        self._shown = {job_id: _MARKS[self._slots[job_id]] for job_id in holding}
        return self._shown


def marks(jobs: Iterable[PublishedJob]) -> Mapping[str, Mark]:
    """For one frame."""
    return Marks().of(jobs)


def _free(slot: int, taken: set[int], letters: set[int]) -> int:
    """`slot` or the next one, its letter unused while there is such a letter. `slot` itself where nothing is free."""
    if len(taken) == _SLOTS:
        return slot
    full = len(letters) == len(LETTERS)
    while slot in taken or (not full and slot % len(LETTERS) in letters):
        slot = (slot + 1) % _SLOTS
    return slot


def _number(job_id: str) -> int:
    if job_id.isdecimal() and len(job_id) <= 18:  # nearly all, of thousands
        return int(job_id)
    return sum(int(digits) for digits in re.findall(r"[0-9]{1,18}", job_id))


_MARKS = [
    Mark(LETTERS[slot % len(LETTERS)], f"bold #14141c on {COLOURS[slot % len(COLOURS)]}") for slot in range(_SLOTS)
]
