"""Executes the transition table: journals each step, then executes its operation, as long as steps follow at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from tiresias.protocol.opportunistic_choice import RESTART
from tiresias.slurm_plugin.admission.refusals import ANSWERED
from tiresias.slurm_plugin.backends.interface import JobRefused
from tiresias.slurm_plugin.state import job_reasons
from tiresias.slurm_plugin.state.intents import OF_PENDING_JOBS, Intent, IntentKind, IntentStep, action_of
from tiresias.slurm_plugin.state.job_reasons import Unmovable
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.nodes_of_runs import last_nodes
from tiresias.slurm_plugin.transitions.endings import End, Ending
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.transition_context import (
    NodeGpus,
    NodeParts,
    TransitionContext,
    is_in_run,
    nodes_in_words,
)
from tiresias.slurm_plugin.transitions.transition_table import Operation, row_of
from tiresias.slurm_plugin.transitions.victim_group import give_up


class Pass(Enum):
    """What an operation returns where it names no step."""

    STAY = "the step lasts; it is executed again in the next pass"
    MOVED = "the operation has entered the next step itself"


STAY, MOVED = Pass.STAY, Pass.MOVED
Result = IntentStep | End | Pass
Operations = Mapping[Operation, Callable[[Intent, float], Result]]


class TransitionEngine:
    """Takes intents from step to step."""

    def __init__(self, context: TransitionContext, holds: JobHolds) -> None:
        self._context, self._holds = context, holds
        self._operations: dict[Operation, Callable[[Intent, float], Result]] = {}

    def add(self, operations: Operations) -> None:
        """Add operations of the transition table."""
        self._operations.update(operations)

    # an intent's life

    def begin(
        self,
        job_id: str,
        kind: IntentKind,
        now: float,
        nodes: NodeGpus = (),
        beneficiary: str = "",
        cells: str = "",
        parts: NodeParts = (),
        servers: int = 0,
        why: str = "",
    ) -> None:
        """Journal a new intent at its first step. `cells`, `parts`, `servers`: as in Intent; `why`: for the log, "": as usual."""
        row, job = self._context.ledger.jobs[job_id], self._context.record(job_id)
        assert job is not None  # the plan was made from these records
        first = IntentStep.START if kind in OF_PENDING_JOBS else IntentStep.HOLD
        intent = Intent(
            row.key,
            job_id,
            job.restarts,
            kind,
            first,
            nodes,
            beneficiary,
            began=now,
            stepped=now,
            cells=cells,
            parts=parts,
            servers=servers,
        )
        self._context.journal.begin(intent)
        self._context.intents[job_id] = intent
        last = last_nodes(self._context.ledger.runs[row.key])
        self._context.add_news(now, job_id, action_of(kind), why or _cause(intent, row, last))

    def begin_start(
        self,
        job_id: str,
        nodes: NodeGpus,
        now: float,
        beneficiary: str = "",
        cells: str = "",
        parts: NodeParts = (),
        servers: int = 0,
    ) -> None:
        """As `begin`, with the hold of a job that is not held: pins are put on held jobs only."""
        job = self._context.record(job_id)
        if job and job.priority > 0:
            self._holds.hold_pending(job.id, [job], now)
        self.begin(job_id, IntentKind.START, now, nodes, beneficiary, cells, parts, servers)

    def enter(self, intent: Intent, step: IntentStep, now: float) -> None:
        """Journal that the intent's next step is about to be executed."""
        if intent.kind == IntentKind.RELEASE:
            intent.step = step
        else:
            self._context.journal.step(intent, step, now)

    def finish(self, intent: Intent, end: End, now: float) -> None:
        """Journal the end of the intent."""
        self._context.journal.finish(intent, end.stored)
        self._context.intents.pop(intent.id, None)
        self._context.drain_polls.pop(intent.id, None)
        self._context.add_news(now, intent.id, end.outcome, end.details)

    # its steps

    def advance(self, intent: Intent, now: float) -> None:
        """Take an intent as far as it gets now. Raises SlurmUnavailable: then it stays where it is."""
        context = self._context
        if context.quarantine.holds(intent.id):
            return
        # the clock may have been set back
        intent.began, intent.stepped = min(intent.began, now), min(intent.stepped, now)
        context.progress()
        with context.quarantine.guard(f"step {str(intent.step)!r} of its {intent.kind}", intent.id):
            try:
                while not intent.outcome and context.allowance.affords_step(intent) and self.execute(intent, now):
                    pass
            except JobRefused as error:
                self.refuse(intent, str(error), now)

    def execute(self, intent: Intent, now: float) -> bool:
        """Execute the operation of the intent's step; return whether the next step may follow at once."""
        return self.apply(intent, self._operations[row_of(intent).operation](intent, now), now)

    def apply(self, intent: Intent, result: Result, now: float) -> bool:
        """Journal what an operation returned. Raises AssertionError for a step that the table does not list."""
        if isinstance(result, End):
            self.finish(intent, result, now)
            return False
        if isinstance(result, IntentStep):
            assert row_of(intent).may_lead_to(result), f"no transition from {intent.kind} {intent.step} to {result}"
            self.enter(intent, result, now)
            return True
        return result is MOVED

    def refuse(self, intent: Intent, message: str, now: float) -> None:
        """End an intent of which Slurm refused a step. The hold is lifted; no other job is concerned."""
        row = self._context.row(intent)
        if row and intent.kind not in OF_PENDING_JOBS:
            if not is_in_run(self._context.fresh(intent.id), intent):  # its run is over, as it was meant to be
                self.enter(intent, IntentStep.DRAIN, now)
                return
            give_up(self._context, intent, now)
            self._holds.mark_unmovable(intent, Unmovable.PREEMPTION_REFUSED, message)
            self._holds.attempt(self._holds.lift, intent.id, now)
        elif row and intent.kind == IntentKind.START:
            self._holds.back_off(row, now)
            if job := self._context.record(intent.id):
                reason = message.removeprefix(f"job {intent.id}: ").removesuffix(f" for job {intent.id}")
                self._context.refusals.note(job, ANSWERED + reason, now)
        self.finish(intent, Ending.REFUSED.end(message=message), now)


def _cause(intent: Intent, row: JobRow, last: frozenset[str]) -> str:
    """Why the intent was begun, for the log. last: the nodes of the job's newest run."""
    if intent.kind == IntentKind.START:
        return f"on {nodes_in_words(intent.nodes)}{_of_last_run(intent.nodes, last)}"
    if intent.kind == IntentKind.SUGGEST:
        return f"to {nodes_in_words(intent.nodes)}, where the preempted jobs release their GPUs"
    if intent.kind == IntentKind.RESTART:
        return f"for job {intent.beneficiary}: its run is ended and starts again, {_why_ended(row)}"
    if intent.kind == IntentKind.RESIZE and row.rigid:
        return f"back to the size that it requests: {job_reasons.text(row.rigid)}"
    if intent.kind == IntentKind.RESIZE and not intent.beneficiary:
        return "so that it starts again with another number of GPUs or parameter servers"
    if intent.kind == IntentKind.REPLACE:
        return "so that it starts again without a slow node"
    if intent.beneficiary:
        return f"for job {intent.beneficiary}"
    renewed = intent.kind == IntentKind.RENEW
    return "it has saved before its time limit" if renewed else "it has saved, though late"


def _of_last_run(nodes: NodeGpus, last: frozenset[str]) -> str:
    """Return how many of the nodes the job's last run had: its data may still be in memory or on disks there."""
    again = sum(node in last for node, _ in nodes)
    if not again:
        return ""
    which = "the node" if len(nodes) == 1 else "the nodes" if again == len(nodes) else f"{again} of these nodes are"
    return f", {which} of its last run"


def _why_ended(row: JobRow) -> str:
    """Why the run is ended without a checkpoint."""
    if row.opportunistic == RESTART:
        return "from the beginning unless it has saved, as its owner accepts (tsbatch --opportunistic=restart)"
    if row.unmovable:
        return f"as it {job_reasons.text(row.unmovable)}"
    return "as it has not shown in this run that it can checkpoint"
