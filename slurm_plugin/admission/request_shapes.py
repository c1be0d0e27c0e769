"""Jobs by what is alike in their requests, kept from cycle to cycle. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import RecordValues, are_same

SPARE = 1000  # shapes without jobs that are kept


class Shape(NamedTuple):
    """One of the jobs whose requests are alike, and the ids of all."""

    job: SlurmJob
    ids: list[str]


class RequestShapes:
    """The shapes of the jobs of the newest call.

    Args:
        alike: Returns what jobs of one shape have in common.
    """

    def __init__(self, alike: Callable[[SlurmJob], Hashable]) -> None:
        self._alike = alike
        self._jobs: Sequence[SlurmJob] = ()
        self._shapes: Sequence[Shape] = ()
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._number_of = RecordValues(self._number)

    def _number(self, job: SlurmJob) -> int:
        return self._numbers.setdefault(self._alike(job), len(self._numbers))

    def of(self, jobs: Sequence[SlurmJob]) -> Sequence[Shape]:
        """Return the shapes in the order of their first jobs. O(jobs), with a call of `alike` for each new record."""
        if not are_same(jobs, self._jobs):
            self._jobs, self._shapes = tuple(jobs), self._grouped(jobs)
            if len(self._numbers) > 2 * len(self._shapes) + SPARE:
                self._forget()
        return self._shapes

    def _grouped(self, jobs: Sequence[SlurmJob]) -> list[Shape]:
        shapes: dict[int, Shape] = {}
        for job, number in zip(jobs, self._number_of.of(jobs), strict=True):
            known = shapes.get(number)
            if known is None:
                shapes[number] = Shape(job, [job.id])
            else:
                known.ids.append(job.id)
        return list(shapes.values())
