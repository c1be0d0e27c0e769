"""Gives aggregators' nodes back to Slurm: their tensors move to other aggregators within a bound, then the Slurm job ends.

An aggregator is drained when Slurm preempts it, when its node drains, and when a job of higher priority waits for its node. Its
Slurm job ends when it has no master copy any more, or at the bound. Tensors for which there is no place then remain assigned to it:
their jobs are parked until Slurm starts it again, and continue there, or from their checkpoint where its memory is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.manager.aggregator_jobs import AggregatorJobs
from tiresias.services.parameter_service.manager.background_calls import CallSequence
from tiresias.services.parameter_service.manager.fleet_state import QueuedAggregator
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.requested_nodes import draining, requested_by_jobs
from tiresias.services.parameter_service.manager.vacated_aggregator import has_masters, vacate

NAMED_S = 5.0  # for which a drained aggregator names the new master of a tensor, before it ends


@dataclass
class AggregatorDrain:
    """An aggregator that is drained.

    Attributes:
        slurm_job: Its Slurm job.
        node: Its node.
        reason: Why.
        since_s: When it began.
        left: The jobs for which there is no place.
    """

    slurm_job: int
    node: str
    reason: str
    since_s: float
    left: list[str] = field(default_factory=list)


class AggregatorDrains:
    """The aggregators that are drained. A new manager finds the reasons anew.

    Args:
        jobs: The registered jobs.
        clusters: Their assignment.
        slurm: The Slurm jobs.
        limit_s: Seconds after which the Slurm job ends in any case.
        watch_s: Seconds between two polls of the jobs that wait for nodes; 0: none.
        check_lead: Called before each operation in Slurm; raises where the manager must not act.

    Attributes:
        parked: The jobs that wait for Slurm to start an aggregator again.
    """

    def __init__(
        self,
        jobs: RegisteredJobs,
        clusters: AggregatorClusters,
        slurm: AggregatorJobs,
        limit_s: float,
        watch_s: float,
        check_lead: Callable[[], None] = lambda: None,
    ) -> None:
        self._jobs, self._clusters, self._slurm = jobs, clusters, slurm
        self._limit_s, self._watch_s, self._check_lead = limit_s, watch_s, check_lead
        self._drains: dict[int, AggregatorDrain] = {}
        self._given: dict[int, set[str]] = {}  # nodes, by the waiting job
        self._next_watch_s = 0.0
        self._to_end: set[int] = set()  # Slurm jobs
        self._notes: dict[str, str] = {}  # for jobs
        self.parked: set[str] = set()

    @property
    def numbers(self) -> frozenset[int]:
        """The aggregators that are drained."""
        return frozenset(self._drains)

    def vacated(self, now_s: float) -> frozenset[int]:
        """Return those that need not name the new masters any more."""
        return frozenset(number for number, each in self._drains.items() if now_s - each.since_s > NAMED_S)

    def note_for(self, job: str) -> str:
        """Return a line for a job that is about to be parked, once; "" for none."""
        return self._notes.pop(job, "")

    def round(self, queue: Collection[QueuedAggregator], now_s: float) -> CallSequence:
        """Poll the nodes and the waiting jobs, begin drains, and end Slurm jobs: the calls of Slurm are yielded.

        Raises:
            Unavailable: Slurm does not answer.
        """
        running = [each for each in queue if each.is_running]
        for each in running:
            if each.preempted:
                self._begin(each, "Slurm preempts it", now_s)
        nodes = yield lambda: self._slurm.nodes({each.node for each in running})
        for each in running:
            if each.node in draining(nodes):
                self._begin(each, "its node drains", now_s)
        if self._watch_s and now_s >= self._next_watch_s:
            self._next_watch_s = now_s + self._watch_s
            pending = yield lambda: self._slurm.pending({each.partition for each in nodes})
            self._given = {job: self._given.get(job, set()) for job in (each.slurm_job for each in pending)}
            free = [each for each in running if each.number not in self._drains]
            for job, names in requested_by_jobs(pending, nodes, free, self._given).items():
                self._given[job] |= names
                for each in free:
                    if each.node in names:
                        self._begin(each, f"job {job} of higher priority waits", now_s)
        self._to_end &= {each.slurm_job for each in queue}
        for slurm_job in sorted(self._to_end):
            self._check_lead()
            yield partial(self._slurm.cancel, slurm_job)

    def step(self, queue: Mapping[int, QueuedAggregator], free_bytes: Mapping[int, int], now_s: float) -> None:
        """Assign what drained aggregators have to others, and choose the Slurm jobs that end.

        Args:
            queue: The Slurm jobs by aggregator.
            free_bytes: The free memory of each aggregator that answers.
            now_s: Seconds of a steady clock.
        """
        usable = [number for number in free_bytes if number not in self._drains and number in queue]
        usable.sort(key=lambda number: (-free_bytes[number], number))
        for number, drain in list(self._drains.items()):
            queued = queue.get(number)
            if queued is None or queued.slurm_job != drain.slurm_job:
                self._end(number, drain, now_s)
            else:
                self._move(number, drain, usable, now_s)
        running = {number for number, each in queue.items() if each.is_running and number not in self._drains}
        self.parked = {
            job for job in self.parked if not self._jobs.numbers_of_job(job) <= running
        } & self._jobs.rows.keys()

    # inner

    def _begin(self, each: QueuedAggregator, reason: str, now_s: float) -> None:
        if each.number not in self._drains:
            self._drains[each.number] = AggregatorDrain(each.slurm_job, each.node, reason, now_s)
            log_line(f"parameter service: aggregator {each.number} on {each.node} is drained: {reason}")

    def _move(self, number: int, drain: AggregatorDrain, usable: list[int], now_s: float) -> None:
        drain.left = vacate(self._jobs, self._clusters, number, usable)
        is_late = now_s - drain.since_s > self._limit_s
        for job in drain.left:
            if job not in self.parked:
                self._notes[job] = (
                    f"job {job} is to be parked: no other aggregator can take what is on {drain.node} ({drain.reason}); it "
                    "continues when Slurm starts another one, or from its checkpoint"
                )
                self.parked.add(job)
                log_line(f"parameter service: {self._notes[job]}")
        if is_late or not has_masters(self._jobs, number):
            self._to_end.add(drain.slurm_job)

    def _end(self, number: int, drain: AggregatorDrain, now_s: float) -> None:
        del self._drains[number]
        log_line(
            f"parameter service: aggregator {number} has left {drain.node} in {now_s - drain.since_s:.1f} s"
            + (f"; parked: {', '.join(drain.left)}" if drain.left else "")
        )
