"""The live view of a replay: a progress bar per policy, and the status view of the controller that runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tiresias.sandbox.replay.replay_policies import LABELS
from tiresias.sandbox.replay.replay_results import ReplayProgress


def render(
    progress: Mapping[str, ReplayProgress], seconds: float, time_scale: float, status: RenderableType | None
) -> Group:
    """Return the live view."""
    clock = f"{seconds:,.0f} s, {seconds * time_scale:,.0f} s in the trace (each second here is {time_scale:g})"
    parts: list[RenderableType] = [_bars(progress), Text(clock, style="dim")]
    return Group(*parts, *([status] if status is not None else []))


def line(progress: Mapping[str, ReplayProgress], seconds: float) -> str:
    """Return the progress in one line, for a log."""
    policies = "; ".join(
        f"{LABELS[name]} {each.finished}/{each.jobs} done, {each.running} running, {each.waiting} waiting"
        for name, each in progress.items()
    )
    return f"{seconds:5.0f} s: {policies}"


def _bars(progress: Mapping[str, ReplayProgress]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, each in progress.items():
        bar = ProgressBar(total=each.jobs, completed=each.finished, width=30)
        counts: dict[str, Any] = {"done": each.finished, "running": each.running, "waiting": each.waiting}
        table.add_row(LABELS[name], bar, *(f"{count:4} {what}" for what, count in counts.items()), f"of {each.jobs}")
    return table
