"""Some rows of the tables of a snapshot."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from tiresias.scheduler.model import Allocations, Ints, Jobs, Nodes
from tiresias.scheduler.resources import Resources

T = TypeVar("T", Jobs, Nodes, Allocations)


def rows_of(table: T, rows: Ints) -> T:
    """Return these rows of each column."""
    kind = type(table)
    return kind(*[_taken(getattr(table, name), rows) for name in _columns(kind)])


@lru_cache(maxsize=8)
def _columns(table: type[Any]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(table))


def _taken(column: Any, rows: Ints) -> Any:
    if column is None:
        return None
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(column, tuple):
        return tuple([column[row] for row in rows.tolist()]) if column else ()
    return column.rows(rows) if isinstance(column, Resources) else column.of_nodes(rows)
