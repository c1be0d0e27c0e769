"""The table of virtual clusters: what each owns and uses, its free cells by level, and the largest job that it could start now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from tiresias.protocol.published_cells import Cells, PublishedCellLevel, PublishedVirtualCluster
from tiresias.scheduler.cell_words import cells_in_words
from tiresias.slurm_plugin.views.table_layout import FAINT, Cell, Column, fitted, heading, row_line
from tiresias.slurm_plugin.views.text import duration

_COLUMNS = (
    Column("virtual cluster", 15, share=1, limit=24),
    Column("GPUs", 5, right=True),
    Column("used", 5, right=True),
    Column("beyond", 6, right=True),
    Column("owns", 9, share=1, limit=20),
    Column("free cells", 16, share=1, limit=26),
    Column("largest job now", 15, share=1, limit=22),  # in GPUs
    Column("fragmented", 10, right=True, needs=100),
    Column("waiting", 10, right=True, needs=110),
    Column("broken", 6, right=True, needs=120),
)
Row = dict[str, Cell]


def cell_table(cells: Cells, only: str, width: int) -> list[Text]:
    """Return the table with its heading. `only`: the name of one virtual cluster; "": all, and the hardware."""
    rows = [row for each in cells["virtual_clusters"] if only in ("", each["name"]) for row in _cluster(each)]
    if not only:
        rows += _rest(cells)
    widths = fitted(_COLUMNS, width, rows)
    lines = [heading(_COLUMNS, widths), *(row_line(_COLUMNS, widths, row) for row in rows)]
    for line in lines:
        line.rstrip()
    return lines


def _cluster(cluster: PublishedVirtualCluster) -> Iterator[Row]:
    """Yield a row for each level; the first one has the sums."""
    waiting = f"{cluster['waiting']}, {duration(cluster['longest_wait'])}" if cluster["waiting"] else "0"
    first: Row = {
        "virtual cluster": (cluster["name"], "bold"),
        "GPUs": (str(cluster["gpus"]), ""),
        "used": (str(cluster["guaranteed"]), "cyan"),
        "beyond": (str(cluster["opportunistic"]), "magenta" if cluster["opportunistic"] else FAINT),
        "fragmented": (f"{cluster['fragmented']} of {cluster['nodes']}", "yellow" if cluster["fragmented"] else FAINT),
        "waiting": (waiting, "yellow" if cluster["waiting"] else FAINT),
        "broken": (str(cluster["broken"]), "bold red" if cluster["broken"] else FAINT),
    }
    yield from _levels(cluster["levels"], first)


def _levels(levels: Sequence[PublishedCellLevel], first: Row) -> Iterator[Row]:
    for at, level in enumerate(levels):
        yield ({} if at else first) | {
            "owns": (cells_in_words(level["owned"], level["type"]) if level["owned"] else "", ""),
            "free cells": (
                f"{level['free']} of {cells_in_words(level['cells'], level['type'])}",
                "green" if level["free"] else FAINT,
            ),
            "largest job now": (f"{level['largest']} on a {level['type']}" if level["largest"] else "none", ""),
        }


def _rest(cells: Cells) -> Iterator[Row]:
    """Yield the jobs of no virtual cluster, unmanaged jobs, and the hardware."""
    for name, gpus in (("(none)", cells["outside"]), ("(unmanaged)", cells["unmanaged"])):
        if gpus:
            yield {"virtual cluster": (name, FAINT), "beyond": (str(gpus), "magenta")}
    total = sum(cell["gpus"] for cell in cells["hardware"])
    used = sum(
        cell.get("guaranteed", 0) + cell.get("opportunistic", 0) + cell.get("unmanaged", 0)
        for cell in cells["hardware"]
    )
    first: Row = {"virtual cluster": ("hardware", "bold")}
    if cells["hardware"]:
        first |= {"GPUs": (str(total), ""), "used": (str(used), "")}
    yield from _levels(cells["levels"], first)
