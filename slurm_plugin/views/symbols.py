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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
NONE: frozenset[str] = frozenset()


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
        taken = {self._slots[job_id] for job_id in stay}
        letters = {slot % len(LETTERS) for slot in taken}
        placed = set(stay)
        chosen = new[: _SLOTS - len(taken)]  # the others get the slots of their numbers: no free one is left for them
        near = _neighbours([alive[job_id] for job_id in holding], chosen) if chosen else {}
        for job_id in new:
            colours = {self._slots[other] % len(COLOURS) for other in near.get(job_id, NONE) & placed}
            slot = _free(self._slots.get(job_id, _number(job_id)) % _SLOTS, taken, letters, colours)
            self._slots[job_id] = slot
            taken.add(slot)
            letters.add(slot % len(LETTERS))
            placed.add(job_id)
        self._shown = {job_id: _SYMBOLS[self._slots[job_id]] for job_id in holding}
        return self._shown


def symbols_of(jobs: Iterable[PublishedJob]) -> Mapping[str, Symbol]:
    """Return the symbols of the running jobs for a single frame."""
    return Symbols().of(jobs)


def _free(slot: int, taken: Collection[int], used: Collection[int], colours: set[int]) -> int:
    """Return `slot` or the next free one. `used`: the letters of the taken slots.

    Its letter is unused while such a letter exists; its colour is none of `colours` and similar to none of them while such
    a colour exists. The result is `slot` itself where nothing is free.
    """
    if len(taken) == _SLOTS:
        return slot
    letters = used if len(used) < len(LETTERS) else ()
    alike = {near for colour in colours for near in _LOOKS_LIKE[colour]}
    for avoided in (one for one in (alike, colours, set[int]()) if len(one) < len(COLOURS)):
        for step in range(_SLOTS):
            found = (slot + step) % _SLOTS
            if found not in taken and found % len(LETTERS) not in letters and found % len(COLOURS) not in avoided:
                return found
    return slot


def _neighbours(jobs: Sequence[PublishedJob], chosen: Iterable[str]) -> dict[str, set[str]]:
    """Return, for each chosen job, the jobs on its nodes and on the adjacent nodes in the order of names, and the adjacent jobs in
    the list. O(nodes log nodes + jobs).
    """
    on: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        for node, _ in job.get("nodes", []):
            on[node].append(job["id"])
    order = sorted(on, key=_counted)
    place = {node: at for at, node in enumerate(order)}
    row = {job["id"]: at for at, job in enumerate(jobs)}
    near: dict[str, set[str]] = {}
    for job_id in chosen:
        at, places = row[job_id], [place[node] for node, _ in jobs[row[job_id]].get("nodes", [])]
        around = {node for each in places for node in order[max(each - 1, 0) : each + 2]}
        beside = {job["id"] for job in (*jobs[max(at - 1, 0) : at], *jobs[at + 1 : at + 2])}
        near[job_id] = ({one for node in around for one in on[node]} | beside) - {job_id}
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
