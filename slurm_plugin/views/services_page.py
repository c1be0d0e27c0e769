"""`tiresias services`: the parameter service, its aggregators, and the jobs that the user may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.text import Text

from tiresias.protocol.service_report import STALE_S, PublishedAggregator, PublishedServiceJob
from tiresias.slurm_plugin.service_report_files import ServiceView
from tiresias.slurm_plugin.views.status import titled
from tiresias.slurm_plugin.views.table_layout import (
    FAINT,
    UNLIMITED,
    Cell,
    Column,
    fitted,
    heading,
    row_lines,
    styled,
    wrapped,
)
from tiresias.slurm_plugin.views.text import duration, printable

_PIPE_WIDTH = 100  # of the rules in a file or a pipe, in cells
_NO_LIMIT = 10**9  # lines
_STATE_STYLES = {
    "running": "green",
    "assigned": "green",
    "waiting": "yellow",
    "requested": "yellow",
    "moving": "cyan",
    "draining": "cyan",
    "parked": "red",
    "profiled": "cyan",
    "ending": FAINT,
    "registered": "yellow",
}
AGGREGATORS = (
    Column("aggregator", 18, share=1, limit=48),
    Column("Slurm job", 9, right=True),
    Column("node", 8, share=1, limit=24),
    Column("state", 9),
    Column("load", 5, right=True),
    Column("cycle", 8, right=True, needs=76),
    Column("free", 8, right=True, needs=84),
    Column("jobs", 4, right=True),
    Column("tensors", 7, right=True, needs=92),
    Column("memory", 7, right=True, needs=100),
)
JOBS = (
    Column("job", 12, share=1, limit=40),
    Column("owner", 8, share=1, limit=16),
    Column("state", 10),
    Column("servers", 7, right=True),
    Column("on", 3, right=True),
    Column("tensors", 7, right=True, needs=92),
    Column("memory", 7, right=True, needs=100),
    Column("alone", 8, right=True),
    Column("measured", 8, right=True),
    Column("loss", 6, right=True),
    Column("reverts", 7, right=True, needs=80),
)


def render_services(view: ServiceView, width: int, height: int, now: float, user_name: Callable[[int], str]) -> Group:
    """Return the view in at most `height` lines of `width` cells; a width of UNLIMITED leaves nothing out.

    Args:
        view: What the user may see.
        width: In cells.
        height: In lines.
        now: Epoch seconds.
        user_name: Returns the name of a user.
    """
    is_limited = width < UNLIMITED
    rule = width if is_limited else _PIPE_WIDTH
    head = [_title(view, now), _sums(view, width), *_limits(view, width), *_problem(view, width)]
    aggregators = [_aggregator(each) for each in view.report["aggregators"]]
    jobs = [_job(each, user_name(each["uid"])) for each in view.jobs]
    left = (height if is_limited else _NO_LIMIT) - len(head)
    job_lines = _table(JOBS, jobs, width, max(left // 2, left - len(aggregators) - 2) - 1)
    aggregator_lines = _table(AGGREGATORS, aggregators, width, left - len(job_lines) - (2 if job_lines else 1))
    title, others = ("jobs", "") if view.sees_all else ("your jobs", _others(view))
    lines = [*head, *titled("aggregators", aggregator_lines, rule), *titled(title, job_lines, rule, others)]
    return Group(*lines[:height] if is_limited else lines)


def _title(view: ServiceView, now: float) -> Text:
    report, age = view.report, now - view.report["time"]
    left = f"  parameter service on {printable(report['host'], 24)}  epoch {report['epoch']}  "
    return styled(
        ("Tiresias ", "bold"),
        (printable(report["manager"], 32), "bold cyan"),
        (left, ""),
        (f"{duration(age)} ago", "bold red" if age > STALE_S else FAINT),
    )


def _sums(view: ServiceView, width: int) -> Text:
    totals, report = view.report["totals"], view.report
    ratio = "" if totals["ratio"] is None else f" ({totals['ratio']:.2f} for each)"
    parts = [
        f"{totals['aggregators']} of {report['budget']} aggregators for {totals['servers']} declared servers{ratio}",
        f"{_counted(totals['jobs'], 'job')} of {_counted(totals['users'], 'user')}",
        f"{number(totals['declared_bytes'])}B of tensors",
        _counted(totals["reverts"], "revert"),
    ]
    if totals["waiting"]:
        parts.insert(1, f"{_counted(totals['waiting'], 'job')} waiting for aggregators")
    while len(parts) > 1 and len("   ".join(parts)) > width:
        parts.pop()
    return styled(("   ".join(parts), ""))


def _limits(view: ServiceView, width: int) -> Iterator[Text]:
    """The limits of a user, with what an ordinary user uses of them, and those of an account."""
    own = None if view.sees_all else view.jobs
    used = {
        "aggregators": "" if own is None else f"{sum(job['used'] for job in own):.1f} of ",
        "jobs": "" if own is None else f"{len(own)} of ",
        "bytes": "" if own is None else f"{number(sum(job['declared_bytes'] for job in own))}B of ",
    }
    for whose, limits in (("user", view.report["limits"]["user"]), ("account", view.report["limits"]["account"])):
        of = used if whose == "user" else dict.fromkeys(used, "")
        parts = [f"{of['aggregators']}{limits['aggregators']:g} aggregators"] if limits["aggregators"] else []
        parts += [f"{of['jobs']}{_counted(limits['jobs'], 'job')}"] if limits["jobs"] else []
        parts += [f"{of['bytes']}{number(limits['bytes'])}B of tensors"] if limits["bytes"] else []
        if parts:
            title = "you use" if whose == "user" and own is not None else f"limits of {_a(whose)}"
            yield from (styled((line, FAINT)) for line in wrapped(f"{title}: {', '.join(parts)}", width)[:2])


def _a(whose: str) -> str:
    return "an account" if whose == "account" else "a user"


def _problem(view: ServiceView, width: int) -> Iterator[Text]:
    if found := view.report["problem"]:
        text = f"Slurm does not answer: {found}"
        yield from (styled((line, "bold red")) for line in wrapped(text, width)[:3])


def _others(view: ServiceView) -> str:
    count = view.report["totals"]["jobs"] - len(view.jobs)
    return f"{count} of other users" if count > 0 else ""


def _table(columns: Sequence[Column], rows: list[dict[str, Cell]], width: int, height: int) -> list[Text]:
    """Return a heading and rows in at most `height` lines; where rows are left out, the last line has their number."""
    if not rows:
        return []
    kept = rows if len(rows) < height else rows[: max(height - 2, 0)]
    widths = fitted(columns, width, rows)
    lines = [heading(columns, widths), *(line for row in kept for line in row_lines(columns, widths, row))]
    left_out = len(rows) - len(kept)
    return [
        *lines,
        *([styled((f"… and {left_out} more; tiresias services --json has all", FAINT))] if left_out else []),
    ]


def _aggregator(each: PublishedAggregator) -> dict[str, Cell]:
    has_load = each["cycle_s"] > 0
    return {
        "aggregator": (each["name"], "bold"),
        "Slurm job": (str(each["slurm_job"] or ""), ""),
        "node": (each["node"], ""),
        "state": (each["state"], _STATE_STYLES.get(each["state"], "")),
        "load": (f"{each['work_s'] / each['cycle_s']:.0%}" if has_load else "", ""),
        "cycle": (milliseconds(each["cycle_s"]) if has_load else "", ""),
        "free": (milliseconds(each["free_s"]) if has_load else "", ""),
        "jobs": (str(each["jobs"]), ""),
        "tensors": (str(each["tensors"]), ""),
        "memory": ("" if each["bytes"] is None else f"{number(each['bytes'])}B", ""),
    }


def _job(each: PublishedServiceJob, owner: str) -> dict[str, Cell]:
    loss = each["loss"]
    is_measured = each["measured_s"] is not None
    return {
        "job": (each["name"], "bold"),
        "owner": (owner, ""),
        "state": (each["state"], _STATE_STYLES.get(each["state"], "")),
        "servers": (str(each["servers"]), ""),
        "on": (str(len(each["aggregators"])), ""),
        "tensors": (str(each["tensors"]), ""),
        "memory": ("" if each["bytes"] is None else f"{number(each['bytes'])}B", ""),
        "alone": (milliseconds(each["iteration_s"]), ""),
        "measured": (milliseconds(each["measured_s"]), ""),
        "loss": ("" if loss is None else f"{loss:.1%}", "" if is_measured else FAINT),
        "reverts": (str(each["reverts"]), ""),
    }


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def milliseconds(seconds: float | None) -> str:
    """Return a duration of an iteration: 85 ms, 1.25 s; "" for one that is not known."""
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def number(count: int) -> str:
    """Return a number of parameters or bytes: 950, 33.5k, 143.7M, 1.3G."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)
