"""The table of jobs, in the order in which the daemon publishes them: those on nodes first, each by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from tiresias.slurm_plugin.views.columns import FAINT, Cell, Column, fitted, heading, line, words
from tiresias.slurm_plugin.views.marks import NO_MARK, Mark
from tiresias.slurm_plugin.views.published import PublishedJob, PublishedQueue
from tiresias.slurm_plugin.views.text import duration, gpu_time, place

COLUMNS = (
    Column(" ", 1),
    Column("job", 6, right=True),
    Column("user", 6, share=1, limit=12),
    Column("name", 9, share=4, limit=32),
    Column("GPUs", 4, right=True),
    Column("state", 8),
    Column("time", 6, right=True),
    Column("Q", 2),
    Column("GPU time", 8, right=True),
    Column("demotion", 8, right=True, needs=96),
    Column("runs", 4, right=True, needs=118),
    Column("preempted", 9, right=True, needs=118),
    Column("saved", 11, right=True, needs=160),
    Column("where", 8, share=5, needs=130),
    Column("why", 10, share=10),
)
STATE_STYLES = {
    "running": "green", "waiting": "yellow", "saving": "magenta", "parked": "magenta", "leaving": "magenta",
    "completing": "magenta", "starting": "cyan",
}  # fmt: skip


def job_table(
    jobs: Sequence[PublishedJob], queues: Sequence[PublishedQueue], marks: Mapping[str, Mark], width: int, lines: int
) -> list[Text]:
    """At most `lines` lines: a heading, the first jobs, and how many more there are."""
    if lines < 2:
        return []
    if not jobs:
        return [words(("no jobs in the managed partitions", FAINT))]
    room = lines - 1 if len(jobs) <= lines - 1 else lines - 2
    first = jobs[:room]
    widths, limits = fitted(COLUMNS, width), {queue["index"]: queue["high"] for queue in queues}
    table = [heading(COLUMNS, widths), *(line(COLUMNS, widths, job_cells(job, limits, marks)) for job in first)]
    return table + ([_rest(jobs, first)] if len(first) < len(jobs) else [])


def job_cells(job: PublishedJob, limits: Mapping[int, float | None], marks: Mapping[str, Mark]) -> dict[str, Cell]:
    mark, state = marks.get(job["id"], NO_MARK), state_word(job)
    preemptions = job.get("preemptions", 0)
    return {
        " ": (mark.letter, mark.style),
        "job": (job["id"], "bold"),
        "user": (job.get("user", ""), ""),
        "name": (job.get("name", ""), ""),
        "GPUs": (str(job.get("gpus", 0)), ""),
        "state": (state, STATE_STYLES.get(state, "")),
        "time": (duration(job.get("ran", 0.0) if job.get("nodes") else job.get("waited", 0.0)), ""),
        "Q": (f"Q{job.get('queue', 0) + 1}", ""),
        "GPU time": (gpu_time(job.get("attained", 0.0)), ""),
        "demotion": (demotion(job, limits), ""),
        "runs": (str(job.get("restarts", 0) + bool(job.get("start_time"))), ""),
        "preempted": (f"{preemptions}x" if preemptions else "", "magenta"),
        "saved": (f"step {job['step']}" if job.get("step", -1) >= 0 else "", ""),
        "where": (place(job.get("nodes", [])), ""),
        "why": (job.get("why", ""), FAINT),
    }


def state_word(job: PublishedJob) -> str:
    """What is being done to the job, or else Slurm's state in lower case; `waiting` for PENDING, as the policy calls it."""
    state = job.get("phase") or job.get("state", "").lower()
    return "waiting" if state == "pending" else state


def demotion(job: PublishedJob, limits: Mapping[int, float | None]) -> str:
    """How much longer the job may run before it falls to the next queue."""
    limit, gpus = limits.get(job.get("queue", 0)), job.get("gpus", 0)
    if limit is None or gpus < 1:
        return ""
    return duration((limit - job.get("attained", 0.0)) / gpus)


def _rest(jobs: Sequence[PublishedJob], shown: Sequence[PublishedJob]) -> Text:
    holding = sum(bool(job.get("nodes")) for job in jobs) - sum(bool(job.get("nodes")) for job in shown)
    more = len(jobs) - len(shown)
    return words((f"… and {more} more: {holding} on nodes, {more - holding} waiting", FAINT))
