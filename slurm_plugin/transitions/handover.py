"""The hand-over: all victims of one beneficiary park before any of them is requeued, and the beneficiary is pinned to their nodes.

    victims:      hold -> turn -> signal -> wait -> parked -> requeue -> drain      (turn -> spare, wait -> unhold)
    by restart:   hold -> turn -----------------> parked -> requeue -> drain      (turn, parked -> spare)
    beneficiary:                                 start -> prioritize -> confirm     (between `parked` and `requeue`)

Slurm gives a free GPU to any pending job of any partition on the node. So the beneficiary is pinned and released with the highest
priority of all while the victims still hold the GPUs: where such a job fails for lack of resources, slurmctld keeps its required
nodes from every later job in the same pass (job_scheduler.c), and starts it at the end of the victims' clean-up.

The victims that are most likely to be late are signalled first, the others once those have parked: a victim that does not save
costs the others nothing. Victims that are preempted by a restart from the beginning are the last: they run on, in the step `parked`
as well, until all others have parked and the beneficiary has been released.

In mode assist Slurm starts the beneficiary, which it ranks before all other jobs of these nodes (assisting.py). One that is to be
consolidated is pinned before the requeue (suggesting.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Start
from tiresias.slurm_plugin.backends.interface import JobRefused
from tiresias.slurm_plugin.state import owned_cells
from tiresias.slurm_plugin.state.intents import SAVING, Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.transitions.endings import Ending
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.node_claims import NodeClaims
from tiresias.slurm_plugin.transitions.transition_context import NodeGpus, TransitionContext, is_in_run
from tiresias.slurm_plugin.transitions.transition_engine import MOVED, STAY, Operations, Result, TransitionEngine
from tiresias.slurm_plugin.transitions.transition_table import BEFORE_PARKED, Operation
from tiresias.slurm_plugin.transitions.victim_group import give_up, group_of


class HandingOver:
    """Gives the GPUs of a group of victims to their beneficiary."""

    def __init__(self, context: TransitionContext, holds: JobHolds, engine: TransitionEngine) -> None:
        self._context, self._holds, self._engine = context, holds, engine

    @property
    def operations(self) -> Operations:
        """The operations of the transition table that this class executes."""
        return {
            Operation.AWAIT_TURN: self._await_turn,
            Operation.AWAIT_PARKED: self._await_parked,
            Operation.AWAIT_GROUP: self._await_group,
            Operation.SPARE: self._spare,
            Operation.PRIORITIZE: self._prioritize,
        }

    # the operations of a victim

    def _await_turn(self, intent: Intent, now: float) -> Result:
        if not is_in_run(self._context.record(intent.id), intent):
            return IntentStep.WAIT  # which finds out how the run ended
        if not self._lacks_only_gpus(intent.beneficiary, now):
            return IntentStep.SPARE
        proof = self._context.ledger.proof(self._context.ledger.jobs[intent.id])
        if any(self._comes_first(one, proof) for one in group_of(self._context, intent.beneficiary)):
            return STAY
        intent.began = now  # the time limit of the save counts from here
        return IntentStep.SIGNAL

    def _comes_first(self, other: Intent, proof: int) -> bool:
        row = self._context.row(other)
        return row is not None and _is_to_save(other) and self._context.ledger.proof(row) < proof

    def _await_parked(self, intent: Intent, now: float) -> Result:
        if not is_in_run(self._context.record(intent.id), intent):
            return IntentStep.DRAIN  # which finds out how the run ended
        if not self._lacks_only_gpus(intent.beneficiary, now):
            return IntentStep.SPARE
        return STAY if any(map(_is_to_save, group_of(self._context, intent.beneficiary))) else IntentStep.PARKED

    def _await_group(self, intent: Intent, now: float) -> Result:
        if not is_in_run(self._context.record(intent.id), intent):
            return IntentStep.DRAIN
        start = self._context.intents.get(intent.beneficiary)
        if not intent.beneficiary or (start is None and not self._lacks_only_gpus(intent.beneficiary, now)):
            return self._give_up(intent, now)
        if intent.kind in SAVING and self._runs_again(intent):
            return IntentStep.TURN
        group = group_of(self._context, intent.beneficiary)
        if any(one.step in BEFORE_PARKED for one in group):
            return STAY
        claims = NodeClaims(self._context)
        if start is None and intent.kind != IntentKind.ASSIST:
            if not claims.take(intent.beneficiary, intent.nodes):
                return STAY
            if not claims.fit(intent.nodes):  # another job took some of them; the next plan finds others
                return self._give_up(intent, now)
        return self._hand_over(intent, group, claims, now)

    def _give_up(self, intent: Intent, now: float) -> Result:
        give_up(self._context, intent, now)
        return MOVED if intent.step == IntentStep.SPARE else IntentStep.REQUEUE

    def _spare(self, intent: Intent, now: float) -> Result:
        if row := self._context.row(intent):
            self._holds.lift(row.id)
        return Ending.NOT_NEEDED.end(beneficiary=intent.beneficiary)

    # the operation of a beneficiary

    def _prioritize(self, intent: Intent, now: float) -> Result:
        """After the release: a held job has no priority. Its next hold and release, or the end of its start, take it back."""
        self._context.backend.prioritize(intent.id)
        return IntentStep.CONFIRM

    # the group

    def _lacks_only_gpus(self, beneficiary: str, now: float) -> bool:
        """Whether nothing but these GPUs keeps the beneficiary pending."""
        row, job = self._context.ledger.jobs.get(beneficiary), self._context.record(beneficiary)
        if row is None or job is None or job.state != "PENDING" or job.completing:
            return False
        return self._context.ledger.free(job) and row.not_before <= now and not row.unpinnable

    def _runs_again(self, intent: Intent) -> bool:
        """Whether the supervisor runs the script again, as no requeue came within PARK_TIMEOUT."""
        job = self._context.record(intent.id)
        report = self._context.report(job) if job else JobReport()
        return report.restart == intent.restart and report.state == "running"

    def _hand_over(self, intent: Intent, group: Sequence[Intent], claims: NodeClaims, now: float) -> Result:
        if intent.kind == IntentKind.ASSIST:
            self._suggest(intent.beneficiary, now)
        elif not self._are_released(intent, group, claims, now):
            return STAY
        for one in group:
            self._engine.enter(one, IntentStep.REQUEUE, now)
        self._requeue_together(group, now)
        return MOVED

    def _suggest(self, beneficiary: str, now: float) -> None:
        """Pin the beneficiary of mode assist to the nodes that the plan names for it, if any. It has no other intent."""
        start = next((one for one in self._context.reserved if one.job == beneficiary), None)
        if start and beneficiary not in self._context.intents:
            self._engine.begin(beneficiary, IntentKind.SUGGEST, now, start.nodes)
            self._engine.advance(self._context.intents[beneficiary], now)

    def _are_released(self, intent: Intent, group: Sequence[Intent], claims: NodeClaims, now: float) -> bool:
        """Start the beneficiary, and other jobs on what it leaves; return whether Slurm may start it once the GPUs are free."""
        planned = Start(intent.beneficiary, intent.nodes, parts=intent.parts, servers=intent.servers)
        start = self._started(planned, intent.cells, now)
        for other in self._other_beneficiaries(group, intent.nodes, now):
            if claims.take(other.job, other.nodes):
                self._started(other, owned_cells.of_start(other), now)
        # None: Slurm refused it, and the next poll finds that it cannot start. Else Slurm does not answer, or the calls are used up
        return start is not None and start.step == IntentStep.CONFIRM

    def _requeue_together(self, group: Sequence[Intent], now: float) -> None:
        """Requeue all within milliseconds: where some run on while others have ended, Slurm expects the beneficiary's start at the
        end of their time limits, and backfills what ends before it."""
        if len(group) == 1:
            self._requeue_one(group[0], now)
            return
        running = [one for one in group if is_in_run(self._context.fresh(one.id), one)]
        try:
            if running:
                self._context.backend.requeue_together([one.id for one in running])
        except JobRefused:
            for one in group:
                self._requeue_one(one, now)
            return
        for one in group:
            self._engine.enter(one, IntentStep.DRAIN, now)

    def _requeue_one(self, intent: Intent, now: float) -> None:
        try:
            self._engine.execute(intent, now)
        except JobRefused as error:
            self._engine.refuse(intent, str(error), now)

    def _started(self, planned: Start, cells: str, now: float) -> Intent | None:
        """The start of a beneficiary, as far as it gets now; None where Slurm refused it."""
        job_id = planned.job
        if job_id not in self._context.intents:
            self._engine.begin_start(
                job_id,
                planned.nodes,
                now,
                beneficiary=job_id,
                cells=cells,
                parts=planned.parts,
                servers=planned.servers,
            )
        start = self._context.intents[job_id]
        if start.kind == IntentKind.START and start.step != IntentStep.CONFIRM:
            self._engine.advance(start, now)
        return self._context.intents.get(job_id)

    def _other_beneficiaries(self, group: Sequence[Intent], nodes: NodeGpus, now: float) -> Iterator[Start]:
        """Other jobs for which the plan reserves what the beneficiary leaves of its victims' GPUs."""
        left = Counter[str]()
        for one in group:
            job = self._context.record(one.id)
            left.update({share.node: share.gpus for share in (job.shares if job else ())})
        left.subtract(dict(nodes))
        for start in self._context.reserved:
            fits = all(gpus <= left[node] for node, gpus in start.nodes)
            if fits and start.job not in self._context.intents and self._lacks_only_gpus(start.job, now):
                left.subtract(dict(start.nodes))
                yield start


def _is_to_save(intent: Intent) -> bool:
    """Whether a victim is preempted by checkpoint and has not parked."""
    return intent.kind in SAVING and intent.step in BEFORE_PARKED
