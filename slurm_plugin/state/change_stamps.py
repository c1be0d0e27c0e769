"""Objects whose changes are numbered, so that what was computed from one is computed again only after a change."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

_next = count().__next__
_set = object.__setattr__
_newest = [0]


class Stamped:
    """An object with a stamp that each assignment to an attribute renews.

    Attributes:
        stamp: No two states of any objects of this process have the same one.
    """

    __slots__ = ("stamp",)
    stamp: int

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the attribute, also to an equal value."""
        stamp = _next()
        _set(self, name, value)
        _set(self, "stamp", stamp)
        _newest[0] = stamp


def newest_stamp() -> int:
    """Return a stamp; while it stays the same, no stamped object of this process has changed, and none was made."""
    return _newest[0]


def stamps_of(rows: Collection[Stamped]) -> NDArray[np.int64]:
    """Return the stamp of each object, shape (rows,)."""
    return np.fromiter(map(attrgetter("stamp"), rows), np.int64, len(rows))
