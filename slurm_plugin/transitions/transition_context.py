"""What all operations of the transition table share: the collaborators, the open intents and the newest records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Start
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.interface import Backend, CommentField, NoSuchJob, SlurmJob, SlurmNode
from tiresias.slurm_plugin.config import PreemptionConfig
from tiresias.slurm_plugin.state.intents import Intent, IntentKind
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.quarantine import Quarantine
from tiresias.slurm_plugin.transitions.allowance import Allowance
from tiresias.slurm_plugin.transitions.delayed_starts import PLANNED

RUNS = ("RUNNING", "SUSPENDED")

NodeGpus = tuple[tuple[str, int], ...]  # names and GPUs
NodeParts = tuple[tuple[int, ...], ...]  # of each node the GPUs from each part
ReadReport = Callable[[SlurmJob], JobReport]


@dataclass(slots=True)
class TransitionContext:
    """The state of all transitions of one controller.

    Attributes:
        report: reads what a job's supervisor reports.
        has_begun: whether no begin time that the job's owner set is still to come, at that epoch second.
        comment_field: the field in which pending jobs have a comment of the controller.
        kind_of_preemption: whether a running job is preempted by checkpoint, or by a restart from the beginning.
        progress: called before each job that is acted on, so that the watchdog sees that no call hangs.
        part_types: GPU types that name the parts of nodes, in the order of the parts (placement.part_types).
        intents: the open ones, by job id.
        reserved: the reservations of the newest plan.
        news: the decisions and outcomes since they were logged last.
        records: of the newest snapshot, by job id; None before the first one.
        started: jobs that wait in these records, and that Slurm has started since.
        asked_at: epoch second at which Slurm was asked for them.
        free_gpus: GPUs of each node that no running job holds, as far as that is known.
        planned: nodes that Slurm has planned for waiting jobs.
        drain_polls: epoch second of the newest poll of each job that releases its GPUs.
        blocked: ids of jobs whose starts have ended since that snapshot, as others than the controller keep them waiting.
    """

    backend: Backend
    journal: Journal
    ledger: Ledger
    config: PreemptionConfig
    report: ReadReport
    allowance: Allowance
    refusals: Refusals
    quarantine: Quarantine
    has_begun: Callable[[SlurmJob, float], bool] = lambda job, now: True
    comment_field: CommentField | None = None
    progress: Callable[[], None] = lambda: None
    kind_of_preemption: Callable[[SlurmJob], IntentKind] = lambda job: IntentKind.PREEMPT
    part_types: tuple[str, ...] = ()
    intents: dict[str, Intent] = field(init=False)
    reserved: tuple[Start, ...] = ()
    news: list[Decision] = field(default_factory=list)
    records: Mapping[str, SlurmJob] | None = None
    started: set[str] = field(default_factory=set)
    asked_at: float = -math.inf
    free_gpus: dict[str, int] = field(default_factory=dict)
    planned: frozenset[str] = frozenset()
    drain_polls: dict[str, float] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.intents = {one.id: one for one in self.journal.open_intents()}

    def see(self, jobs: Sequence[SlurmJob], at: float = math.inf, nodes: Sequence[SlurmNode] = ()) -> None:
        """Take the records of a new snapshot, for which Slurm was asked at that epoch second."""
        self.records, self.asked_at = {job.id: job for job in jobs}, at
        self.started.clear()
        self.blocked.clear()
        self.free_gpus = {node.name: node.gpus - node.gpus_allocated for node in nodes}
        self.planned = frozenset(node.name for node in nodes if PLANNED in node.flags)

    def note_released(self, job_id: str) -> None:
        """Count the GPUs of a job as free that has released them since the newest snapshot."""
        if self.runs(job_id) and (job := self.record(job_id)):
            for share in job.shares:
                if share.node in self.free_gpus:
                    self.free_gpus[share.node] += share.gpus

    def record(self, job_id: str) -> SlurmJob | None:
        """Return the job as the newest snapshot has it."""
        return (self.records or {}).get(job_id)

    def fresh(self, job_id: str) -> SlurmJob | None:
        """Ask Slurm for the job now; None where Slurm has no such job."""
        try:
            return self.backend.job(job_id)
        except NoSuchJob:
            return None

    def runs(self, job_id: str) -> bool:
        """Return whether the job holds nodes and is not completing."""
        job = self.record(job_id)
        return job is not None and job.state in RUNS and not job.completing

    def row(self, intent: Intent) -> JobRow | None:
        """Return the row of the very job that the intent is about, unless that job ended."""
        row = self.ledger.jobs.get(intent.id)
        return row if row and row.key == intent.key else None

    def add_news(self, now: float, job_id: str, action: str, why: str) -> None:
        """Add a decision for the views and the log."""
        self.news.append(Decision(now, job_id, action, why))


def nodes_in_words(nodes: NodeGpus) -> str:
    """Return nodes with their GPUs, for the log."""
    return ", ".join(f"{node}:{gpus}" for node, gpus in nodes)


def is_in_run(job: SlurmJob | None, intent: Intent) -> bool:
    """Whether the run that the intent is about continues."""
    return job is not None and job.restarts == intent.restart and job.state in RUNS and not job.completing
