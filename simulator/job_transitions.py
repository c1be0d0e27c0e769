"""What the events and the decisions of a simulation do to jobs: arrivals, starts, preemptions, releases, failures and ends.

Each transition changes the job, the allocator, and what slows and counts jobs; then the job gets its new position in the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from tiresias.scheduler.evict.protection import minimum
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import Policy, replaces
from tiresias.simulator.contention.contention_tracker import ContentionTracker
from tiresias.simulator.event_queue import EventQueue
from tiresias.simulator.node_allocator import NodeAllocator
from tiresias.simulator.observation import EventKind
from tiresias.simulator.pool_allocator import PoolAllocator
from tiresias.simulator.recorders import CompletionRecorder, JobRecorder
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.simulated_owners import SimulatedOwners
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace

# Kinds of expected events. Changes have a queue of their own.
_FINISH: Final = 0
_RELEASE: Final = 1
_CHANGE: Final = 0
_RUNNING: Final = int(JobState.RUNNING)  # plain numbers compare faster
_RELEASING: Final = int(JobState.RELEASING)
# Names of the module are found faster than members of an Enum.
_SUBMITS: Final = EventKind.SUBMIT
_STARTS: Final = EventKind.START
_PREEMPTS: Final = EventKind.PREEMPT
_RESIZES: Final = EventKind.RESIZE
_RELEASES: Final = EventKind.RELEASE
_FINISHES: Final = EventKind.FINISH
_CHANGES: Final = EventKind.CHANGE


class JobTransitions:
    """The transitions of the jobs of one simulation, each at a moment `now`, seconds.

    Attributes:
        ends: When running jobs end, and preempted ones release their GPUs.
        changes: When the ranks of jobs change by themselves.
        events: What happened since the list was cleared: kind, and the row of the job or the index of the node.
        running: Number of jobs that run.
        completed: Number of jobs that have ended.
        restarts: Whether a job was stopped to start with another size, and has released its GPUs.
        overhead: GPU-seconds without progress, by preemptions.
        lost: GPU-seconds of work that failures have undone.
        results: Of the jobs that have ended.
        completions: From which policies learn.
        owners: Count the service of owners; None: no policy does.
    """

    def __init__(
        self,
        trace: Trace,
        rules: Rules,
        jobs: dict[int, SimulatedJob],
        allocator: PoolAllocator | NodeAllocator,
        nodes: NodeAllocator | None,
        policy: Policy,
    ) -> None:
        """`jobs`: submitted and not ended, by row; they are added and removed here. `nodes`: the allocator, if it is by node."""
        self._trace, self._rules, self._config, self._costs = trace, rules, rules.config, rules.costs
        self._submit: list[float] = trace.submit.tolist()
        self._duration: list[float] = trace.duration.tolist()
        self._gpus: list[int] = trace.gpus.tolist()
        self._minimum_run = float(minimum(rules.config, math.nan))  # seconds of progress before a preemption
        self._jobs, self._allocator, self._nodes, self._contention = jobs, allocator, nodes, allocator.contention
        self.ends, self.changes = EventQueue(), EventQueue()
        self.events: list[tuple[EventKind, int]] = []
        self.results = JobRecorder(len(trace))
        self.completions, self._learns = CompletionRecorder(trace, rules.history), policy.refit_at < math.inf
        self._claims = rules.reporting.claims(trace) if rules.reporting else None
        self.owners = SimulatedOwners(trace, rules.config, rules.shares) if rules.config.counts_owners else None
        # a preempted job may start elsewhere at the same moment; in mode assist Slurm starts the beneficiary by itself
        self._decides_after_release = rules.tenants is not None or rules.assists
        self.follow(policy)
        self.running, self.completed, self.overhead, self.lost = 0, 0, 0.0, 0.0
        self.restarts = False

    def follow(self, policy: Policy) -> None:
        """Use this policy from now on. An optional part that it leaves at its default is not called."""
        self._policy, self._promotes = policy, replaces(policy, "promoted")

    def arrive(self, row: int, now: float) -> None:
        """Let the job of this row of the trace arrive."""
        self.events.append((_SUBMITS, row))
        self._jobs[row] = job = SimulatedJob(row, self._gpus[row], self._submit[row], self._duration[row])
        if self._nodes:
            job.servers = self._nodes.first_servers(row)
        if self._claims:
            self._claims.give(job)
        if self.owners:
            self.owners.give(job)
        job.at(now)
        self._requeue(job, now)

    def begin(self, job: SimulatedJob, now: float) -> None:
        """Start a job that the allocator has admitted."""
        self.events.append((_STARTS, job.row))
        resume = 0.0 if math.isnan(job.first_start) else self._cost(job).resume
        slow = self._allocator.slowdown(job)
        job.start(now, resume, self._config, self._minimum_run, slow)
        if self._contention:
            self._contention.start(job.row, self._allocator.parts(job), job.idle_until, slow)
        self.running += 1
        self.overhead += resume * job.gpus
        self.ends.push(job.ends, _FINISH, job.row, job.stamp)
        self._requeue(job, now)

    def change(self, row: int, stamp: int, now: float) -> bool:
        """Let the rank of a job change, as expected. Returns False if the event is out of date."""
        job = self._jobs.get(row)
        if job is None or job.stamp != stamp:
            return False
        self.events.append((_CHANGES, row))
        job.at(now)
        if self._promotes and self._policy.promoted(job, now, self._config):
            job.promote(now)
        self._requeue(job, now)
        return True

    def preempt(self, job: SimulatedJob, now: float) -> None:
        """Preempt a job; one that shrinks goes on with the GPUs that are left to it."""
        shrinks = job.row in self._allocator.shrunk
        self.events.append((_RESIZES if shrinks else _PREEMPTS, job.row))
        pause = self._stop_cost(job, now)
        (job.shrink if shrinks else job.preempt)(now, pause)
        self._release(job, pause, now, self._decides_after_release)

    def resize(self, job: SimulatedJob, now: float) -> None:
        """Stop the job; once it has released its GPUs, a decision starts it with another size."""
        self.events.append((_RESIZES, job.row))
        pause = self._stop_cost(job, now)
        job.resize(now, pause)
        self._release(job, pause, now, True)

    def end(self, kind: int, row: int, stamp: int, now: float) -> bool:
        """Let a job end or release its GPUs, as expected. Returns False if the event is out of date."""
        job = self._jobs.get(row)
        if job is None or job.stamp != stamp:
            return False
        self._allocator.release(job)
        if self._contention:
            self._contention.stop(row, now)
        if self.owners:
            self.owners.end(job, now)
        if kind == _RELEASE:
            self.events.append((_RELEASES, row))
            job.wait(now)
            self.restarts = self.restarts or job.resizing
            self._requeue(job, now)
            return True
        self.events.append((_FINISHES, row))
        self.results.add(job, now)
        if self._learns:
            self.completions.add(job, now)
        self.running -= 1
        self.completed += 1
        del self._jobs[row]
        if self._claims:
            self._rank_anew(self._claims.learn(job, self._jobs.values()), now)
        return True

    def change_node(self, node: int, down: bool, now: float) -> bool:
        """Let a node fail, with the jobs that run on it, or return."""
        assert self._nodes, "Rules refuse failures without by_node"
        self.events.append((EventKind.NODE_DOWN if down else EventKind.NODE_UP, node))
        if down:
            for row in self._nodes.fail(node):
                self._fail(self._jobs[row], now)
        else:
            self._nodes.repair(node)
        return True

    def change_speeds(self, contention: ContentionTracker, now: float) -> None:
        """Let the jobs that share servers or links with those that started or stopped go on at their new speeds."""
        for row, slow in contention.settle(now):
            job = self._jobs[row]
            job.change_speed(now, slow)
            self.ends.push(job.ends, _FINISH, row, job.stamp)
            self._requeue(job, now)

    def count(self, owners: SimulatedOwners, now: float) -> None:
        """Count the service of all owners: jobs whose owner has another excess, and all if service changed, have other ranks."""
        changed = [job for job in owners.count(now, self._jobs.values()) if job.state != _RELEASING]
        if owners.changes_service:
            self.rank_all(now)
            return
        for job in changed:
            job.at(now)
            self._allocator.update(job)

    def rank_all(self, now: float) -> None:
        """Rank all jobs anew: the moments at which ranks change are others, too."""
        self.changes.clear()
        self._rank_anew(self._jobs.values(), now)

    def _fail(self, job: SimulatedJob, now: float) -> None:
        self.events.append((EventKind.KILL, job.row))
        self._allocator.release(job)
        if self._contention:
            self._contention.stop(job.row, now)
        if self.owners:
            self.owners.end(job, now)
        self.running -= job.state == _RUNNING
        self.overhead -= _unspent(job, now)
        self.lost += job.fail(now, self._rules.checkpoint_interval) * job.gpus
        self._requeue(job, now)

    def _requeue(self, job: SimulatedJob, now: float) -> None:
        """Give the job its new position in the order, and schedule the moment at which the position changes by itself."""
        moment = self._allocator.update(job)
        if now < job.movable_from < moment and job.state == _RUNNING and self._policy.preempts:
            moment = job.movable_from
        if self._claims:
            moment = min(moment, job.claim_changes())
        if moment < job.ends:  # a waiting job has no end
            overdue = moment < now  # after the policy learned
            self.changes.push(now if overdue else moment, _CHANGE, job.row, job.stamp)

    def _rank_anew(self, jobs: Iterable[SimulatedJob], now: float) -> None:
        for job in jobs:
            if job.state != _RELEASING:
                job.at(now)
                self._requeue(job, now)

    def _stop_cost(self, job: SimulatedJob, now: float) -> float:
        """Return the seconds until a job has released its GPUs, and count them as overhead."""
        pause = self._cost(job).pause
        self.overhead += pause * job.gpus - _unspent(job, now)
        return pause

    def _release(self, job: SimulatedJob, pause: float, now: float, decides: bool) -> None:
        """Let a stopped job release its GPUs after a pause; `decides`: a decision follows also where there is no pause."""
        self.running -= 1
        self._allocator.preempt(job)
        if self._contention:  # it saves, and holds its GPUs without progress
            self._contention.stop(job.row, now)
        if pause or decides:
            self.ends.push(now + pause, _RELEASE, job.row, job.stamp)
        else:
            self.end(_RELEASE, job.row, job.stamp, now)

    def _cost(self, job: SimulatedJob) -> Cost:
        if not self._costs:
            return self._rules.cost
        return self._costs.get(self._trace.model[job.row], self._rules.cost)


def _unspent(job: SimulatedJob, now: float) -> float:
    """GPU-seconds of the job's overhead that have not passed yet."""
    return float(max(0.0, job.idle_until - now) * job.gpus)
