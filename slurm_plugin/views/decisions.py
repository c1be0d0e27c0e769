"""The decisions of the controller as a table, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.slurm_plugin.views.table_layout import (
    FAINT,
    Cell,
    Column,
    fitted,
    row_line,
    row_lines,
    styled,
)
from tiresias.slurm_plugin.views.text import clock

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedDecision

ACTION_STYLES = {
    "start": "cyan", "running": "green", "preempt": "magenta", "parked": "magenta", "ended": "bright_black",
    "left running": "yellow", "not started": "yellow", "refused": "red", "released": "yellow", "promote": "blue",
    "shadow": "yellow", "restart": "magenta", "restarted": "magenta", "resize": "magenta",
}  # fmt: skip
_DECISIONS = (
    Column("time", 12, limit=12),
    Column("action", 12),
    Column("job", 7),
    Column("why", 10, share=1, wraps=True),
)


def decision_list(decisions: Sequence[PublishedDecision], now: float, width: int, lines: int) -> list[Text]:
    """Return the newest `lines` decisions, one line each, newest first."""
    if lines < 1:
        return []
    newest = sorted(decisions, key=lambda decision: -decision["time"])[:lines]
    widths = fitted(_DECISIONS, width)
    return [row_line(_DECISIONS, widths, _decision_cells(each, now)) for each in newest] or [
        styled(("none yet", FAINT))
    ]


def decision_page(decisions: Sequence[PublishedDecision], now: float, width: int) -> list[Text]:
    """Return all decisions, newest first, each with its whole reason on as many lines as needed."""
    rows = [_decision_cells(each, now) for each in sorted(decisions, key=lambda decision: -decision["time"])]
    widths = fitted(_DECISIONS, width, rows)
    return [line for row in rows for line in row_lines(_DECISIONS, widths, row)] or [styled(("none yet", FAINT))]


def _decision_cells(decision: PublishedDecision, now: float) -> dict[str, Cell]:
    action = decision["action"]
    return {
        "time": (clock(decision["time"], now), FAINT),
        "action": (action, ACTION_STYLES.get(action, "")),
        "job": (decision["job"], "bold"),
        "why": (decision["why"], ""),
    }
