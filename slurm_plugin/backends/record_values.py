"""What follows from the record of a job alone, computed once for each record: the back ends return unchanged records again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiresias.slurm_plugin.backends.interface import SlurmJob

Value = TypeVar("Value")

id_of: Callable[[SlurmJob], str] = attrgetter("id")


def are_same(first: Sequence[object], second: Sequence[object]) -> bool:
    """Return whether two sequences have the same objects in the same order. O(objects)."""
    return len(first) == len(second) and all(map(is_, first, second))


class ObjectPlaces:
    """Objects, such as records, that are found again by identity. O(objects log(objects)).

    Args:
        objects: They are kept, so that no other object gets the identity of one of them.
    """

    def __init__(self, objects: Sequence[object] = ()) -> None:
        self._objects = tuple(objects)
        self._identities = np.fromiter(map(id, self._objects), np.int64, len(self._objects))
        order = np.argsort(self._identities)
        self._place = np.append(order, -1)
        self._sorted = np.append(self._identities[order], np.iinfo(np.int64).max)

    def are(self, objects: Sequence[object]) -> bool:
        """Return whether these are the same objects in the same order. O(objects)."""
        return are_same(objects, self._objects)

    def in_others(self, others: ObjectPlaces) -> NDArray[np.int64]:
        """Return where each object is among others, shape (objects,); -1: it is not there."""
        found = np.searchsorted(others._sorted, self._identities)
        return np.where(others._sorted[found] == self._identities, others._place[found], -1)


class RecordValues(Generic[Value]):
    """The values of the records of the newest call.

    Args:
        compute: Returns the value of a record; never None.
    """

    def __init__(self, compute: Callable[[SlurmJob], Value]) -> None:
        self._compute, self._places = compute, ObjectPlaces()
        self._array = np.full(1, None, np.object_)  # the last one is of no record
        self._values: Sequence[Value] = ()

    def of(self, jobs: Sequence[SlurmJob]) -> Sequence[Value]:
        """Return the value of each record. O(records log(records)), with a call of `compute` for each new one."""
        if not self._places.are(jobs):
            places = ObjectPlaces(jobs)
            place = places.in_others(self._places)
            values = self._array[np.append(place, -1)]
            for at in np.flatnonzero(place < 0).tolist():
                values[at] = self._compute(jobs[at])
            self._places, self._array, self._values = places, values, tuple(values[:-1].tolist())
        return self._values
