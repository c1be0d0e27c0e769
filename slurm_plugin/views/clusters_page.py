"""`tiresias status --clusters`: one line for each cluster, and the jobs of a user on all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group
from rich.text import Text

from tiresias.errors import TiresiasError
from tiresias.protocol.status import Status
from tiresias.slurm_plugin.views.header import MODE_STYLES, gpu_use, stale_after
from tiresias.slurm_plugin.views.jobs import JobTable
from tiresias.slurm_plugin.views.status import titled
from tiresias.slurm_plugin.views.table_layout import Cell, Column, fitted, heading, row_lines
from tiresias.slurm_plugin.views.text import duration
from tiresias.slurm_plugin.views.user_filter import listing_of

Answer = Status | TiresiasError  # of one cluster: what its controller publishes, or why it does not answer
COLUMNS = (
    Column("cluster", 10, share=1, limit=24),
    Column("mode", 6),
    Column("policy", 8, share=1, limit=20, needs=90),
    Column("GPUs", 11, right=True),
    Column("running", 7, right=True),
    Column("waiting", 7, right=True),
    Column("cycle", 10, right=True, needs=60),
    Column("note", 10, share=6, wraps=True),
)
_ROWS = 10**6  # no limit of lines


def clusters_page(answers: Mapping[str, Answer], width: int, now: float, user: str = "") -> Group:
    """Return a line for each cluster, then the jobs of a user on each.

    Args:
        answers: by the name in the configuration
        width: in cells
        now: epoch seconds
        user: the user whose jobs are listed; "" for none
    """
    rows = [_row(name, answer, now) for name, answer in answers.items()]
    widths = fitted(COLUMNS, width, rows)
    lines = [heading(COLUMNS, widths), *(line for row in rows for line in row_lines(COLUMNS, widths, row))]
    return Group(*lines, *(_jobs(answers, width, now, user) if user else ()))


def _row(name: str, answer: Answer, now: float) -> dict[str, Cell]:
    if isinstance(answer, TiresiasError):
        return {"cluster": (name, "bold"), "note": (str(answer), "bold red")}
    queues, (used, total), age = answer.get("queues", []), gpu_use(answer), now - answer.get("time", now)
    mode = answer.get("mode", "?")
    return {
        "cluster": (name, "bold"),
        "mode": (mode, MODE_STYLES.get(mode, "bold")),
        "policy": (answer.get("policy", {}).get("name", "?"), ""),
        "GPUs": (f"{used}/{total}", ""),
        "running": (str(sum(queue["running"] for queue in queues)), ""),
        "waiting": (str(sum(queue["waiting"] for queue in queues)), ""),
        "cycle": (f"{duration(age)} ago", "bold red" if age > stale_after(answer) else ""),
        "note": (_note(answer), "bold red"),
    }


def _note(status: Status) -> str:
    """Return the first alarm and the number of the others."""
    alarms = status.get("alarms", [])
    more = f" (and {len(alarms) - 1} more)" if len(alarms) > 1 else ""
    return f"{'paused; ' if status.get('paused') else ''}{alarms[0] if alarms else ''}{more}".removesuffix("; ")


def _jobs(answers: Mapping[str, Answer], width: int, now: float, user: str) -> Iterator[Text]:
    for name, answer in answers.items():
        if not isinstance(answer, TiresiasError):
            listing = listing_of(answer, user)
            yield from titled(f"{listing.title} on {name}", JobTable(answer, listing, now).lines(width, _ROWS), width)
