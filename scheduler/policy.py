"""What a policy is: who goes first. `decide` does everything else."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Bools, Ints, Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Arrays of shape (jobs,). order: rows, most urgent first. queue: of each row. promoted: rows whose service starts anew."""

    order: Ints
    queue: Ints
    promoted: Bools


class Policy(Protocol):
    """preempts: running jobs compete too, else they keep their GPUs. blocks: nobody overtakes the first job that does not fit."""

    @property
    def preempts(self) -> bool: ...
    @property
    def blocks(self) -> bool: ...
    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking: ...
    def next_change(self, snapshot: Snapshot, config: PolicyConfig) -> float:
        """The next moment at which the ranking changes although nothing happens; inf for never."""
        ...


def plain_ranking(keys: Sequence[npt.NDArray[np.generic]], snapshot: Snapshot) -> Ranking:
    """One queue and no promotion."""
    jobs = len(snapshot.jobs)
    return Ranking(ordered(keys, snapshot.jobs.id), np.zeros(jobs, np.int64), np.zeros(jobs, bool))


def never(snapshot: Snapshot, config: PolicyConfig) -> float:
    return math.inf


def ordered(keys: Sequence[npt.NDArray[np.generic]], ids: Sequence[str]) -> Ints:
    """Rows by the keys, the most significant first; the id breaks ties. O(n log n), ids are looked at in ties only."""
    order = np.lexsort(tuple(reversed(keys)))
    tied = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        tied &= key[order[1:]] == key[order[:-1]]
    if tied.any():
        twins = np.flatnonzero(np.concatenate((tied, [False])) | np.concatenate(([False], tied)))
        group = np.cumsum(np.concatenate(([True], ~tied)))[twins].tolist()
        rows = order[twins].tolist()
        names = [natural(ids[row]) for row in rows]
        order[twins] = [row for _, _, row in sorted(zip(group, names, rows, strict=True))]
    return order


def natural(job_id: str) -> tuple[tuple[str | int, ...], str]:
    """9 before 10, and task 12_3 before 12_10; the text itself at the end, so that 01 and 1 are told apart."""
    if job_id.isdecimal():
        return ("", int(job_id), ""), job_id
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", job_id)), job_id
