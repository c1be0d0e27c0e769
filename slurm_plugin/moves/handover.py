"""The hand-over: all victims of one beneficiary park before any of them is requeued, and the beneficiary waits for their GPUs then.

    victims:      hold -> turn -> signal -> wait -> parked -> requeue -> drain      (turn -> spare, wait -> unhold)
    beneficiary:                                 start -> prioritize -> confirm     (between `parked` and `requeue`)

Slurm gives a free GPU to any pending job of any partition on the node. So the beneficiary is pinned and released with the highest
priority of all while the victims still hold the GPUs: where such a job fails for want of resources, slurmctld keeps its required
nodes from every job behind it in the same pass (job_scheduler.c), and starts it at the end of the victims' clean-up.

The victims that are most likely to be late are signalled first, the others once those have parked: a victim that does not save
costs the others nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Start
from tiresias.slurm_plugin.backends.protocol import JobRefused, SlurmJob
from tiresias.slurm_plugin.moves.hands import Hands, is_in_run
from tiresias.slurm_plugin.moves.preempting import PREEMPT
from tiresias.slurm_plugin.moves.starting import START
from tiresias.slurm_plugin.state.journal import Intent

UNTOUCHED = ("hold", "turn")  # steps at which a victim has not been signalled yet
UNPARKED = (*UNTOUCHED, "signal", "wait")

NodeGpus = tuple[tuple[str, int], ...]  # names and GPUs


class HandingOver(Hands):
    """Each step returns whether the next one may follow at once."""

    _report: Callable[[SlurmJob], JobReport]
    _advance: Callable[[Intent, float], None]
    _begin_start: Callable[..., None]
    _refused: Callable[[Intent, str, float], None]
    _requeue: Callable[[Intent, float], bool]
    _reserved: tuple[Start, ...] = ()  # of the newest plan

    # the steps of a victim

    def _turn(self, intent: Intent, now: float) -> bool:
        """Wait until every victim that is more likely to be late has parked."""
        if not is_in_run(self._record(intent.id), intent):
            return self._next(intent, "wait", now)  # which finds out what became of it
        if not self._is_wanted(intent.beneficiary, now):
            return self._next(intent, "spare", now)
        row = self._ledger.jobs[intent.id]
        if any(self._comes_first(one, self._ledger.proof(row)) for one in self._group(intent.beneficiary)):
            return False
        intent.began = now  # from now on it is asked to save
        return self._next(intent, "signal", now)

    def _comes_first(self, other: Intent, proof: int) -> bool:
        row = self._row(other)
        return row is not None and other.step in UNPARKED and self._ledger.proof(row) < proof

    def _parked(self, intent: Intent, now: float) -> bool:
        """Wait until all victims of the group have parked; the last one hands all GPUs over."""
        if not is_in_run(self._record(intent.id), intent):
            return self._next(intent, "drain", now)
        start = self.intents.get(intent.beneficiary)
        if not intent.beneficiary or (start is None and not self._is_wanted(intent.beneficiary, now)):
            self._give_up(intent, now)
            return self._next(intent, "requeue", now)
        if self._runs_again(intent):
            return self._next(intent, "turn", now)
        group = self._group(intent.beneficiary)
        if any(one.step in UNPARKED for one in group):
            return False
        return self._hand_over(intent, group, now)

    def _spare(self, intent: Intent, now: float) -> bool:
        """Let a victim go on that was not signalled."""
        if row := self._row(intent):
            self._lift(row.id)
        return self._finish(intent, f"left running: job {intent.beneficiary} is not to have its GPUs any more", now)

    # the step of a beneficiary

    def _prioritize(self, intent: Intent, now: float) -> bool:
        """After the release: a held job has no priority. Its next hold and release, or the end of its start, take it back."""
        self._backend.prioritize(intent.id)
        return self._next(intent, "confirm", now)

    # the group

    def _group(self, beneficiary: str) -> list[Intent]:
        """The victims of which the run may still go on."""
        return [one for one in self.intents.values() if one.kind == PREEMPT and one.beneficiary == beneficiary]

    def _is_wanted(self, beneficiary: str, now: float) -> bool:
        """Whether nothing but these GPUs keeps the beneficiary waiting."""
        row, job = self._ledger.jobs.get(beneficiary), self._record(beneficiary)
        if row is None or job is None or job.state != "PENDING" or job.completing:
            return False
        return self._ledger.free(job) and row.not_before <= now and not row.unpinnable

    def _runs_again(self, intent: Intent) -> bool:
        """A supervisor runs the script again where no requeue came for long (PARK_TIMEOUT)."""
        job = self._record(intent.id)
        report = self._report(job) if job else JobReport()
        return report.restart == intent.restart and report.state == "running"

    def _hand_over(self, intent: Intent, group: Sequence[Intent], now: float) -> bool:
        start = self._started(intent.beneficiary, intent.nodes, now)
        for sharer in self._sharers(group, intent.nodes, now):
            self._started(sharer.job, sharer.nodes, now)
        if start is not None and start.step != "confirm":
            return False  # Slurm does not answer, or the calls are used up
        if start is None:
            return False  # Slurm refused it: the next poll finds that it is not wanted
        for one in group:
            self._next(one, "requeue", now)
        self._requeue_together(group, now)
        return True

    def _requeue_together(self, group: Sequence[Intent], now: float) -> None:
        """All within milliseconds. Where some run on while others have gone, Slurm takes the beneficiary's start for far away, and
        backfills what ends before it."""
        if len(group) == 1:
            self._requeue_one(group[0], now)
            return
        running = [one for one in group if is_in_run(self._fresh(one.id), one)]
        try:
            if running:
                self._backend.requeue_together([one.id for one in running])
        except JobRefused:
            for one in group:
                self._requeue_one(one, now)
            return
        for one in group:
            self._next(one, "drain", now)

    def _started(self, job_id: str, nodes: NodeGpus, now: float) -> Intent | None:
        """The start of a beneficiary, as far as it gets now; None where Slurm refused it."""
        if job_id not in self.intents:
            self._begin_start(job_id, nodes, now, beneficiary=job_id)
        start = self.intents[job_id]
        if start.kind == START and start.step != "confirm":
            self._advance(start, now)
        return self.intents.get(job_id)

    def _sharers(self, group: Sequence[Intent], nodes: NodeGpus, now: float) -> Iterator[Start]:
        """Other jobs for which the plan reserves what the beneficiary leaves of its victims' GPUs."""
        left = Counter[str]()
        for one in group:
            job = self._record(one.id)
            left.update({share.node: share.gpus for share in (job.shares if job else ())})
        left.subtract(dict(nodes))
        for start in self._reserved:
            fits = all(gpus <= left[node] for node, gpus in start.nodes)
            if fits and start.job not in self.intents and self._is_wanted(start.job, now):
                left.subtract(dict(start.nodes))
                yield start

    def _requeue_one(self, intent: Intent, now: float) -> None:
        try:
            self._requeue(intent, now)
        except JobRefused as error:
            self._refused(intent, str(error), now)

    def _give_up(self, intent: Intent, now: float) -> None:
        """There is no hand-over any more: victims that were not signalled go on untouched, the others save and are requeued."""
        for one in self._group(intent.beneficiary) if intent.beneficiary else ():
            if one.step in UNTOUCHED:
                self._journal.step(one, "spare", now)
            else:
                one.beneficiary = ""
                self._journal.step(one, one.step, one.stepped)
