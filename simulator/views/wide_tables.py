"""Tables that are wider than the terminal: their columns follow in several tables, so that no name and no number is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Column, Table

_ANY_WIDTH = 10_000  # cells


def in_parts(table: Table, width: int) -> Iterator[Table]:
    """Yield tables of at most `width` cells: each has the first column and as many of the others as fit, one at least."""
    name, *others = table.columns
    while others:
        count = len(others)
        while count > 1 and _width(_part(table, [name, *others[:count]])) > width:
            count -= 1
        yield _part(table, [name, *others[:count]])
        others = others[count:]


def _width(table: Table) -> int:
    return Console(width=_ANY_WIDTH, markup=False, emoji=False).measure(table).maximum


def _part(table: Table, columns: Sequence[Column]) -> Table:
    """Return a table of some of the columns."""
    part = Table(
        title=table.title,
        title_justify=table.title_justify,
        title_style=table.title_style,
        box=table.box,
        show_edge=table.show_edge,
    )
    for column in columns:
        part.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap)
    for row in zip(*(column.cells for column in columns), strict=True):
        part.add_row(*row)
    return part
