"""The table of jobs: as many columns as there is room for. LEGEND says what the shorter headings mean."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from tiresias.protocol.published_job import PublishedJob
from tiresias.protocol.status import Status
from tiresias.slurm_plugin.views.symbols import NO_SYMBOL, Symbol
from tiresias.slurm_plugin.views.table_layout import (
    CELL_LIMIT,
    FAINT,
    UNLIMITED,
    Cell,
    Column,
    fitted,
    heading,
    row_line,
    styled,
    wrapped,
)
from tiresias.slurm_plugin.views.text import duration, gpu_time, place

POINTER = Column("  ", 1)
_WHY = "why"
_BEFORE = 3  # cells of the pointer and the symbol, which keeps its colour
_INDENT = 4  # cells before a reason that stands below its job
_WHY_CELLS = 60  # of the column of the reasons, at least: a narrower one is not shown
_WHY_LIMIT = 400  # cells of a reason on a terminal
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
    Column(_WHY, 10, share=20),
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
    "completing": "magenta", "starting": "cyan", "to start": "cyan", "to stop": "magenta", "blocked": "red",
}  # fmt: skip
NO_JOBS = "no jobs in the managed partitions"
_WANTS = {"consolidate": "few", "spread": "any", "apart": "two"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs that are shown, in their order. title: above them. symbols: of those on nodes.

    pointer: the id of the job that it stands at, "" for none; None: there is no pointer.
    """

    jobs: Sequence[PublishedJob]
    symbols: Mapping[str, Symbol]
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
        jobs = self._listing.jobs
        if lines < 2:
            return []
        if not jobs:
            return [styled((self._listing.empty, FAINT))]
        columns, widths = self._columns(width)
        blocks = _Blocks(jobs, lambda job: self._block(job, columns, widths, width))
        shown = blocks.around(self._pointed(), lines - 1)
        if len(shown) < len(jobs):
            shown = blocks.around(self._pointed(), lines - 2)
        table = [heading(columns, widths), *(part for job in shown for part in blocks.of(job))][: lines - 1]
        return table + ([_rest(jobs, shown)] if len(shown) < len(jobs) else [])

    def _pointed(self) -> int:
        """The row of the pointer, 0 where there is none."""
        ids = (row for row, job in enumerate(self._listing.jobs) if job["id"] == self._listing.pointer)
        return next(ids, 0) if self._listing.pointer else 0

    def _columns(self, width: int) -> tuple[Sequence[Column], dict[str, int]]:
        """The columns and their cells; without that of the reasons where it would be too narrow to read."""
        columns = COLUMNS if self._listing.pointer is None else (POINTER, *COLUMNS)
        rows = [self.cells(job) for job in self._listing.jobs] if width >= UNLIMITED else []
        widths = fitted(columns, width, rows)
        if width >= UNLIMITED or widths[_WHY] >= _WHY_CELLS:
            return columns, widths
        return columns[:-1], fitted(columns[:-1], width)

    def _block(self, job: PublishedJob, columns: Sequence[Column], widths: dict[str, int], width: int) -> list[Text]:
        """The row of a job; the rest of its reason stands below it, in its column or else across."""
        cells = self.cells(job)
        why_cells = widths.get(_WHY, 0)
        indent = sum(widths.values()) + len(widths) - 1 - why_cells if why_cells else _INDENT
        limit = _WHY_LIMIT if width < UNLIMITED else CELL_LIMIT
        reason = wrapped(cells[_WHY][0], why_cells or max(width - indent, 10), limit)
        below = reason[1:] if why_cells else [] if _only_runs(job) else [one for one in reason if one]
        row = row_line(columns, widths, {**cells, _WHY: (reason[0], "")})
        if job["id"] == self._listing.pointer:
            row.stylize("reverse", _BEFORE)
        return [row, *(styled((" " * indent, ""), (one, "" if why_cells else FAINT)) for one in below)]

    def cells(self, job: PublishedJob) -> dict[str, Cell]:
        symbol, state = self._listing.symbols.get(job["id"], NO_SYMBOL), state_word(job)
        preemptions = job.get("preemptions", 0)
        return {
            POINTER.title: (">" if job["id"] == self._listing.pointer else "", "bold"),
            " ": (symbol.letter, symbol.style),
            "job": (job["id"], "bold"),
            "user": (job.get("user", ""), ""),
            "name": (job.get("name", ""), ""),
            "GPUs": (str(job.get("gpus", 0)), ""),
            "state": (state, STATE_STYLES.get(state, "")),
            "time": (duration(job.get("ran", 0.0) if job.get("nodes") else job.get("waited", 0.0)), ""),
            "Q": (f"Q{job['queue'] + 1}" if "queue" in job else "", ""),
            "GPU time": (gpu_time(job["attained"]) if "attained" in job else "", ""),
            "demotion": (demotion(job, self._limits), ""),
            "saved": (self._age(job), ""),
            "runs": (str(job["restarts"] + bool(job.get("start_time"))) if "restarts" in job else "", ""),
            "nodes": self._nodes(job),
            "wants": (_WANTS.get(job.get("placement", ""), job.get("placement", "")), ""),
            "skew": (_skew(job), ""),
            "preempted": (f"{preemptions}x" if preemptions else "", "magenta"),
            "where": (place(job.get("nodes", [])), ""),
            _WHY: (job.get("why", ""), ""),
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


class _Blocks:
    """The lines of each job, made when they are needed: of ten thousand jobs few are shown."""

    def __init__(self, jobs: Sequence[PublishedJob], make: Callable[[PublishedJob], list[Text]]) -> None:
        self._jobs, self._make = jobs, make
        self._made: dict[str, list[Text]] = {}

    def of(self, job: PublishedJob) -> list[Text]:
        if job["id"] not in self._made:
            self._made[job["id"]] = self._make(job)
        return self._made[job["id"]]

    def around(self, row: int, limit: int) -> list[PublishedJob]:
        """The job at `row`, and as many before and after it as fit into `limit` lines: about as many lines on both sides."""
        found = deque([self._jobs[row]])
        first = last = row
        above, below = 0, len(self.of(self._jobs[row]))
        while True:
            up = len(self.of(self._jobs[first - 1])) if first else limit + 1
            down = len(self.of(self._jobs[last + 1])) if last + 1 < len(self._jobs) else limit + 1
            fits_up, fits_down = above + below + up <= limit, above + below + down <= limit
            if fits_up and (above <= below or not fits_down):
                first, above = first - 1, above + up
                found.appendleft(self._jobs[first])
            elif fits_down:
                last, below = last + 1, below + down
                found.append(self._jobs[last])
            else:
                return list(found)


def state_word(job: PublishedJob) -> str:
    """What is being done to the job, or else Slurm's state in lower case; `waiting` for PENDING, as the policy calls it."""
    state = job.get("phase") or job.get("state", "").lower()
    return "waiting" if state == "pending" else state


def _only_runs(job: PublishedJob) -> bool:
    """Its reason contains no more than its place in the order."""
    return bool(job.get("nodes") and job.get("preemptable") and not job.get("phase"))


def demotion(job: PublishedJob, limits: Mapping[int, float | None]) -> str:
    """How much longer the job may run before it falls to the next queue."""
    limit, gpus = limits.get(job.get("queue", 0)), job.get("gpus", 0)
    if limit is None or gpus < 1 or "attained" not in job:
        return ""
    return duration((limit - job["attained"]) / gpus)


def _skew(job: PublishedJob) -> str:
    skew = (job.get("profile") or {}).get("skew")
    return "" if skew is None else f"{skew:.2f}"


def listed_jobs(status: Status) -> list[PublishedJob]:
    """Those that compete, then those that a rule of Slurm's, their owner or an admin keeps from competing."""
    return [*status.get("jobs", []), *status.get("blocked", [])]


def _rest(jobs: Sequence[PublishedJob], shown: Sequence[PublishedJob]) -> Text:
    left = Counter(map(_kind, jobs)) - Counter(map(_kind, shown))
    counts = [f"{left[kind]} {kind}" for kind in ("on nodes", "waiting", "blocked") if left[kind] or kind != "blocked"]
    return styled((f"… and {len(jobs) - len(shown)} more: {', '.join(counts)}", FAINT))


def _kind(job: PublishedJob) -> str:
    return "on nodes" if job.get("nodes") else "blocked" if job.get("state") == "BLOCKED" else "waiting"
