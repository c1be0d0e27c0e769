"""A tree of cells as lines: one for each cell, one for all equal cells that no job uses, such as `14 leaves free`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from tiresias.protocol.published_cells import PublishedCell
from tiresias.scheduler.cell_words import cells_in_words
from tiresias.slurm_plugin.views.table_layout import FAINT, Cell, Column, fitted, heading, row_line

ALL_LEVELS = 99  # a depth that leaves no part out
STATE_STYLES = {
    "free": "green", "owned": "cyan", "used": "cyan", "opportunistic": "magenta", "unmanaged": "yellow", "bad": "red",
    "doomed": "bold red", "mixed": "",
}  # fmt: skip
_INDENT = "  "
_NAMED = 50  # of equal cells
_COLUMNS = (
    Column("cell", 22, share=2, limit=44),
    Column("place", 12, share=2, limit=30, needs=60),
    Column("state", 13, share=3, limit=36),
    Column("in use", 9, right=True),
    Column("jobs", 10, share=2),
)


@dataclass(frozen=True, slots=True)
class CellTree:
    """The cells of the hardware or of a virtual cluster.

    Attributes:
        cells: The topmost cells, as published.
        is_virtual: Whether they belong to a virtual cluster.
    """

    cells: Sequence[PublishedCell]
    is_virtual: bool

    def lines(self, width: int, depth: int = ALL_LEVELS) -> list[Text]:
        """Return the lines with a heading; parts below `depth` levels are counted in their cell's line."""
        columns = tuple(replace(each, title=self._place) if each.title == "place" else each for each in _COLUMNS)
        rows = [*self._rows(self.cells, depth, "")]
        widths = fitted(columns, width, rows)
        found = [heading(columns, widths), *(row_line(columns, widths, row) for row in rows)]
        for line in found:
            line.rstrip()
        return found

    @property
    def _place(self) -> str:
        return "bound to" if self.is_virtual else "owned by"

    def _rows(self, cells: Sequence[PublishedCell], depth: int, indent: str) -> Iterator[dict[str, Cell]]:
        """Yield a row for each cell and its parts; equal cells without jobs have one, where the first of them is."""
        groups: dict[object, list[PublishedCell]] = {}
        for at, cell in enumerate(cells):
            groups.setdefault(_kind(cell) or at, []).append(cell)
        for group in groups.values():
            yield self._row(group, depth, indent)
            if depth > 1:
                yield from self._rows(group[0].get("parts", ()), depth - 1, indent + _INDENT)

    def _row(self, group: Sequence[PublishedCell], depth: int, indent: str) -> dict[str, Cell]:
        cell, total = group[0], sum(each["gpus"] for each in group)
        used = cell.get("guaranteed", 0) + cell.get("opportunistic", 0) + cell.get("unmanaged", 0)
        whole = depth > 1 or not cell.get("parts")
        return {
            "cell": (indent + self._label(group), "" if indent else "bold"),
            self._place: (_hardware(cell) if self.is_virtual else _owner(cell), ""),
            "state": (_state(cell), STATE_STYLES.get(cell["state"], "")),
            "in use": (f"{used}/{total}", "" if used else FAINT),
            "jobs": self._jobs(group) if whole else (_parts_in_words(cell), FAINT),
        }

    def _label(self, group: Sequence[PublishedCell]) -> str:
        first, nodes = group[0], _span(group[0].get("nodes", ()))
        if len(group) > 1:
            return cells_in_words(len(group), first["type"])
        more = "" if self.is_virtual or nodes in ("", first["name"]) else f": {nodes}"
        return f"{first['type']} {first['name']}{more}"

    def _jobs(self, group: Sequence[PublishedCell]) -> Cell:
        """Return the jobs on a cell with their GPUs; of several cells, which have no jobs, the nodes."""
        cell = group[0]
        if len(group) > 1:
            return " ".join(_span(each.get("nodes", ())) for each in group[:_NAMED]), FAINT
        style = "magenta" if cell.get("opportunistic") and not cell.get("guaranteed") else "green"
        return " ".join(f"{job}:{gpus}" for job, gpus in cell.get("jobs", ())), style


def _kind(cell: PublishedCell) -> tuple[str, ...]:
    """Return what equal cells have in common; () of a cell with jobs or parts, which has a line of its own."""
    if cell.get("jobs") or cell.get("parts") or cell.get("bound") or cell.get("unmanaged"):
        return ()
    return cell["type"], cell["state"], cell.get("cluster", "")


def _owner(cell: PublishedCell) -> str:
    """Return the virtual cell to which hardware is bound, else the virtual cluster that owns the cell above."""
    owner = cell.get("bound") or cell.get("cluster", "")
    return f"{owner}, pinned" if cell.get("pinned") else owner


def _hardware(cell: PublishedCell) -> str:
    """Return the hardware of a cell of a virtual cluster: that to which it is pinned, else the nodes to which it is bound."""
    return f"pinned: {cell['pinned']}" if cell.get("pinned") else _span(cell.get("nodes", ()))


def _span(nodes: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys(nodes))


def _state(cell: PublishedCell) -> str:
    """Return the state in words; of an owned cell also the use by opportunistic jobs."""
    lent, others = cell.get("opportunistic", 0), cell.get("unmanaged", 0)
    words = [cell["state"]]
    if cell["state"] in ("owned", "mixed") and lent:
        words.append(f"{lent} opportunistic")
    if cell["state"] in ("owned", "mixed", "opportunistic") and others:
        words.append(f"{others} unmanaged")
    return ", ".join(words)


def _parts_in_words(cell: PublishedCell) -> str:
    """Return the parts of a cell by state: 3 nodes used, 1 node free."""
    found = Counter((part["type"], part["state"]) for part in cell.get("parts", ()))
    return ", ".join(f"{cells_in_words(count, kind)} {state}" for (kind, state), count in found.items())
