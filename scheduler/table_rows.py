"""Some rows of the tables of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from tiresias.scheduler.model import Allocations, Ints, Jobs, Nodes
from tiresias.scheduler.resources import Resources

T = TypeVar("T", Jobs, Nodes, Allocations)


def rows_of(table: T, rows: Ints) -> T:
    """Return these rows of each column."""
    pick = _picker(rows.tolist())
    columns: list[Any] = [getattr(table, name) for name in table.__dataclass_fields__]
    taken: list[Any] = [None if column is None else _taken(column, rows, pick) for column in columns]
    return type(table)(*taken)


def range_of(table: T, rows: slice) -> T:
    """Return a range of the rows of each column, whose arrays are views."""
    columns: list[Any] = [getattr(table, name) for name in table.__dataclass_fields__]
    taken: list[Any] = [column[rows] if isinstance(column, np.ndarray | tuple) else column for column in columns]
    return type(table)(*taken)


def _picker(rows: list[int]) -> Callable[[Any], Any]:
    """Return what takes these rows of a tuple. `itemgetter` returns a tuple for two rows or more."""
    return itemgetter(*rows) if len(rows) > 1 else lambda column: tuple([column[row] for row in rows])


def _taken(column: Any, rows: Ints, pick: Callable[[Any], Any]) -> Any:
    if isinstance(column, np.ndarray):
        return column.take(rows, axis=0)  # faster than an index
    if isinstance(column, tuple):
        return pick(column) if column else ()
    return column.rows(rows) if isinstance(column, Resources) else column.of_nodes(rows)
