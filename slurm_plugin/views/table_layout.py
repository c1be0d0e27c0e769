"""Layout of tables in a given number of cells.

Output to a file or a pipe has no width limit: each cell is printed whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.text import Text

from tiresias.slurm_plugin.views.text import printable

HEADING, FAINT = "bold", "bright_black"
Cell = tuple[str, str]  # text, style
UNLIMITED = 10_000  # width in cells that stands for output to a file or a pipe
CELL_LIMIT = 1000  # longest text of one table cell, in terminal cells, where it wraps or the width is unlimited


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: heading; also the key of the column's cells
        width: minimum width in cells
        share: share of the cells left over by the minimum widths
        limit: maximum width in cells
        right: whether the text is aligned to the right
        needs: minimum width of the table, in cells, at which the column is shown
        wraps: whether a longer text continues on further lines; otherwise it is cut
    """

    title: str
    width: int
    share: int = 0
    limit: int = 1000
    right: bool = False
    needs: int = 0
    wraps: bool = False


def fitted(columns: Sequence[Column], width: int, rows: Sequence[Mapping[str, Cell]] = ()) -> dict[str, int]:
    """Return the width in cells of each shown column, by title, with one blank between two columns.

    Where the width is unlimited, a column is as wide as its longest text in `rows`.
    """
    if width >= UNLIMITED:
        return {column.title: _longest(column, rows) for column in columns}
    shown = [column for column in columns if width >= column.needs]
    left = width - sum(column.width for column in shown) - len(shown) + 1
    shares = sum(column.share for column in shown)
    return {
        column.title: max(
            min(column.width + (left * column.share // shares if left > 0 and shares else 0), column.limit), 1
        )
        for column in shown
    }


def _longest(column: Column, rows: Sequence[Mapping[str, Cell]]) -> int:
    texts = (printable(row.get(column.title, ("", ""))[0], CELL_LIMIT) for row in rows)
    return max(len(column.title), *(cell_len(text) for text in texts), 1)


def heading(columns: Sequence[Column], widths: dict[str, int]) -> Text:
    """Return the line of column titles."""
    return row_line(columns, widths, {column.title: (column.title.strip(), FAINT) for column in columns})


def row_line(columns: Sequence[Column], widths: dict[str, int], cells: dict[str, Cell]) -> Text:
    """Return one row as one line; every cell passes through `printable`."""
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


def row_lines(columns: Sequence[Column], widths: dict[str, int], cells: Mapping[str, Cell]) -> list[Text]:
    """Return one row on as many lines as its wrapping cells need; every cell passes through `printable`."""
    wrapping = [column.title for column in columns if column.wraps and column.title in widths]
    texts = {title: wrapped(cells.get(title, ("", ""))[0], widths[title]) for title in wrapping}
    height = max((len(each) for each in texts.values()), default=1)
    plain = {title: cell for title, cell in cells.items() if title not in texts}
    rows = [
        {title: (each[at], cells.get(title, ("", ""))[1]) for title, each in texts.items() if at < len(each)}
        for at in range(height)
    ]
    found = [row_line(columns, widths, {**({} if at else plain), **row}) for at, row in enumerate(rows)]
    for one in found:
        one.rstrip()
    return found


def wrapped(text: str, width: int, limit: int = CELL_LIMIT) -> list[str]:
    """Break `text` into lines of at most `width` cells, at blanks where possible; at most `limit` cells in all."""
    done, current = list[str](), ""
    for word in printable(text, limit).split():
        joined = f"{current} {word}" if current else word
        if cell_len(joined) <= width:
            current = joined
            continue
        *full, rest = chop_cells(word, max(width, 2))
        done += [*([current] if current else []), *full]
        current = rest
    return [*done, current]


def styled(*parts: Cell) -> Text:
    """Return one line assembled from trusted parts: unlike table cells they are not made printable."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
