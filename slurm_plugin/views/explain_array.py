"""`tiresias explain` of an array: one row for the tasks that are in the same state for the same reason."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.protocol.explanation import ArrayExplanation, PublishedTasks
from tiresias.slurm_plugin.views.alarms import pause_text
from tiresias.slurm_plugin.views.explain import fact
from tiresias.slurm_plugin.views.jobs import STATE_STYLES, state_word
from tiresias.slurm_plugin.views.slurm_state import dependency, preemptable, state_and_reason
from tiresias.slurm_plugin.views.table_layout import (
    FAINT,
    HEADING,
    Cell,
    Column,
    fitted,
    heading,
    row_lines,
    styled,
    wrapped,
)
from tiresias.slurm_plugin.views.text import printable

_TASKS = (
    Column("tasks", 10, share=1, limit=24, wraps=True),
    Column("count", 5, right=True),
    Column("state", 9),
    Column("GPUs", 4, right=True),
    Column("Slurm", 21, share=1, limit=40, wraps=True),
    Column("why", 20, share=4, wraps=True),
)


def render_array(found: ArrayExplanation, width: int, now: float) -> RenderableType:
    """Return the facts that the tasks share and one row for each group of tasks."""
    groups = found["groups"]
    rows = [_cells(group) for group in groups]
    widths = fitted(_TASKS, width, rows)
    first, shown = groups[0], sum(group["count"] for group in groups)
    return Group(
        *_opening(found, width),
        *_facts(found, width, now),
        Text(),
        heading(_TASKS, widths),
        *(part for row in rows for part in row_lines(_TASKS, widths, row)),
        *([styled((f"… and {found['count'] - shown} more tasks", FAINT))] if found["count"] > shown else []),
        Text(),
        *(
            styled((one, FAINT))
            for one in wrapped(f"tiresias explain {first['job']['id']} shows one task, its runs and decisions", width)
        ),
    )


def _opening(found: ArrayExplanation, width: int) -> list[Text]:
    name = printable(found["groups"][0]["job"].get("name", ""), 200)
    count = f"{found['count']} tasks" if found["count"] > 1 else "1 task"
    text = f"array {printable(found['array'], 20)}{f' {name}' if name else ''}: {count}"
    return [styled((one, HEADING)) for one in wrapped(text, width)]


def _facts(found: ArrayExplanation, width: int, now: float) -> list[Text]:
    job, slurm = found["groups"][0]["job"], found["groups"][0]["slurm"]
    facts = [("user", f"{job['user']}, partition {job.get('partition', '')}")] if "user" in job else []
    facts += [("depends on", dependency(one)) for one in (slurm or {"depends_on": []})["depends_on"]]
    can = {text for group in found["groups"] if (text := preemptable(group["job"], group["slurm"])).startswith("no:")}
    facts += [("preemptable", text) for text in sorted(can)]
    if pause := found.get("paused"):
        facts.append(("paused", pause_text(pause, now)))
    return [part for name, value in facts for part in fact(name, value, width)]


def _cells(group: PublishedTasks) -> dict[str, Cell]:
    job, slurm, state = group["job"], group["slurm"], state_word(group["job"])
    return {
        "tasks": (group["tasks"].replace(",", ", "), "bold"),
        "count": (str(group["count"]), ""),
        "state": (state, STATE_STYLES.get(state, "")),
        "GPUs": (str(job.get("gpus") or ""), ""),
        "Slurm": (state_and_reason(slurm) if slurm else "no longer known to slurmctld", ""),
        "why": (job.get("why", ""), ""),
    }
