"""The parts around the map and the table of jobs: header, alarms, queues and the last decisions."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tiresias.slurm_plugin.views.columns import (
    CELL_LIMIT,
    FAINT,
    UNLIMITED,
    Cell,
    Column,
    fitted,
    folded,
    heading,
    line,
    lines,
    words,
)
from tiresias.slurm_plugin.views.published import (
    PublishedDecision,
    PublishedLoad,
    PublishedMoves,
    PublishedPause,
    PublishedQueue,
    PublishedShadow,
    Status,
)
from tiresias.slurm_plugin.views.text import clock, duration, printable, service

ACTION_STYLES = {
    "start": "cyan", "running": "green", "preempt": "magenta", "parked": "magenta", "ended": "bright_black",
    "left running": "yellow", "not started": "yellow", "refused": "red", "released": "yellow", "promote": "blue",
    "shadow": "yellow",
}  # fmt: skip
_MODE_STYLES = {"exact": "bold green", "shadow": "bold yellow"}
_ALARM_LINES = 4
_QUEUES = (
    Column("queue", 5),
    Column("attained service", 16, share=1, limit=26),
    Column("running", 7, right=True),
    Column("GPUs", 4, right=True),
    Column("waiting", 7, right=True),
    Column("GPUs ", 4, right=True),
)
_DECISIONS = (
    Column("time", 12, limit=12),
    Column("action", 12),
    Column("job", 7),
    Column("why", 10, share=1, wraps=True),
)


def title(status: Status) -> Text:
    mode = printable(status.get("mode", "?"), 10)
    return words(
        ("Tiresias ", "bold"),
        (printable(status.get("cluster", "?"), 24), "bold cyan"),
        (f"  {mode}", _MODE_STYLES.get(mode, "bold")),
        (_leader(status), FAINT),
        ("  paused" if status.get("paused") else "", "bold yellow"),
    )


def _leader(status: Status) -> str:
    """Who has the lead, how often it has changed hands, and whether somebody waits for it."""
    found = status.get("leader")
    if not found:
        return ""
    return f"  {printable(found['host'], 16)} epoch {found['epoch']}{'+standby' if found['standby'] else ''}"


def engine(status: Status, now: float, width: int) -> Text:
    """Policy, PACKLIMIT, back end with Slurm's version, and how fresh the view is; in fewer words where `width` is short."""
    short, long, slurm = _policy(status)
    forms = [f"{engine_words(status)}   ", f"{long}   {slurm}   ", f"{short}  {slurm}  ", f"{short}  ", ""]
    shown = [words((form, ""), *pulse(status, now)) for form in forms]
    return next((one for one in shown if one.cell_len <= width), shown[-1])


def engine_words(status: Status) -> str:
    """Policy, PACKLIMIT and back end."""
    _, long, slurm = _policy(status)
    return f"{long}{_packlimit(status)}   {slurm}"


def _policy(status: Status) -> tuple[str, str, str]:
    """Name and thresholds; these and the order within a queue; back end and Slurm's version."""
    policy = status.get("policy", {})
    thresholds = " ".join(service(each) for each in policy.get("thresholds", []))
    short = printable(f"{policy.get('name', '?')} {thresholds}".strip(), 40)
    long = f"{short} {printable(policy.get('in_queue_order', ''), 20)}".strip()
    return short, long, f"{printable(status.get('backend', '?'), 10)} {printable(status.get('slurm', '?'), 12)}"


def _packlimit(status: Status) -> str:
    """Above which skew jobs consolidate, and whether this site's own history says so."""
    found = status.get("packlimit")
    return f"   packlimit {found['limit']:.2g} {'learned' if found['learned'] else 'default'}" if found else ""


def load(status: Status, width: int) -> list[Text]:
    """What we ask of slurmctld, and how it bears everybody's calls, where that is known."""
    found = status.get("rpc")
    if not found:
        return []
    ours = f"slurmctld: our {found['per_minute']:.0f} calls/min"
    if seen := found["slurmctld"]:
        ours += f" take {_milliseconds(seen)} each, {seen['threads']} threads, {seen['queue']} waiting for one, "
        ours += f"{seen['database_queue']} for slurmdbd"
    if found["postponed"]:
        ours += f", {found['postponed']} moves wait for calls"
    return [words((printable(ours, width), FAINT))]


def brief_load(status: Status) -> str:
    seen = (status.get("rpc") or {"slurmctld": None})["slurmctld"]
    return f"   slurmctld {_milliseconds(seen)}" if seen else ""


def _milliseconds(seen: PublishedLoad) -> str:
    mean = seen["mean_ms"]
    return "?" if mean is None else f"{mean:.1f} ms" if mean < 10 else f"{mean:.0f} ms"


def usage(status: Status, width: int, more: str = "") -> Text:
    """A bar of the GPUs: our jobs', others', free; and what stands behind it."""
    nodes = status.get("nodes", [])
    total = sum(node.get("gpus", 0) for node in nodes)
    ours = sum(count for node in nodes for _, count in node.get("allocations", []))
    other = sum(node.get("other_gpus", 0) for node in nodes)
    queues = status.get("queues", [])
    running, waiting = sum(queue["running"] for queue in queues), sum(queue["waiting"] for queue in queues)
    share = f" {100 * ours // total}%" if total else ""
    blocked = f"   {count} blocked" if (count := len(status.get("blocked", []))) else ""
    tail = f" {ours}/{total} GPUs{share}   {running} running   {waiting} waiting{blocked}"
    tail += more if len(tail) + len(more) <= width else ""
    bar = max(min(width - len(tail), 60), 0)
    filled, foreign = (bar * ours // total, bar * other // total) if total else (0, 0)
    return words(
        ("━" * filled, "green"), ("━" * foreign, "yellow"), ("─" * (bar - filled - foreign), FAINT), (tail, "")
    )  # fmt: skip


def alarms(status: Status, now: float, width: int) -> list[Text]:
    """What an administrator must see, in at most _ALARM_LINES lines where the width is limited."""
    found = list(status.get("alarms", []))
    if (age := now - status.get("time", now)) > _stale_after(status):
        found.insert(0, f"no cycle for {duration(age)}: the controller may be stuck; see its log")
    if pause := status.get("paused"):
        found.insert(0, pause_words(pause, now))
    limit = _ALARM_LINES if width < UNLIMITED else len(found)
    shown, lines = 0, list[str]()
    for alarm in found:
        left = limit - len(lines) - (shown + 1 < len(found))  # one line counts the others
        if left < 1:
            break
        lines += folded(f"! {alarm}", width, min(left * (width - 1), 5 * CELL_LIMIT))[:left]
        shown += 1
    more = [f"! … and {len(found) - shown} more alarms"] if shown < len(found) else []
    return [words((one, "bold red")) for one in (*lines, *more)]


def pause_words(pause: PublishedPause, now: float) -> str:
    why = f": {pause['reason']}" if pause["reason"] else ""
    return f"no new preemptions since {clock(pause['since'], now)}, paused by {pause['by']}{why}"


def shadow_lines(status: Status, width: int) -> list[Text]:
    """Mode shadow: what would be done now, and what would have been otherwise so far."""
    found = status.get("shadow")
    if not found:
        return []
    now = f"would start {_moves(found['start'])}, preempt {_moves(found['preempt'])}"
    lines = [one for line in (now, *_so_far(found, width)) for one in folded(line, width)]
    return [words((line, "yellow")) for line in lines]


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


def queue_table(queues: Sequence[PublishedQueue], width: int) -> list[Text]:
    widths = fitted(_QUEUES, width)
    return [heading(_QUEUES, widths), *(line(_QUEUES, widths, _queue_cells(queue)) for queue in queues)]


def decision_list(decisions: Sequence[PublishedDecision], now: float, width: int, lines: int) -> list[Text]:
    """The newest first."""
    if lines < 1:
        return []
    newest = sorted(decisions, key=lambda decision: -decision["time"])[:lines]
    widths = fitted(_DECISIONS, width)
    return [line(_DECISIONS, widths, _decision_cells(each, now)) for each in newest] or [words(("none yet", FAINT))]


def decision_page(decisions: Sequence[PublishedDecision], now: float, width: int) -> list[Text]:
    """All of them, the newest first, each with its whole reason, over as many lines as that takes."""
    rows = [_decision_cells(each, now) for each in sorted(decisions, key=lambda decision: -decision["time"])]
    widths = fitted(_DECISIONS, width, rows)
    return [line for row in rows for line in lines(_DECISIONS, widths, row)] or [words(("none yet", FAINT))]


def _decision_cells(decision: PublishedDecision, now: float) -> dict[str, Cell]:
    action = decision["action"]
    return {
        "time": (clock(decision["time"], now), FAINT),
        "action": (action, ACTION_STYLES.get(action, "")),
        "job": (decision["job"], "bold"),
        "why": (decision["why"], ""),
    }


def _queue_cells(queue: PublishedQueue) -> dict[str, Cell]:
    low, high = service(queue["low"]), queue["high"]
    whose = f" ({', '.join(queue['partitions'])})" if queue.get("partitions") else ""
    return {
        "queue": (f"Q{queue['index'] + 1}", "bold"),
        "attained service": ((f"from {low}" if high is None else f"below {service(high)}") + whose, ""),
        "running": (str(queue["running"]), "green"),
        "GPUs": (str(queue["gpus_running"]), "green"),
        "waiting": (str(queue["waiting"]), "yellow"),
        "GPUs ": (str(queue["gpus_waiting"]), "yellow"),
    }


def pulse(status: Status, now: float) -> list[Cell]:
    """How long the newest cycle took, and how long ago it was."""
    cycle = status.get("cycle", {})
    age = now - status.get("time", now)
    return [
        (f"cycle {cycle.get('seconds', 0.0):.2f} s, ", ""),
        (f"{duration(age)} ago", "bold red" if age > _stale_after(status) else ""),
    ]


def _stale_after(status: Status) -> float:
    return 3 * status.get("cycle", {}).get("period", 30.0) + 10.0
