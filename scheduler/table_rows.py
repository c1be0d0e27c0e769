"""Some rows of the tables of a snapshot."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from tiresias.scheduler.model import Allocations, Ints, Jobs, Nodes
from tiresias.scheduler.resources import Resources

T = TypeVar("T", Jobs, Nodes, Allocations)


def rows_of(table: T, rows: Ints) -> T:
    """Return these rows of each column."""
    listed = rows.tolist()
    return type(table)(*[_taken(getattr(table, name), rows, listed) for name in table.__dataclass_fields__])


def range_of(jobs: Jobs, rows: slice) -> Jobs:
    """Return a range of the rows of each column, without a copy of the arrays."""
    columns = [getattr(jobs, name) for name in jobs.__dataclass_fields__]
    found: list[Any] = [None if column is None else column[rows] for column in columns]
    return Jobs(*found)


def _taken(column: Any, rows: Ints, listed: list[int]) -> Any:
    if column is None:
        return None
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(column, tuple):
        return tuple([column[row] for row in listed]) if column else ()
    return column.rows(rows) if isinstance(column, Resources) else column.of_nodes(rows)
