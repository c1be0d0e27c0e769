"""`tiresias cells` as one renderable: virtual clusters with their free cells, then both trees.

On a terminal the trees are as deep as its lines allow; a file or a pipe gets every cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.errors import UsageError
from tiresias.protocol.published_cells import Cells, PublishedCell, PublishedClusterCells
from tiresias.slurm_plugin.views.cell_table import cell_table
from tiresias.slurm_plugin.views.cell_tree import ALL_LEVELS, CellTree
from tiresias.slurm_plugin.views.status import titled
from tiresias.slurm_plugin.views.table_layout import FAINT, UNLIMITED, styled
from tiresias.slurm_plugin.views.text import duration, printable

_PIPE_WIDTH = 100  # of the rules in a file or a pipe, in cells
_DEPTHS = (ALL_LEVELS, 3, 2, 1)
_NO_LIMIT = 10**9  # lines


def render_cells(cells: Cells, width: int, height: int, now: float, only: str = "") -> RenderableType:
    """Return the view in at most `height` lines of `width` cells; a width of UNLIMITED leaves nothing out.

    Args:
        cells: As published.
        width: In cells.
        height: In lines.
        now: Epoch seconds.
        only: Name of the one virtual cluster that is shown; "": all.

    Raises:
        UsageError: There is no such virtual cluster.
    """
    shown = chosen(cells, only)
    rule = width if width < UNLIMITED else _PIPE_WIDTH
    head = [_title(cells, shown, now), *titled("free cells", cell_table(cells, only, width), rule)]
    left = (height if width < UNLIMITED else _NO_LIMIT) - len(head)
    trees: list[Text] = []
    for depth in _DEPTHS:
        trees = [line for each in _sections(cells, shown, only, (width, rule), depth) for line in each]
        if len(trees) <= left:
            break
    return Group(*(head + _cut(trees, left))[:height] if width < UNLIMITED else (*head, *trees))


def chosen(cells: Cells, only: str) -> Sequence[PublishedClusterCells]:
    """Return the virtual clusters to show. Raises UsageError for an unknown name."""
    known = cells["virtual_clusters"]
    shown = [each for each in known if only in ("", each["name"])]
    if not shown:
        names = ", ".join(printable(each["name"], 40) for each in known)
        raise UsageError(f"no virtual cluster {printable(only, 40)}; there are {names or 'none'}")
    return shown


def _title(cells: Cells, shown: Sequence[PublishedClusterCells], now: float) -> Text:
    count = len(cells["virtual_clusters"])
    what = (
        f"{count} virtual cluster{'' if count == 1 else 's'}"
        if len(shown) == count
        else f"1 of {count} virtual clusters"
    )
    age = now - cells["time"]
    late = age > 3 * cells["period"] + 10.0
    return styled(
        ("Tiresias ", "bold"),
        (printable(cells["cluster"], 24), "bold cyan"),
        (f"  cells of {what}  ", ""),
        (f"{duration(age)} ago", "bold red" if late else FAINT),
    )


def _sections(
    cells: Cells, shown: Sequence[PublishedClusterCells], only: str, widths: tuple[int, int], depth: int
) -> Iterator[list[Text]]:
    """Yield the tree of each virtual cluster, then the hardware. widths: of the lines and of the rules."""
    width, rule = widths
    for each in shown:
        name, use = printable(each["name"], 40), f"{each['guaranteed']} of {each['gpus']} GPUs in use"
        yield titled(f"cells of {name}", CellTree(each["cells"], is_virtual=True).lines(width, depth), rule, use)
    hardware = [cell for cell in cells["hardware"] if not only or _has(cell, only)]
    if hardware:
        name = f"hardware that {printable(only, 40)} uses" if only else "hardware"
        yield titled(name, CellTree(hardware, is_virtual=False).lines(width, depth), rule)


def _has(cell: PublishedCell, cluster: str) -> bool:
    return cell.get("cluster") == cluster or any(_has(part, cluster) for part in cell.get("parts", ()))


def _cut(lines: list[Text], height: int) -> list[Text]:
    """Return the first lines, and how many are left out."""
    if len(lines) <= max(height, 0):
        return lines
    kept = max(height - 1, 0)
    rest = f"… and {len(lines) - kept} more lines; --virtual-cluster NAME shows one virtual cluster"
    return [*lines[:kept], styled((rest, FAINT))]
