"""The parts around the map and the table of jobs: header, alarms, queues and the last decisions."""

from __future__ import annotations

from rich.text import Text

from tiresias.protocol.status import PublishedLoad, Status
from tiresias.slurm_plugin.views.table_layout import (
    FAINT,
    Cell,
    styled,
)
from tiresias.slurm_plugin.views.text import duration, printable, service

_MODE_STYLES = {"exact": "bold green", "shadow": "bold yellow"}


def title(status: Status) -> Text:
    mode = printable(status.get("mode", "?"), 10)
    return styled(
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
    """Policy, PACKLIMIT, back end with Slurm's version, and how fresh the view is; shortened where `width` is short."""
    short, long, slurm = _policy(status)
    forms = [f"{engine_words(status)}   ", f"{long}   {slurm}   ", f"{short}  {slurm}  ", f"{short}  ", ""]
    shown = [styled((form, ""), *pulse(status, now)) for form in forms]
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
    return [styled((printable(ours, width), FAINT))]


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
    return styled(
        ("━" * filled, "green"), ("━" * foreign, "yellow"), ("─" * (bar - filled - foreign), FAINT), (tail, "")
    )  # fmt: skip


def pulse(status: Status, now: float) -> list[Cell]:
    """How long the newest cycle took, and how long ago it was."""
    cycle = status.get("cycle", {})
    age = now - status.get("time", now)
    return [
        (f"cycle {cycle.get('seconds', 0.0):.2f} s, ", ""),
        (f"{duration(age)} ago", "bold red" if age > stale_after(status) else ""),
    ]


def stale_after(status: Status) -> float:
    return 3 * status.get("cycle", {}).get("period", 30.0) + 10.0
