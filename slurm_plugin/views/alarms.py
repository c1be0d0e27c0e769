"""Lines above the tables: alarms, a pause of preemptions, and what mode shadow would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.slurm_plugin.views.header import stale_after
from tiresias.slurm_plugin.views.table_layout import (
    CELL_LIMIT,
    UNLIMITED,
    styled,
    wrapped,
)
from tiresias.slurm_plugin.views.text import clock, duration, service

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedPause
    from tiresias.protocol.status import PublishedMoves, PublishedShadow, Status

_MAX_ALARM_LINES = 4


def alarms(status: Status, now: float, width: int) -> list[Text]:
    """Return the alarms for administrators, in at most _MAX_ALARM_LINES lines where the width is limited."""
    found = list(status.get("alarms", []))
    if (age := now - status.get("time", now)) > stale_after(status):
        found.insert(0, f"no cycle for {duration(age)}: the controller may hang; see its log")
    if pause := status.get("paused"):
        found.insert(0, pause_text(pause, now))
    limit = _MAX_ALARM_LINES if width < UNLIMITED else len(found)
    shown, lines = 0, list[str]()
    for alarm in found:
        left = limit - len(lines) - (shown + 1 < len(found))  # the last line reports how many alarms are left out
        if left < 1:
            break
        lines += wrapped(f"! {alarm}", width, min(left * (width - 1), 5 * CELL_LIMIT))[:left]
        shown += 1
    more = [f"! … and {len(found) - shown} more alarms"] if shown < len(found) else []
    return [styled((one, "bold red")) for one in (*lines, *more)]


def pause_text(pause: PublishedPause, now: float) -> str:
    """Return the sentence that reports a pause of preemptions."""
    why = f": {pause['reason']}" if pause["reason"] else ""
    return f"no new preemptions since {clock(pause['since'], now)}, paused by {pause['by']}{why}"


def shadow_lines(status: Status, width: int) -> list[Text]:
    """Return what mode shadow would do in the newest cycle, and its comparison with Slurm so far."""
    found = status.get("shadow")
    if not found:
        return []
    now = f"would start {_moves(found['start'])}, preempt {_moves(found['preempt'])}"
    lines = [one for line in (now, *_so_far(found, width)) for one in wrapped(line, width)]
    return [styled((line, "yellow")) for line in lines]


def _moves(moves: PublishedMoves) -> str:
    return f"{moves['jobs']} job{'' if moves['jobs'] == 1 else 's'} ({moves['gpus']} GPUs)"


def _so_far(found: PublishedShadow, width: int) -> list[str]:
    if not (seconds := found.get("seconds", 0.0)):
        return []
    agreed = f"same as Slurm for {found['agreed'] / seconds:.0%} of {duration(seconds)}"
    runs = f"{found['sooner']} runs sooner, {found['preempted']} preempted"
    idle = service(found["idle"])
    long = f"{agreed}; {runs}; {idle} idle while jobs that fit wait"
    return [long if len(long) <= width else f"{agreed}; {runs}; {idle} idle"]
