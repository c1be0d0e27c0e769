"""The table of jobs: as many columns as there is room for. LEGEND says what the shorter headings mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from tiresias.slurm_plugin.views.columns import FAINT, Cell, Column, fitted, heading, line, words
from tiresias.slurm_plugin.views.marks import NO_MARK, Mark
from tiresias.slurm_plugin.views.published import PublishedJob, Status
from tiresias.slurm_plugin.views.text import duration, gpu_time, place

POINTER = Column("  ", 1)
_BEFORE = 3  # cells of the pointer and the mark, which keeps its colour
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
    Column("demotion", 8, right=True, needs=90),
    Column("saved", 6, right=True, needs=98),
    Column("runs", 4, right=True, needs=104),
    Column("nodes", 5, right=True, needs=112),
    Column("wants", 5, needs=126),
    Column("skew", 5, right=True, needs=126),
    Column("preempted", 9, right=True, needs=150),
    Column("where", 8, share=5, needs=150),
    Column("why", 10, share=20),
)
LEGEND = (
    ("time", "for which it has run, or has waited"),
    ("Q, GPU time", "its queue, and the GPU-seconds or GPU-hours that it has had"),
    ("demotion", "how much longer it may run before it falls to the next queue"),
    ("saved", "age of its newest checkpoint; a newer one shows within two minutes"),
    ("nodes", "how many it holds; 3>1: it wants few nodes and 1 would do"),
    ("wants", "few nodes; any, as it may be spread; two, for its trial run"),
    ("skew", "of what it sends, as its trial run showed (tiresias profile)"),
)
STATE_STYLES = {
    "running": "green", "waiting": "yellow", "saving": "magenta", "parked": "magenta", "leaving": "magenta",
    "completing": "magenta", "starting": "cyan", "to start": "cyan", "to stop": "magenta",
}  # fmt: skip
NO_JOBS = "no jobs in the managed partitions"
_WANTS = {"consolidate": "few", "spread": "any", "apart": "two"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs that are shown, in their order. title: above them. marks: of those on nodes.

    pointer: the id of the job that it stands at, "" for none; None: there is no pointer.
    """

    jobs: Sequence[PublishedJob]
    marks: Mapping[str, Mark]
    title: str = "jobs"
    pointer: str | None = None
    empty: str = NO_JOBS  # said when there are none


class JobTable:
    """status: where the jobs run. now: epoch seconds."""

    def __init__(self, status: Status, listing: Listing, now: float) -> None:
        self._listing, self._now = listing, now
        self._limits = {queue["index"]: queue["high"] for queue in status.get("queues", [])}
        self._widest = max((node.get("gpus", 0) for node in status.get("nodes", [])), default=0)

    def lines(self, width: int, lines: int) -> list[Text]:
        """At most `lines` lines: a heading, the jobs around the pointer, and how many more there are."""
        jobs, pointer = self._listing.jobs, self._listing.pointer
        if lines < 2:
            return []
        if not jobs:
            return [words((self._listing.empty, FAINT))]
        room = lines - 1 if len(jobs) <= lines - 1 else lines - 2
        shown = jobs[self._first(room) :][:room]
        columns = COLUMNS if pointer is None else (POINTER, *COLUMNS)
        widths = fitted(columns, width)
        table = [heading(columns, widths), *(self._line(job, columns, widths) for job in shown)]
        return table + ([_rest(jobs, shown)] if len(shown) < len(jobs) else [])

    def _first(self, room: int) -> int:
        """The pointer is in the middle, but for the ends."""
        ids = (row for row, job in enumerate(self._listing.jobs) if job["id"] == self._listing.pointer)
        return max(min(next(ids, 0) - room // 2, len(self._listing.jobs) - room), 0)

    def _line(self, job: PublishedJob, columns: Sequence[Column], widths: dict[str, int]) -> Text:
        row = line(columns, widths, self.cells(job))
        if job["id"] == self._listing.pointer:
            row.stylize("reverse", _BEFORE)
        return row

    def cells(self, job: PublishedJob) -> dict[str, Cell]:
        mark, state = self._listing.marks.get(job["id"], NO_MARK), state_word(job)
        preemptions = job.get("preemptions", 0)
        return {
            POINTER.title: (">" if job["id"] == self._listing.pointer else "", "bold"),
            " ": (mark.letter, mark.style),
            "job": (job["id"], "bold"),
            "user": (job.get("user", ""), ""),
            "name": (job.get("name", ""), ""),
            "GPUs": (str(job.get("gpus", 0)), ""),
            "state": (state, STATE_STYLES.get(state, "")),
            "time": (duration(job.get("ran", 0.0) if job.get("nodes") else job.get("waited", 0.0)), ""),
            "Q": (f"Q{job.get('queue', 0) + 1}", ""),
            "GPU time": (gpu_time(job.get("attained", 0.0)), ""),
            "demotion": (demotion(job, self._limits), ""),
            "saved": (self._age(job), ""),
            "runs": (str(job.get("restarts", 0) + bool(job.get("start_time"))), ""),
            "nodes": self._nodes(job),
            "wants": (_WANTS.get(job.get("placement", ""), job.get("placement", "")), ""),
            "skew": (_skew(job), ""),
            "preempted": (f"{preemptions}x" if preemptions else "", "magenta"),
            "where": (place(job.get("nodes", [])), ""),
            "why": (job.get("why", ""), ""),
        }

    def _age(self, job: PublishedJob) -> str:
        saved = job.get("checkpoint_time")
        return "" if saved is None else duration(self._now - saved)

    def _nodes(self, job: PublishedJob) -> Cell:
        """What it got, and what it could have wanted."""
        held = len(job.get("nodes", []))
        least = math.ceil(job.get("gpus", 0) / self._widest) if self._widest else held
        if held > least and job.get("placement") == "consolidate":
            return f"{held}>{least}", "yellow"
        return str(held or ""), ""


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


def _skew(job: PublishedJob) -> str:
    skew = (job.get("profile") or {}).get("skew")
    return "" if skew is None else f"{skew:.2f}"


def _rest(jobs: Sequence[PublishedJob], shown: Sequence[PublishedJob]) -> Text:
    holding = sum(bool(job.get("nodes")) for job in jobs) - sum(bool(job.get("nodes")) for job in shown)
    more = len(jobs) - len(shown)
    return words((f"… and {more} more: {holding} on nodes, {more - holding} waiting", FAINT))
