"""`tiresias status` as one renderable of a given size.

Narrow or low: one column. Wide: map and queues beside the jobs. File or pipe: one column with everything. Where lines are
short, jobs are left out first (with their number), then decisions, then nodes (with their number), never the header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tiresias.protocol.status_version import check_version
from tiresias.slurm_plugin.views.alarms import alarms, shadow_lines
from tiresias.slurm_plugin.views.decisions import decision_list, decision_page
from tiresias.slurm_plugin.views.header import brief_load, engine, engine_words, load, pulse, title, usage
from tiresias.slurm_plugin.views.jobs import JobTable, Listing
from tiresias.slurm_plugin.views.nodes import LEGEND, node_map
from tiresias.slurm_plugin.views.owners import owner_lines
from tiresias.slurm_plugin.views.queues import queue_table
from tiresias.slurm_plugin.views.remote_memory_text import pool_lines
from tiresias.slurm_plugin.views.table_layout import FAINT, HEADING, UNLIMITED, styled, wrapped
from tiresias.slurm_plugin.views.user_filter import listing_of

if TYPE_CHECKING:
    from tiresias.protocol.status import Status

_WIDE, _HIGH = 150, 30
_SIDE = 52  # cells of the left column, with its frame
_PIPE_WIDTH, _ALL_LINES = 100, 10**9  # width of the map in a file or a pipe, in cells; number of lines
_FRAME, _BORDERS = 4, 2  # cells and lines that a panel's frame and padding take


def render_status(
    status: Status, width: int, height: int, now: float, listing: Listing | None = None
) -> RenderableType:
    """Return the view in at most `height` lines of `width` cells.

    Args:
        status: as published
        width: in cells
        height: in lines
        now: epoch seconds
        listing: the jobs to show; None for all jobs

    Raises:
        TiresiasError: the status has another version.
    """
    check_version(status)
    listing = listing or listing_of(status, "")
    if width >= UNLIMITED:
        return _whole(status, listing, now)
    form = _wide if width >= _WIDE and height >= _HIGH else _narrow
    return form(status, listing, width, height, now)


def _whole(status: Status, listing: Listing, now: float) -> RenderableType:
    """Return the view for a file or a pipe: nothing is cut or left out; only the map and the rules have a width."""
    decisions = decision_page(status.get("decisions", []), now, UNLIMITED)
    parts = [
        styled((f"{title(status)}  {engine(status, now, UNLIMITED)}", "")),
        usage(status, _PIPE_WIDTH, brief_load(status)),
        *alarms(status, now, UNLIMITED),
        *shadow_lines(status, UNLIMITED),
        *owner_lines(status, UNLIMITED),
        *pool_lines(status, UNLIMITED),
        *queue_table(status.get("queues", []), UNLIMITED),
        *titled(
            "nodes", node_map(status.get("nodes", []), listing.symbols, _PIPE_WIDTH, _ALL_LINES), _PIPE_WIDTH, LEGEND
        ),
        *titled(listing.title, JobTable(status, listing, now).lines(UNLIMITED, _ALL_LINES), _PIPE_WIDTH),
        *titled("last decisions", decisions, _PIPE_WIDTH),
    ]
    for part in parts:
        part.rstrip()
    return Group(*parts)


def _narrow(status: Status, listing: Listing, width: int, height: int, now: float) -> RenderableType:
    known, nodes = listing.symbols, status.get("nodes", [])
    head = [*_header(status, width, height, now), usage(status, width, brief_load(status))]
    head += [*alarms(status, now, width), *shadow_lines(status, width), *owner_lines(status, width)]
    head += pool_lines(status, width)
    head += queue_table(status.get("queues", []), width)
    left = height - len(head)
    grid = node_map(nodes, known, width, max(left // 3 - 1, 0), rest=status.get("rest"))
    left -= len(grid) + bool(grid)
    decisions = decision_list(status.get("decisions", []), now, width, min(max(left // 6, 0), 6)) if left > 6 else []
    left -= len(decisions) + bool(decisions)
    jobs = JobTable(status, listing, now).lines(width, left - 1)
    parts = [
        *head,
        *titled("nodes", grid, width, LEGEND),
        *titled(listing.title, jobs, width),
        *titled("last decisions", decisions, width),
    ]
    return Group(*parts[:height])


def _wide(status: Status, listing: Listing, width: int, height: int, now: float) -> RenderableType:
    known, inner, side = listing.symbols, width - _FRAME, _SIDE - _FRAME
    queues = status.get("queues", [])
    top = [_spaced(usage(status, inner // 2), engine(status, now, inner // 2), inner)]
    top += [
        *load(status, inner),
        *alarms(status, now, inner),
        *shadow_lines(status, inner),
        *owner_lines(status, inner),
        *pool_lines(status, inner),
    ]
    newest = status.get("decisions", [])
    few = min(max(height // 8, 3), max(len(newest), 1))
    left = queue_table(queues, side)
    middle = height - len(top) - few - 2 * _BORDERS
    lines = middle - len(left) - 2 * _BORDERS
    grid = node_map(status.get("nodes", []), known, side, lines, widest=9, rest=status.get("rest"))
    right = JobTable(status, listing, now).lines(width - _SIDE - _FRAME, middle - _BORDERS)
    grid = _airy(grid, lines)
    level = max(len(left) + len(grid) + _BORDERS, len(right))
    decisions = decision_list(newest, now, inner, few + middle - _BORDERS - level)
    sides = Table.grid(expand=True)
    sides.add_column(width=_SIDE)
    sides.add_column(width=width - _SIDE)
    sides.add_row(
        Group(_panel("queues", left), _panel("nodes", _filled(grid, level - len(left) - _BORDERS), LEGEND)),
        _panel(listing.title, _filled(right, level)),
    )
    return Group(_panel(title(status), top), sides, _panel("last decisions", decisions))


def _airy(lines: list[Text], height: int) -> list[Text]:
    """Return the lines with a blank line between two, where `height` allows it."""
    if 2 * len(lines) - 1 > height:
        return lines
    return [each for one in lines for each in (one, Text())][:-1]


def _filled(lines: list[Text], count: int) -> list[Text]:
    return lines + [Text()] * (count - len(lines))


def _panel(name: Text | str, lines: list[Text], subtitle: str = "") -> Panel:
    heading = name if isinstance(name, Text) else Text(name, HEADING)
    below = Text(subtitle, FAINT) if subtitle else None
    return Panel(
        Group(*lines),
        title=heading,
        subtitle=below,
        title_align="left",
        subtitle_align="right",
        box=ROUNDED,
        border_style=FAINT,
        padding=(0, 1),
    )


def titled(name: str, lines: list[Text], width: int, note: str = "") -> list[Text]:
    """Return `lines` below a rule with their name."""
    if not lines:
        return []
    rule = "─" * max(width - len(name) - len(note) - 6, 0)
    return [
        styled(("─ ", FAINT), (name, HEADING), (f" {rule}", FAINT), (f" {note} ─" if note else "──", FAINT)),
        *lines,
    ]


def _header(status: Status, width: int, height: int, now: float) -> list[Text]:
    """Return the header on one line where it fits, on more lines where the view is high, else the first line shortened."""
    left, right = title(status), styled(*pulse(status, now))
    engine_line = engine_words(status)
    fits = left.cell_len + len(engine_line) + 3 + right.cell_len + 2 <= width
    if fits or height < _HIGH:
        return [opening(status, width, now)]
    return [_spaced(left, right, width), *(styled((one, "")) for one in wrapped(engine_line, width))]


def opening(status: Status, width: int, now: float) -> Text:
    """Return the first line: cluster, leader and age of the status."""
    left = title(status)
    return _spaced(left, engine(status, now, width - left.cell_len - 2), width)


def _spaced(left: Text, right: Text, width: int) -> Text:
    """Return `left` and, flush right, `right` on one line."""
    gap = max(width - left.cell_len - right.cell_len, 2)
    joined = Text.assemble(left, " " * gap, right, no_wrap=True, overflow="ellipsis")
    joined.truncate(width, overflow="ellipsis")
    return joined
