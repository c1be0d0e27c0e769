"""Tables of exactly as many lines and cells as there is room for: rows that would not be seen are never built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from tiresias.slurm_plugin.views.text import printable

HEADING, FAINT = "bold", "bright_black"
Cell = tuple[str, str]  # text, style


@dataclass(frozen=True, slots=True)
class Column:
    """`width`: cells at least. `share`: its part of what is left over. `limit`: cells at most. `needs`: only shown in tables of
    at least so many cells."""

    title: str
    width: int
    share: int = 0
    limit: int = 1000
    right: bool = False
    needs: int = 0


def fitted(columns: Sequence[Column], width: int) -> dict[str, int]:
    """The cells that each shown column gets, by title; one blank stands between two."""
    shown = [column for column in columns if width >= column.needs]
    left = width - sum(column.width for column in shown) - len(shown) + 1
    shares = sum(column.share for column in shown)
    return {
        column.title: max(
            min(column.width + (left * column.share // shares if left > 0 and shares else 0), column.limit), 1
        )
        for column in shown
    }


def heading(columns: Sequence[Column], widths: dict[str, int]) -> Text:
    return line(columns, widths, {column.title: (column.title.strip(), FAINT) for column in columns})


def line(columns: Sequence[Column], widths: dict[str, int], cells: dict[str, Cell]) -> Text:
    """One row. Every cell passes through `printable`."""
    row = Text(no_wrap=True, overflow="crop")
    for position, column in enumerate(column for column in columns if column.title in widths):
        text, style = cells.get(column.title, ("", ""))
        text = printable(text, widths[column.title])
        padding = " " * (widths[column.title] - cell_len(text))
        row.append(" " if position else "")
        row.append(padding if column.right else "")
        row.append(text, style)
        row.append("" if column.right else padding)
    return row


def words(*parts: Cell) -> Text:
    """One line from parts of our own making."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
