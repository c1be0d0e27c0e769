"""Map of nodes x GPUs: one cell for each GPU, in the letter and colour of the job that holds it.

gpu01  A A A A     a letter: a managed job     .  free gpu02  B B . #     #: an unmanaged job         -  free but
unavailable: the node is drained or down, its name ends in !   The name of a node on which runs fail ends in ?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.slurm_plugin.views.symbols import NO_SYMBOL, Symbol
from tiresias.slurm_plugin.views.table_layout import FAINT, styled
from tiresias.slurm_plugin.views.text import printable

if TYPE_CHECKING:
    from tiresias.protocol.status import PublishedNode, PublishedRest

LEGEND = "· free   # unmanaged   - unavailable!"
_FREE, _OTHER, _UNUSABLE = ("·", FAINT), ("#", "#14141c on #9a9aa5"), ("-", "red")
_BAD_STATES = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "MAINT", "POWER", "UNKNOWN", "REBOOT")
_NAME_LIMIT = 16
_GAP = 2


def node_map(
    nodes: Sequence[PublishedNode],
    symbols: Mapping[str, Symbol],
    width: int,
    lines: int,
    widest: int = 2,
    rest: PublishedRest | None = None,
) -> list[Text]:
    """Return the map in at most `lines` lines of `width` cells.

    A GPU gets `widest` cells, or fewer where more nodes are visible that way. rest: sums of nodes that are not in `nodes`.
    """
    if not nodes or lines < 1:
        return []
    name = min(max(len(printable(node["name"], _NAME_LIMIT)) for node in nodes) + 1, _NAME_LIMIT)
    gpus = max([node.get("gpus", 0) for node in nodes] + ([rest["widest"]] if rest else []))
    count = len(nodes) + (rest["nodes"] if rest else 0)
    cell, across = _spread(count, name + 1, max(gpus, 1), width, lines, widest)
    shown = across * lines if across * lines >= count else across * (lines - 1)
    drawn = [_node(node, symbols, name, gpus, cell) for node in nodes[:shown]]
    rows = -(-len(drawn) // across)  # read downwards, as the names count
    result = [styled(*_joined(drawn[row::rows])) for row in range(rows)]
    return result + ([_rest(nodes[shown:], rest)] if len(drawn) < count else [])


def _spread(nodes: int, label: int, gpus: int, width: int, lines: int, widest: int) -> tuple[int, int]:
    """Return cells per GPU and nodes per line: the widest cells with which every node is visible, else the narrowest."""
    for cell in range(widest, 0, -1):
        across = max((width + _GAP) // (label + gpus * cell + _GAP), 1)
        if across * lines >= nodes and label + gpus * cell <= width:
            break
    return cell, across


def usable(node: PublishedNode) -> bool:
    """Return whether Slurm can start jobs on the node."""
    return not any(bad in node.get("state", "") for bad in _BAD_STATES)


def _node(node: PublishedNode, symbols: Mapping[str, Symbol], name: int, gpus: int, cell: int) -> list[tuple[str, str]]:
    label = printable(node["name"], name - 1) + ("!" if not usable(node) else "?" if node.get("failing") else "")
    cells = [part for each in _cells(node, symbols) for part in _drawn(each, cell)]
    blank = " " * (gpus - node.get("gpus", 0)) * cell
    return [(f"{label:{name}} ", "bold red" if label.endswith(("!", "?")) else ""), *cells, (blank, "")]


def _cells(node: PublishedNode, symbols: Mapping[str, Symbol]) -> list[tuple[str, str]]:
    held: list[tuple[str, str]] = []
    for job, count in node.get("allocations", []):
        symbol = symbols.get(job, NO_SYMBOL)
        held += [(symbol.letter, symbol.style)] * count
    held += [_OTHER] * node.get("other_gpus", 0)
    total = node.get("gpus", 0)
    return (held + [_FREE if usable(node) else _UNUSABLE] * (total - len(held)))[:total]


def _drawn(what: tuple[str, str], cell: int) -> list[tuple[str, str]]:
    """One GPU; where cells are wide, a gap shows where it ends."""
    gap = int(cell >= 4)
    return [(f"{what[0]:^{cell - gap}}", what[1]), (" " * gap, "")]


def _joined(row: list[list[tuple[str, str]]]) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for position, each in enumerate(row):
        parts += [(" " * _GAP, ""), *each] if position else each
    return parts


def _rest(nodes: Sequence[PublishedNode], rest: PublishedRest | None) -> Text:
    total = sum(node.get("gpus", 0) for node in nodes) + (rest["gpus"] if rest else 0)
    used = sum(count for node in nodes for _, count in node.get("allocations", []))
    used += rest["managed_gpus"] if rest else 0
    count = len(nodes) + (rest["nodes"] if rest else 0)
    return styled((f"… and {count} more nodes: managed jobs hold {used} of their {total} GPUs", FAINT))
