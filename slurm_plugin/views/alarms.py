"""Lines above the tables: alarms, a pause of preemptions, and what mode shadow would do."""

from __future__ import annotations

from rich.text import Text

from tiresias.protocol.published_job import PublishedPause
from tiresias.protocol.status import PublishedMoves, PublishedShadow, Status
from tiresias.slurm_plugin.views.header import stale_after
from tiresias.slurm_plugin.views.table_layout import (
    CELL_LIMIT,
    UNLIMITED,
    styled,
    wrapped,
)
from tiresias.slurm_plugin.views.text import clock, duration, service

_ALARM_LINES = 4


def alarms(status: Status, now: float, width: int) -> list[Text]:
    """What an administrator must see, in at most _ALARM_LINES lines where the width is limited."""
    found = list(status.get("alarms", []))
    if (age := now - status.get("time", now)) > stale_after(status):
        found.insert(0, f"no cycle for {duration(age)}: the controller may be stuck; see its log")
    if pause := status.get("paused"):
        found.insert(0, pause_text(pause, now))
    limit = _ALARM_LINES if width < UNLIMITED else len(found)
    shown, lines = 0, list[str]()
    for alarm in found:
        left = limit - len(lines) - (shown + 1 < len(found))  # one line counts the others
        if left < 1:
            break
        lines += wrapped(f"! {alarm}", width, min(left * (width - 1), 5 * CELL_LIMIT))[:left]
        shown += 1
    more = [f"! … and {len(found) - shown} more alarms"] if shown < len(found) else []
    return [styled((one, "bold red")) for one in (*lines, *more)]


def pause_text(pause: PublishedPause, now: float) -> str:
    why = f": {pause['reason']}" if pause["reason"] else ""
    return f"no new preemptions since {clock(pause['since'], now)}, paused by {pause['by']}{why}"


def shadow_lines(status: Status, width: int) -> list[Text]:
    """Mode shadow: what would be done now, and what would have been otherwise so far."""
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
    agreed = f"as Slurm {found['agreed'] / seconds:.0%} of {duration(seconds)}"
    runs = f"{found['sooner']} runs sooner, {found['preempted']} preempted"
    idle = service(found["idle"])
    long = f"{agreed}; {runs}; {idle} idle beside jobs that fit"
    return [long if len(long) <= width else f"{agreed}; {runs}; {idle} idle"]
