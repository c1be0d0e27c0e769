"""What is known of the interference between kinds of jobs: how much one of each kind slows a job of another kind on the same node.

Pure; a `Snapshot` carries it to the placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

UNKNOWN_KIND = -1  # of a job of which nothing is expected
MOST_EXPECTED = 100.0  # a slowdown beyond this one counts as this one


@dataclass(frozen=True, slots=True, eq=False)
class InterferenceTable:
    """The expected slowdown of each kind of job beside one job of each kind.

    Attributes:
        kinds: Their names.
        slowdown: The time of a step of the row's kind beside one job of the column's kind, divided by its time alone; 1 to
            MOST_EXPECTED, shape (kinds, kinds).
    """

    kinds: tuple[str, ...]
    slowdown: npt.NDArray[np.float64]

    @classmethod
    def of(cls, kinds: Sequence[str], slowdown: npt.ArrayLike) -> InterferenceTable:
        """Return the table of these slowdowns; what is not finite or below 1 counts as 1.

        Args:
            kinds: Their names, all different.
            slowdown: Shape (kinds, kinds).
        """
        found = np.array(slowdown, np.float64).reshape(len(kinds), len(kinds))
        found = np.where(np.isfinite(found), found, 1.0)
        return cls(tuple(kinds), np.clip(found, 1.0, MOST_EXPECTED))

    @property
    def excess(self) -> npt.NDArray[np.float64]:
        """What each kind loses beside one job of each kind, as a part of its time alone, shape (kinds, kinds)."""
        return self.slowdown - 1.0
