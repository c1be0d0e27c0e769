"""The table of jobs, with as many columns as the width allows. LEGEND explains the shorter headings."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.slurm_plugin.views.predictions import end_in, servers, sizes
from tiresias.slurm_plugin.views.remote_memory_text import memory_words
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

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedJob
    from tiresias.protocol.status import Status

POINTER = Column("  ", 1)
_WHY = "why"
_BEFORE = 3  # cells of the pointer and the symbol, which keeps its colour
_INDENT = 4  # cells before a reason that stands below its job
_MIN_WHY_CELLS = 60  # a narrower column of reasons is not shown
_MAX_REASON_CELLS = 400  # of a reason on a terminal
COLUMNS = (
    Column(" ", 1),
    Column("job", 6, right=True),
    Column("user", 6, share=1, limit=12),
    Column("name", 9, share=4, limit=32),
    Column("GPUs", 4, right=True),
    Column("sizes", 5, right=True, needs=80),
    Column("servers", 7, right=True, needs=80),
    Column("state", 8),
    Column("time", 6, right=True),
    Column("end in", 11, right=True, needs=86),
    Column("Q", 2),
    Column("GPU time", 8, right=True),
    Column("demotion", 8, right=True, needs=90),
    Column("saved", 6, right=True, needs=98),
    Column("runs", 4, right=True, needs=104),
    Column("nodes", 5, right=True, needs=112),
    Column("style", 5, needs=126),
    Column("skew", 5, right=True, needs=126),
    Column("preempted", 9, right=True, needs=150),
    Column("where", 8, share=5, needs=150),
    Column(_WHY, 10, share=20),
)
LEGEND = (
    ("time", "run time, or wait of a job that does not run"),
    ("sizes", "GPUs that an elastic job can have, fewest and most"),
    ("servers", "parameter servers of an elastic job, with the fewest and most"),
    ("end in", "predicted from progress reports, with the interval of 90%"),
    ("Q, GPU time", "queue, and attained service in GPU-seconds or GPU-hours"),
    ("demotion", "run time left before the job falls to the next queue"),
    ("saved", "age of the newest checkpoint, updated within two minutes"),
    ("nodes", "nodes that the job holds; 3>1: on 3 nodes although 1 is enough"),
    ("style", "placement: few nodes, any nodes, or two for a trial run"),
    ("skew", "largest tensor's share of the model, from the trial run"),
)
STATE_STYLES = {
    "running": "green", "waiting": "yellow", "saving": "magenta", "parked": "magenta", "leaving": "magenta",
    "completing": "magenta", "starting": "cyan", "to start": "cyan", "to stop": "magenta", "blocked": "red",
}  # fmt: skip
KINDS = ("on nodes", "waiting", "blocked")
NO_JOBS = "no jobs in the managed partitions"
_OPTIONAL = {
    "sizes": "max_gpus",
    "servers": "servers",
    "end in": "end_low",
}  # shown where a job has a value of that key
_STYLES = {"consolidate": "few", "spread": "any", "apart": "two"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs to show, in their order.

    Attributes:
        jobs: the jobs
        symbols: symbols of the jobs on nodes, by job id
        title: heading above the jobs
        pointer: id of the job at the pointer, "" for none; None: there is no pointer
        empty: text in place of an empty table
        unlisted: numbers of further jobs that are in none of `jobs`, by kind (`KINDS`)
    """

    jobs: Sequence[PublishedJob]
    symbols: Mapping[str, Symbol]
    title: str = "jobs"
    pointer: str | None = None
    empty: str = NO_JOBS
    unlisted: Mapping[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of all jobs."""
        return len(self.jobs) + sum(self.unlisted.values())


class JobTable:
    """The table of jobs of a listing.

    Args:
        status: nodes and queues of the cluster
        listing: the jobs to show
        now: epoch seconds
    """

    def __init__(self, status: Status, listing: Listing, now: float) -> None:
        self._listing, self._now = listing, now
        self._limits = {queue["index"]: queue["high"] for queue in status.get("queues", [])}
        self._widest = max((node.get("gpus", 0) for node in status.get("nodes", [])), default=0)
        if rest := status.get("rest"):
            self._widest = max(self._widest, rest["widest"])

    def lines(self, width: int, lines: int) -> list[Text]:
        """Return at most `lines` lines: a heading, the jobs around the pointer, and the number of the other jobs."""
        jobs = self._listing.jobs
        if lines < 2:
            return []
        if not jobs:
            return [styled((self._listing.empty, FAINT))]
        columns, widths = self._columns(width)
        blocks = _Blocks(jobs, lambda job: self._block(job, columns, widths, width))
        shown = blocks.around(self._pointed(), lines - 1)
        if len(shown) < self._listing.count:
            shown = blocks.around(self._pointed(), lines - 2)
        table = [heading(columns, widths), *(part for job in shown for part in blocks.of(job))][: lines - 1]
        return table + ([_rest(self._listing, shown)] if len(shown) < self._listing.count else [])

    def _pointed(self) -> int:
        """Return the row of the pointer, 0 where there is none."""
        ids = (row for row, job in enumerate(self._listing.jobs) if job["id"] == self._listing.pointer)
        return next(ids, 0) if self._listing.pointer else 0

    def _columns(self, width: int) -> tuple[Sequence[Column], dict[str, int]]:
        """Return the columns and their widths; the column of reasons is left out where it is too narrow to read."""
        columns = [one for one in (POINTER, *COLUMNS) if self._shows(one.title)]
        rows = [self.cells(job) for job in self._listing.jobs] if width >= UNLIMITED else []
        widths = fitted(columns, width, rows)
        if width >= UNLIMITED or widths[_WHY] >= _MIN_WHY_CELLS:
            return columns, widths
        return columns[:-1], fitted(columns[:-1], width)

    def _shows(self, title: str) -> bool:
        if title == POINTER.title:
            return self._listing.pointer is not None
        key = _OPTIONAL.get(title)
        return key is None or any(job.get(key) is not None for job in self._listing.jobs)

    def _block(self, job: PublishedJob, columns: Sequence[Column], widths: dict[str, int], width: int) -> list[Text]:
        """Return the row of a job and the rest of its reason: in the column of reasons, or across the table below it."""
        cells = self.cells(job)
        why_cells = widths.get(_WHY, 0)
        indent = sum(widths.values()) + len(widths) - 1 - why_cells if why_cells else _INDENT
        limit = _MAX_REASON_CELLS if width < UNLIMITED else CELL_LIMIT
        reason = wrapped(cells[_WHY][0], why_cells or max(width - indent, 10), limit)
        below = reason[1:] if why_cells else [] if _only_runs(job) else [one for one in reason if one]
        row = row_line(columns, widths, {**cells, _WHY: (reason[0], "")})
        if job["id"] == self._listing.pointer:
            row.stylize("reverse", _BEFORE)
        return [row, *(styled((" " * indent, ""), (one, "" if why_cells else FAINT)) for one in below)]

    def cells(self, job: PublishedJob) -> dict[str, Cell]:
        """Return the cells of a job, by column title."""
        symbol, state = self._listing.symbols.get(job["id"], NO_SYMBOL), state_word(job)
        preemptions = job.get("preemptions", 0)
        return {
            POINTER.title: (">" if job["id"] == self._listing.pointer else "", "bold"),
            " ": (symbol.letter, symbol.style),
            "job": (job["id"], "bold"),
            "user": (job.get("user", ""), ""),
            "name": (job.get("name", ""), ""),
            "GPUs": (str(job.get("gpus", 0)), ""),
            "sizes": (sizes(job), ""),
            "servers": (servers(job), ""),
            "state": (state, STATE_STYLES.get(state, "")),
            "time": (duration(job.get("ran", 0.0) if job.get("nodes") else job.get("waited", 0.0)), ""),
            "end in": (end_in(job, self._now), ""),
            "Q": (f"Q{job['queue'] + 1}" if "queue" in job else "", ""),
            "GPU time": (gpu_time(job["attained"]) if "attained" in job else "", ""),
            "demotion": (demotion(job, self._limits), ""),
            "saved": (self._age(job), ""),
            "runs": (str(job["restarts"] + bool(job.get("start_time"))) if "restarts" in job else "", ""),
            "nodes": self._nodes(job),
            "style": (_STYLES.get(job.get("placement", ""), job.get("placement", "")), ""),
            "skew": (_skew(job), ""),
            "preempted": (f"{preemptions}x" if preemptions else "", "magenta"),
            "where": (place(job.get("nodes", [])), ""),
            _WHY: ("; ".join(filter(None, (job.get("why", ""), memory_words(job)))), ""),
        }

    def _age(self, job: PublishedJob) -> str:
        saved = job.get("checkpoint_time")
        return "" if saved is None else duration(self._now - saved)

    def _nodes(self, job: PublishedJob) -> Cell:
        """Return the number of nodes; with the smallest possible number where the job consolidates on more."""
        held = len(job.get("nodes", []))
        least = math.ceil(job.get("gpus", 0) / self._widest) if self._widest else held
        if held > least and job.get("placement") == "consolidate":
            return f"{held}>{least}", "yellow"
        return str(held or ""), ""


class _Blocks:
    """The lines of each job, made on demand: of ten thousand jobs few are shown."""

    def __init__(self, jobs: Sequence[PublishedJob], make: Callable[[PublishedJob], list[Text]]) -> None:
        self._jobs, self._make = jobs, make
        self._made: dict[str, list[Text]] = {}

    def of(self, job: PublishedJob) -> list[Text]:
        if job["id"] not in self._made:
            self._made[job["id"]] = self._make(job)
        return self._made[job["id"]]

    def around(self, row: int, limit: int) -> list[PublishedJob]:
        """Return the job at `row` and its neighbours in `limit` lines, about as many lines before it as after it."""
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
    """Return the transition of the job, or else Slurm's state in lower case, `waiting` for PENDING."""
    state = job.get("phase") or job.get("state", "").lower()
    return "waiting" if state == "pending" else state


def _only_runs(job: PublishedJob) -> bool:
    """Return whether the text on the job contains only its rank."""
    return bool(job.get("nodes") and job.get("preemptable") and not job.get("phase") and not job.get("remote_memory"))


def demotion(job: PublishedJob, limits: Mapping[int, float | None]) -> str:
    """Return how much longer the job may run before it falls to the next queue."""
    limit, gpus = limits.get(job.get("queue", 0)), job.get("gpus", 0)
    if limit is None or gpus < 1 or "attained" not in job:
        return ""
    return duration((limit - job["attained"]) / gpus)


def _skew(job: PublishedJob) -> str:
    skew = (job.get("profile") or {}).get("skew")
    return "" if skew is None else f"{skew:.2f}"


def listed_jobs(status: Status) -> list[PublishedJob]:
    """Return the competing jobs, then the jobs that Slurm's rules, their owner or an administrator exclude."""
    return [*status.get("jobs", []), *status.get("blocked", [])]


def unlisted_jobs(status: Status) -> dict[str, int]:
    """Return the numbers of the jobs that an answer for one screen leaves out, by kind; {} of a whole answer."""
    rest = status.get("rest")
    return dict(zip(KINDS, (rest["on_nodes"], rest["waiting"], rest["blocked"]), strict=True)) if rest else {}


def _rest(listing: Listing, shown: Sequence[PublishedJob]) -> Text:
    left = Counter(map(_kind, listing.jobs)) - Counter(map(_kind, shown)) + Counter(listing.unlisted)
    counts = [f"{left[kind]} {kind}" for kind in KINDS if left[kind] or kind != "blocked"]
    return styled((f"… and {listing.count - len(shown)} more: {', '.join(counts)}", FAINT))


def _kind(job: PublishedJob) -> str:
    return "on nodes" if job.get("nodes") else "blocked" if job.get("state") == "BLOCKED" else "waiting"
