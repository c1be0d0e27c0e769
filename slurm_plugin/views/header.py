"""The lines above the map of nodes: leader, policy, back end, age of the status, and use of the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.slurm_plugin.views.table_layout import (
    FAINT,
    Cell,
    styled,
)
from tiresias.slurm_plugin.views.text import duration, printable, service

if TYPE_CHECKING:
    from tiresias.protocol.status import PublishedLoad, Status

MODE_STYLES = {"exact": "bold green", "assist": "bold cyan", "shadow": "bold yellow"}


def title(status: Status) -> Text:
    """Return cluster, mode, leader and whether preemptions are paused."""
    mode = printable(status.get("mode", "?"), 10)
    return styled(
        ("Tiresias ", "bold"),
        (printable(status.get("cluster", "?"), 24), "bold cyan"),
        (f"  {mode}", MODE_STYLES.get(mode, "bold")),
        (_leader(status), FAINT),
        ("  paused" if status.get("paused") else "", "bold yellow"),
    )


def _leader(status: Status) -> str:
    """Return the host and epoch of the leader, and whether a standby exists."""
    found = status.get("leader")
    if not found:
        return ""
    return f"  {printable(found['host'], 16)} epoch {found['epoch']}{'+standby' if found['standby'] else ''}"


def engine(status: Status, now: float, width: int) -> Text:
    """Return policy, PACKLIMIT, back end, Slurm's version and the age of the status, shortened to `width` cells."""
    short, long, slurm = _policy(status)
    forms = [f"{engine_words(status)}   ", f"{long}   {slurm}   ", f"{short}  {slurm}  ", f"{short}  ", ""]
    shown = [styled((form, ""), *pulse(status, now)) for form in forms]
    return next((one for one in shown if one.cell_len <= width), shown[-1])


def engine_words(status: Status) -> str:
    """Return policy, PACKLIMIT and back end."""
    _, long, slurm = _policy(status)
    return f"{long}{_packlimit(status)}   {slurm}"


def _policy(status: Status) -> tuple[str, str, str]:
    """Return the policy's name and thresholds; these and the order within a queue; back end and Slurm's version."""
    policy = status.get("policy", {})
    thresholds = " ".join(service(each) for each in policy.get("thresholds", []))
    short = printable(f"{policy.get('name', '?')} {thresholds}".strip(), 40)
    long = f"{short} {printable(policy.get('in_queue_order', ''), 20)}".strip()
    return short, long, f"{printable(status.get('backend', '?'), 10)} {printable(status.get('slurm', '?'), 12)}"


def _packlimit(status: Status) -> str:
    """Return the skew above which jobs consolidate, and whether it was learned from this site's jobs."""
    found = status.get("packlimit")
    return f"   packlimit {found['limit']:.2g} {'learned' if found['learned'] else 'default'}" if found else ""


def load(status: Status, width: int) -> list[Text]:
    """Return the controller's calls to slurmctld and slurmctld's load, where they are measured."""
    found = status.get("rpc")
    if not found:
        return []
    text = f"slurmctld: {found['per_minute']:.0f} calls/min by Tiresias"
    if seen := found["slurmctld"]:
        text += f", {_milliseconds(seen)} each; {seen['threads']} threads, {seen['queue']} queued for nodes, "
        text += f"{seen['database_queue']} queued for slurmdbd"
    if found["postponed"]:
        text += f"; {found['postponed']} operations postponed by the call limit"
    return [styled((printable(text, width), FAINT))]


def brief_load(status: Status) -> str:
    """Return the mean time of a call to slurmctld, "" where it is not measured."""
    seen = (status.get("rpc") or {"slurmctld": None})["slurmctld"]
    return f"   slurmctld {_milliseconds(seen)}" if seen else ""


def _milliseconds(seen: PublishedLoad) -> str:
    mean = seen["mean_ms"]
    return "?" if mean is None else f"{mean:.1f} ms" if mean < 10 else f"{mean:.0f} ms"


def usage(status: Status, width: int, more: str = "") -> Text:
    """Return a bar of the GPUs (managed jobs, unmanaged jobs, free) followed by its figures."""
    managed, total = gpu_use(status)
    rest = status.get("rest")
    other = sum(node.get("other_gpus", 0) for node in status.get("nodes", [])) + (rest["other_gpus"] if rest else 0)
    queues = status.get("queues", [])
    running, waiting = sum(queue["running"] for queue in queues), sum(queue["waiting"] for queue in queues)
    share = f" {100 * managed // total}%" if total else ""
    blocked = f"   {count} blocked" if (count := blocked_count(status)) else ""
    tail = f" {managed}/{total} GPUs{share}   {running} running   {waiting} waiting{blocked}"
    tail += more if len(tail) + len(more) <= width else ""
    bar = max(min(width - len(tail), 60), 0)
    filled, unmanaged = (bar * managed // total, bar * other // total) if total else (0, 0)
    return styled(
        ("━" * filled, "green"), ("━" * unmanaged, "yellow"), ("─" * (bar - filled - unmanaged), FAINT), (tail, "")
    )


def gpu_use(status: Status) -> tuple[int, int]:
    """Return the GPUs of managed jobs, and those of the managed nodes."""
    nodes, rest = status.get("nodes", []), status.get("rest")
    managed = sum(count for node in nodes for _, count in node.get("allocations", []))
    total = sum(node.get("gpus", 0) for node in nodes)
    return (managed + rest["managed_gpus"], total + rest["gpus"]) if rest else (managed, total)


def blocked_count(status: Status) -> int:
    """Return the number of jobs that do not compete, of all users."""
    rest = status.get("rest")
    return len(status.get("blocked", [])) + (rest["all_blocked"] if rest else 0)


def pulse(status: Status, now: float) -> list[Cell]:
    """Return the duration of the newest cycle and its age."""
    cycle = status.get("cycle", {})
    age = now - status.get("time", now)
    return [
        (f"cycle {cycle.get('seconds', 0.0):.2f} s, ", ""),
        (f"{duration(age)} ago", "bold red" if age > stale_after(status) else ""),
    ]


def stale_after(status: Status) -> float:
    """Return the age in seconds from which on the status counts as outdated."""
    return 3 * status.get("cycle", {}).get("period", 30.0) + 10.0
