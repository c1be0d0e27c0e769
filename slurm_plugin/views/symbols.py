"""One letter and one colour for each running job, the same in the map of nodes and in the table of jobs.

The letter alone distinguishes jobs, for readers and terminals without colours, up to as many jobs as there are letters;
letter and colour together, up to 572. Jobs on one node, on adjacent nodes of the map, or in adjacent rows get different
colours, and colours that look different while there are enough of them. A `Symbols` object kept from frame to frame never
changes the symbol of a job while the job holds nodes.
"""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tiresias.protocol.published_job import PublishedJob

LETTERS = string.ascii_uppercase + string.ascii_lowercase
# Light enough for black letters on a dark and on a white terminal. 11 of them: no common factor with the 52 letters.
COLOURS = (
    "#5aa9e6", "#f4a259", "#6bc46d", "#ef6f6c", "#b58fe0", "#e9d758", "#4fc9c4", "#f08cc0", "#a3c94a", "#8fa3f7", "#d9a77a",
)  # fmt: skip
_SLOTS = len(LETTERS) * len(COLOURS)
_SIMILAR_RGB_DISTANCE = 70.0  # Euclidean distance of red, green and blue below which two colours look alike


@dataclass(frozen=True, slots=True)
class Symbol:
    """The letter of a job and its rich style."""

    letter: str
    style: str


NO_SYMBOL = Symbol(" ", "")


class Symbols:
    """Assigns symbols to jobs, stable from frame to frame.

    A job gets the slot of its number, or the next slot with a free letter, in order of submit time: one frame alone shows
    the same as the last of a hundred frames. A job that runs again gets its previous symbol, unless another job or the
    colour of a neighbour uses it.
    """

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}  # of all published jobs that hold or have held nodes
        self._shown: Mapping[str, Symbol] = {}

    def of(self, jobs: Iterable[PublishedJob]) -> Mapping[str, Symbol]:
        """Return the symbols of the jobs that hold nodes, by job id; `jobs`: all published jobs."""
        alive = {job["id"]: job for job in jobs}
        self._slots = {job_id: slot for job_id, slot in self._slots.items() if job_id in alive}
        holding = [job_id for job_id, job in alive.items() if job.get("nodes")]
        stay = [job_id for job_id in holding if job_id in self._shown]
        new = [job_id for job_id in holding if job_id not in self._shown]
        new.sort(key=lambda job_id: (job_id not in self._slots, alive[job_id].get("submit_time", 0.0), job_id))
        near = _neighbours([alive[job_id] for job_id in holding]) if new else {}
        taken = {self._slots[job_id] for job_id in stay}
        placed = set(stay)
        for job_id in new:
            colours = {self._slots[other] % len(COLOURS) for other in near[job_id] & placed}
            slot = _free(self._slots.get(job_id, _number(job_id)) % _SLOTS, taken, colours)
            self._slots[job_id] = slot
            taken.add(slot)
            placed.add(job_id)
        self._shown = {job_id: _SYMBOLS[self._slots[job_id]] for job_id in holding}
        return self._shown


def symbols_of(jobs: Iterable[PublishedJob]) -> Mapping[str, Symbol]:
    """Return the symbols of the running jobs for a single frame."""
    return Symbols().of(jobs)


def _free(slot: int, taken: Collection[int], colours: set[int]) -> int:
    """Return `slot` or the next free one.

    Its letter is unused while such a letter exists; its colour is none of `colours` and similar to none of them while such
    a colour exists. The result is `slot` itself where nothing is free.
    """
    if len(taken) == _SLOTS:
        return slot
    letters = {one % len(LETTERS) for one in taken}
    letters = letters if len(letters) < len(LETTERS) else set()
    alike = {near for colour in colours for near in _LOOKS_LIKE[colour]}
    for avoided in (alike, colours, set[int]()):
        for step in range(_SLOTS):
            found = (slot + step) % _SLOTS
            if found not in taken and found % len(LETTERS) not in letters and found % len(COLOURS) not in avoided:
                return found
    return slot


def _neighbours(jobs: Sequence[PublishedJob]) -> dict[str, set[str]]:
    """Return, for each job, the jobs on its nodes and on the adjacent nodes in the order of names, and the adjacent jobs in
    the list.
    """
    on: dict[str, set[str]] = defaultdict(set)
    for job in jobs:
        for node, _ in job.get("nodes", []):
            on[node].add(job["id"])
    order = sorted(on, key=_counted)
    near: dict[str, set[str]] = defaultdict(set)
    for one, other in [*((node, node) for node in order), *pairwise(order)]:
        for job_id in on[one]:
            near[job_id] |= on[other] - {job_id}
        for job_id in on[other]:
            near[job_id] |= on[one] - {job_id}
    for before, after in pairwise(jobs):
        near[before["id"]].add(after["id"])
        near[after["id"]].add(before["id"])
    return near


def _counted(name: str) -> list[str | int]:
    """Return a sort key that orders gpu9 before gpu10: texts and numbers alternate."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]{1,9})", name))]


def _looks_like(colour: str) -> set[int]:
    """Return the indexes of the colours similar to this one, its own among them."""
    parts = [bytes.fromhex(one[1:]) for one in COLOURS]
    own = bytes.fromhex(colour[1:])
    return {
        at
        for at, one in enumerate(parts)
        if sum((a - b) ** 2 for a, b in zip(one, own, strict=True)) < _SIMILAR_RGB_DISTANCE**2
    }


def _number(job_id: str) -> int:
    if job_id.isdecimal() and len(job_id) <= 18:  # nearly all, of thousands
        return int(job_id)
    return sum(int(digits) for digits in re.findall(r"[0-9]{1,18}", job_id))


_SYMBOLS = [
    Symbol(LETTERS[slot % len(LETTERS)], f"bold #14141c on {COLOURS[slot % len(COLOURS)]}") for slot in range(_SLOTS)
]
_LOOKS_LIKE = [_looks_like(colour) for colour in COLOURS]
