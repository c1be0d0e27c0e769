"""What the journal stores of a job, of its runs, and of decisions about it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tiresias.slurm_plugin.state.change_stamps import Stamped


@dataclass(slots=True)
class JobRow(Stamped):
    """What the controller stores of a job beyond Slurm's own record. Times are epoch seconds.

    Attributes:
        submit: the first submit time.
        reset: service before this time does not count (promotion, section 3.2.3).
        held: the controller holds it.
        pinned: its nodes are the controller's request.
        failures: starts in a row that Slurm did not carry out.
        not_before: it is not started earlier, after such a start.
        unmovable: why this run is not preempted (job_reasons.Unmovable); cleared when the next run starts.
        min_nodes, max_nodes, required, excluded: the owner's request, before any pin.
        kind: the file of its profile (protocol/job_kind.py), of a job that tsbatch submitted.
        over: when it ended; 0 of a live one.
        pin: the way of the newest pin (pins.py).
        asked: its request as the newest start found it (pins.py), JSON.
        unpinnable: why it is left to Slurm (job_reasons.Unpinnable); cleared when its owner changes the request.
        virtual_cluster: name of its virtual cluster by the configuration; "": none.
        priority_class: the highest PriorityTier of its partitions, as read last; 0: not read yet.
        min_gpus, max_gpus: the GPUs that it can use, of its request; equal for a job of fixed size; 0: not read yet, as in
            the row of an earlier version until its job is observed.
        progress: the newest step that its program reported; None: none. Written with the next change of the row, as those below.
        total_steps: the steps of the whole job by that report; None: not reported.
        claim_at, claim_left: seconds of work at the newest claim of remaining work, and that claim, seconds (job_claims.py); None:
            it never claimed anything.
        earliest_at, earliest_left: the same of the claim with the earliest end.
        opportunistic: the owner's choice for runs beyond the cells of its virtual cluster (protocol/opportunistic_choice.py);
            "": not known.
        elastic: the sizes that it can use (protocol/elastic_sizes.py); "fixed": it has a fixed size, whatever its owner stated; "":
            not known.
        rigid: why it keeps the size that it requests although it is elastic (job_reasons.Rigid); "": it does not.
        converges: when its training ends, as its program stated it (protocol/convergence.py), JSON; "": not stated.
        slow_nodes, slow_until: the nodes on which its ranks were slow, "gpu01,gpu02", and until when it avoids them.
        failed_nodes, failed_until: the nodes on which Slurm did not start it, and until when it avoids them.
    """

    key: str
    id: str
    uid: int
    submit: float
    reset: float = 0.0
    held: bool = False
    pinned: bool = False
    preemptions: int = 0
    last_preempted: float = 0.0
    failures: int = 0
    not_before: float = 0.0
    unmovable: str = ""
    min_nodes: int = 0
    max_nodes: int = 0
    required: str = ""
    kind: str = ""
    ended: bool = False
    over: float = 0.0
    excluded: str = ""
    pin: str = ""
    asked: str = ""
    unpinnable: str = ""
    virtual_cluster: str = ""
    priority_class: int = 0
    min_gpus: int = 0
    max_gpus: int = 0
    progress: float | None = None
    total_steps: float | None = None
    claim_at: float | None = None
    claim_left: float | None = None
    earliest_at: float | None = None
    earliest_left: float | None = None
    opportunistic: str = ""
    elastic: str = ""
    rigid: str = ""
    converges: str = ""
    slow_nodes: str = ""
    slow_until: float = 0.0
    failed_nodes: str = ""
    failed_until: float = 0.0


@dataclass(slots=True)
class RunRow(Stamped):
    """One run of a job, and what it cost: None where that is not known.

    Attributes:
        start, end: epoch seconds; end: 0 while it runs.
        nodes: with the GPUs on each, "gpu01:4,gpu02:4".
        restore: seconds from its start to its first step: start-up and restore.
        save: seconds of its newest save.
        pause: seconds from the checkpoint signal to free GPUs.
        redone: steps of the run before that were executed again.
        pace: seconds a step.
        cells: the types of the cells of its virtual cluster that it holds, by node (owned_cells.py); "": none.
        lost: seconds of the run that are done again, because the controller ended it without a checkpoint; None: it did not.
        timed: seconds a step, timed by the controller from one report to another.
        samples: samples of a step, by the same reports.
        expected: the seconds a step that were expected of its size before it began.
        servers: its parameter servers on CPUs alone; 0: none.
        account: Slurm's account that it was charged to; "": not known.
        ended_as: "FAILED" or another of Slurm's states for a failure, if it failed; "": it did not, or that is not known.
    """

    key: str
    restart: int
    start: float
    end: float
    gpus: int
    nodes: str
    restore: float | None = None
    save: float | None = None
    pause: float | None = None
    redone: int | None = None
    pace: float | None = None
    cells: str = ""
    lost: float | None = None
    timed: float | None = None
    samples: float | None = None
    expected: float | None = None
    servers: int = 0
    ended_as: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the list of decisions.

    Attributes:
        time: epoch second.
        id: of the job; "" for a decision about the controller itself.
        action: the word of an IntentKind, an IntentOutcome or a Notice.
        why: its details.
    """

    time: float
    id: str
    action: str
    why: str


def columns(row: type, prefix: str = "") -> str:
    """Return the column names of a row, for SQL."""
    return ", ".join(prefix + one.name for one in fields(row))


def job_row(values: tuple[Any, ...]) -> JobRow:
    """Return the row that SQLite read: it has numbers for truth values."""
    job = JobRow(*values)
    job.held, job.pinned, job.ended = bool(job.held), bool(job.pinned), bool(job.ended)
    return job
