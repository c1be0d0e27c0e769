"""How much service jobs need in all, and how promising a job is that has had so much already: the Gittins index.

The index of a job with service a is the most completions for the least service: P(S - a <= D | S > a) / E[min(S - a, D) | S > a]
(Tiresias, pseudocode 1, line 11) for a quantum D of service. Of known jobs with services S it is the number of jobs that
end between a and a + D, over the service that all jobs beyond a use up in between.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.model import Floats, Ints


class Distribution:
    """The distribution of `services`, shape (jobs,), GPU-seconds of whole jobs in any order.

    A job with more attained service than all of them has index 0, the least promising.
    """

    def __init__(self, services: npt.ArrayLike) -> None:
        known = np.append(np.asarray(services, np.float64), 0.0)  # a job that needs nothing changes no index
        values, counts = np.unique(known, return_counts=True)
        self._services: Floats = values
        self._ended: Ints = np.concatenate(([0], np.cumsum(counts)))
        self._sums: Floats = np.concatenate(([0.0], np.cumsum(values * counts)))

    def within(self, attained: Values, quantum: Values) -> Values:
        """The index for this quantum; both in GPU-seconds. O(log services) a job."""
        return self._index(attained, attained + quantum)

    def best(self, attained: Values) -> Values:
        """The index for the best quantum, the supremum of pseudocode 1.

        The best quantum ends where a known job ends. Drawn as completions over service used, these moments are points, and the
        index is the slope to the steepest of those ahead, which is on their upper hull. O(log services) a job and a walk along
        the hull, which makes a step on average.
        """
        attained = np.asarray(attained)
        end = np.minimum(self._place(attained), len(self._services) - 1)
        index = self._index(attained, self._services[end])
        while True:
            further = self._hull[end]
            better = self._index(attained, self._services[further])
            if not (better > index).any():
                return index[()]  # of one job a number
            end, index = np.where(better > index, further, end), np.maximum(better, index)

    def _index(self, attained: Values, end: Values) -> Values:
        here, there = self._place(attained), self._place(end)
        ended = self._ended[there] - self._ended[here]
        used = self._used(end, there) - self._used(attained, here)
        return np.where(ended > 0, ended / np.where(used > 0, used, np.inf), 0.0)[()]

    def _place(self, service: Values) -> Values:
        """How many of the different services are at or below."""
        return np.searchsorted(self._services, service, side="right")

    def _used(self, service: Values, place: Values) -> Values:
        """By all jobs together, if each were ended when it has had so much."""
        return self._sums[place] + service * (self._ended[-1] - self._ended[place])

    @cached_property
    def _hull(self) -> Ints:
        """For each point the next one on the upper hull of itself and all that follow; the last one leads to itself."""
        used, ended = self._used(self._services, np.arange(1, len(self._sums))).tolist(), self._ended[1:].tolist()
        after = list(range(len(used)))
        for point in reversed(range(len(used) - 1)):
            end = point + 1
            while after[end] != end and _turns_up(used, ended, point, end, after[end]):
                end = after[end]
            after[point] = end
        return np.array(after, np.int64)


def _turns_up(used: list[float], ended: list[int], one: int, two: int, three: int) -> bool:
    """Whether the second point is below the line from the first to the third."""
    rise = (ended[two] - ended[one]) * (used[three] - used[one])
    return rise <= (ended[three] - ended[one]) * (used[two] - used[one])
