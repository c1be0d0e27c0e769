"""The event loop of a simulation: what is due at a moment happens in a fixed order, then one decision is made.

At equal times the order is: jobs end, preempted jobs release their GPUs, nodes fail and return, jobs arrive, jobs sink a queue or
are promoted. Nothing is random and there is no global state: the same input gives the same output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from tiresias.scheduler.config import SERVICE_TOLERANCE
from tiresias.scheduler.evict.protection import minimum
from tiresias.scheduler.job_queue import NOTHING, Choice
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import Policy, replaces
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.contention_tracker import ContentionTracker
from tiresias.simulator.event_queue import EventQueue
from tiresias.simulator.failures import Outages
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.node_allocator import NodeAllocator
from tiresias.simulator.observation import EventKind
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.pool_allocator import PoolAllocator
from tiresias.simulator.recorders import CompletionRecorder, JobRecorder, TimelineRecorder
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
PoolOfJobs: TypeAlias = Callable[[dict[int, SimulatedJob]], PoolAllocator]
_SAME_TIME_S: Final = 1e-6  # a moment computed in two ways differs by rounding errors


class EventLoop:
    """The state of one simulation, and what changes it.

    Attributes:
        now: The moment of the last step, seconds.
        completed: Number of jobs that have ended.
        events: What happened in the last step: kind, and the row of the job or the index of the node.
        allocator: The part of the cluster that decides and holds the GPUs.
    """

    def __init__(self, trace: Trace, cluster: ClusterSize, rules: Rules, pool_of: PoolOfJobs | None = None) -> None:
        """`pool_of`: makes the allocator of these jobs, in place of the one that the rules name."""
        self._trace, self._rules, self._capacity = trace, rules, cluster.gpus
        self._config, self._interval, self._costs = rules.config, rules.interval, rules.costs
        self._submit: list[float] = [*trace.submit.tolist(), math.inf]
        self._duration: list[float] = trace.duration.tolist()
        self._gpus: list[int] = trace.gpus.tolist()
        self._minimum_run = float(minimum(rules.config, math.nan))  # seconds of progress before a preemption
        self._jobs: dict[int, SimulatedJob] = {}  # submitted and not ended, by row
        by_node = pool_of is None and (rules.by_node or bool(trace.elastic))
        self._nodes = NodeAllocator(rules, cluster, self._jobs, trace) if by_node else None
        pool_of = pool_of or partial(PoolAllocator, rules, cluster.gpus, self._gpus)
        self.allocator: PoolAllocator | NodeAllocator = self._nodes or pool_of(self._jobs)
        self._contention = self.allocator.contention
        self._outages = Outages(rules.failures(cluster.nodes) if rules.failures else ())
        self._ends, self._changes = EventQueue(), EventQueue()
        self.events: list[tuple[EventKind, int]] = []  # of the last step
        self._results, self._recorder = JobRecorder(len(trace)), TimelineRecorder()
        policy = rules.policy_of(trace.vc)
        self._completions, self._learns = CompletionRecorder(trace, rules.history), policy.refit_at < math.inf
        self._claims = rules.reporting.claims(trace) if rules.reporting else None
        self._owners = SimulatedOwners(trace, rules.config, rules.shares) if rules.config.counts_owners else None
        # a preempted job may start elsewhere at the same moment; in mode assist Slurm starts the beneficiary by itself
        self._decides_after_release = rules.tenants is not None or rules.assists
        self._follow(policy)
        self.now, self.completed, self._next_arrival, self._running = 0.0, 0, 0, 0
        self._next_submit, self._next_outage = self._submit[0], float(self._outages.moment)
        self._decisions, self._overhead, self._lost, self._wake = 0, 0.0, 0.0, math.inf
        self._restarts = False  # a job was stopped to start with another size, and has released its GPUs

    def _follow(self, policy: Policy) -> None:
        """Use this policy from now on. Of the optional parts that it leaves at their defaults none is called."""
        self._policy, self._refit_at = policy, float(policy.refit_at) - len(self._rules.history)
        self._promotes, self._turns = replaces(policy, "promoted"), replaces(policy, "turn")

    @property
    def waiting(self) -> int:
        """Number of jobs that wait or still release their GPUs."""
        return len(self._jobs) - self._running

    @property
    def first_waiting(self) -> int:
        """The row of the first submitted job that waits or still releases its GPUs."""
        return min(row for row, job in self._jobs.items() if job.state != _RUNNING)

    def outcome(self) -> Outcome:
        """Return what has happened so far; nan for the times of jobs that have not ended."""
        columns = *self._results.columns(self._trace), self._recorder.timeline()
        found = Outcome(*columns, self._decisions, self._overhead, self._lost)
        if self._contention:
            found = replace(found, slowdowns=self._contention.slowdowns())
        if self._nodes and self._nodes.memory:
            found = replace(found, memory=self._nodes.memory.summary())
        if self._trace.elastic:
            found = replace(found, resizes=self._results.resizes(), held=self._results.held())
        return found

    def next_event(self) -> float:
        """Return the next moment at which something is due; inf if nothing is."""
        return min(self._ends.moment, min(self._changes.moment, self._next_from_outside()))

    def _next_from_outside(self) -> float:
        """Return the next moment at which something is due that no present job causes."""
        return min(self._wake, min(self._next_submit, self._next_outage))

    def advance(self, moment: float) -> bool:
        """Process what is due at `moment`, which `next_event` returned, and decide.

        Returns:
            False if all that was due was out of date, such as the end of a job that was preempted meanwhile.
        """
        happened, choice = self.prepare(moment)
        self.carry_out(choice)
        return happened or choice is not None

    def prepare(self, moment: float) -> tuple[bool, Choice | None]:
        """Process what is due at `moment`, and decide.

        Returns:
            Whether anything happened; and what to carry out, None if no decision is due.
        """
        self.now = moment
        self.events.clear()
        happened = self._process_due()
        if self.completed >= self._refit_at:
            self._learn()
        if not self._decision_due(happened):
            return happened, None
        if self._owners and self._owners.is_due(moment):
            self._count(self._owners)
        return happened, self._choose()

    def carry_out(self, choice: Choice | None) -> None:
        """Preempt and start the chosen jobs; afterwards all jobs go on at the speeds that follow."""
        if choice is not None:
            self._apply(choice)
            if self._nodes:
                self._nodes.note_samples(self.now)
                self._wake = min(self._wake, self._nodes.sample_end)
        if self._contention:
            self._change_speeds(self._contention)

    def advance_ranks(self, until: float) -> None:
        """Advance as long as nothing but the ranks of jobs changes. O(log jobs) for each moment without a choice."""
        if self._nodes or self._contention or self._interval or self._turns or self.completed >= self._refit_at:
            return
        other = self._next_from_outside()
        while (moment := self._changes.moment) < other and moment <= until:
            if self._ends.moment <= moment + _SAME_TIME_S:
                return
            self.now = moment
            self.events.clear()
            if self._process_changes():
                self._decisions += 1
                if (choice := self.allocator.choose(moment)) is NOTHING:
                    self._recorder.repeat(moment)
                else:
                    self._apply(choice)

    def _process_due(self) -> bool:
        """Process all events that are due, in their order. Returns False if all of them were out of date."""
        now, happened = self.now, False
        while self._ends.moment <= now + _SAME_TIME_S:
            _, kind, row, stamp = self._ends.pop()
            happened |= self._end(kind, row, stamp)
        if self._next_outage <= now:
            for outage in self._outages.happen(now):
                happened |= self._outage(*outage)
            self._next_outage = self._outages.moment
        while self._next_submit <= now:
            self._arrive(self._next_arrival)
            self._next_arrival += 1
            self._next_submit = self._submit[self._next_arrival]
            happened = True
        if self._changes.moment <= now + SERVICE_TOLERANCE:
            happened |= self._process_changes()
        return happened

    def _process_changes(self) -> bool:
        """Process the due changes. Policies compare service and waiting time with the same tolerance."""
        latest, first = self.now + SERVICE_TOLERANCE, self._changes.pop()
        if self._changes.moment > latest:  # mostly
            return self._change(first[2], first[3])
        due, happened = [first], False
        while self._changes.moment <= latest:
            due.append(self._changes.pop())
        for _, _, row, stamp in due:
            happened |= self._change(row, stamp)
        return happened

    def _end(self, kind: int, row: int, stamp: int) -> bool:
        job = self._jobs.get(row)
        if job is None or job.stamp != stamp:
            return False
        self.allocator.release(job)
        if self._contention:
            self._contention.stop(row, self.now)
        if self._owners:
            self._owners.end(job, self.now)
        if kind == _RELEASE:
            self.events.append((_RELEASES, row))
            job.wait(self.now)
            self._restarts = self._restarts or job.resizing
            self._requeue(job)
            return True
        self.events.append((_FINISHES, row))
        self._results.add(job, self.now)
        if self._learns:
            self._completions.add(job, self.now)
        self._running -= 1
        self.completed += 1
        del self._jobs[row]
        if self._claims:
            self._rank_anew(self._claims.learn(job, self._jobs.values()))
        return True

    def _outage(self, node: int, down: bool) -> bool:
        assert self._nodes, "Rules refuse failures without by_node"
        self.events.append((EventKind.NODE_DOWN if down else EventKind.NODE_UP, node))
        if down:
            for row in self._nodes.fail(node):
                self._fail(self._jobs[row])
        else:
            self._nodes.repair(node)
        return True

    def _fail(self, job: SimulatedJob) -> None:
        self.events.append((EventKind.KILL, job.row))
        self.allocator.release(job)
        if self._contention:
            self._contention.stop(job.row, self.now)
        if self._owners:
            self._owners.end(job, self.now)
        self._running -= job.state == _RUNNING
        self._overhead -= self._unspent(job)
        self._lost += job.fail(self.now, self._rules.checkpoint_interval) * job.gpus
        self._requeue(job)

    def _arrive(self, row: int) -> None:
        self.events.append((_SUBMITS, row))
        self._jobs[row] = job = SimulatedJob(row, self._gpus[row], self._submit[row], self._duration[row])
        if self._nodes:
            job.servers = self._nodes.first_servers(row)
        if self._claims:
            self._claims.give(job)
        if self._owners:
            self._owners.give(job)
        job.at(self.now)
        self._requeue(job)

    def _change(self, row: int, stamp: int) -> bool:
        job = self._jobs.get(row)
        if job is None or job.stamp != stamp:
            return False
        self.events.append((_CHANGES, row))
        job.at(self.now)
        if self._promotes and self._policy.promoted(job, self.now, self._config):
            job.promote(self.now)
        self._requeue(job)
        return True

    def _requeue(self, job: SimulatedJob) -> None:
        """Give the job its new position in the order, and schedule the moment at which the position changes by itself."""
        moment = self.allocator.update(job)
        if self.now < job.movable_from < moment and job.state == _RUNNING and self._policy.preempts:
            moment = job.movable_from
        if self._claims:
            moment = min(moment, job.claim_changes())
        if moment < job.ends:  # a waiting job has no end
            overdue = moment < self.now  # after the policy learned
            self._changes.push(self.now if overdue else moment, _CHANGE, job.row, job.stamp)

    def _count(self, owners: SimulatedOwners) -> None:
        """Count the service of all owners: jobs whose owner has another excess, and all if service changed, have other ranks."""
        changed = [job for job in owners.count(self.now, self._jobs.values()) if job.state != _RELEASING]
        if owners.changes_service:  # then the moments at which ranks change are others, too
            self._changes.clear()
            self._rank_anew(self._jobs.values())
            return
        for job in changed:
            job.at(self.now)
            self.allocator.update(job)

    def _learn(self) -> None:
        """Replace the policy by the fitted one: all keys, and the moments at which they change, are different now."""
        present = JobColumns(self._jobs.values())
        present.now = self.now
        self._follow(self._policy.fitted(self._completions.completed(), present, self._capacity))
        self.allocator.follow(self._policy)
        self._changes.clear()
        self._rank_anew(self._jobs.values())

    def _rank_anew(self, jobs: Iterable[SimulatedJob]) -> None:
        for job in jobs:
            if job.state != _RELEASING:
                job.at(self.now)
                self._requeue(job)

    def _decision_due(self, happened: bool) -> bool:
        """Return whether to decide now.

        With an interval: at its multiples, other events wait for the next one; and where jobs start again with another size, or a
        sample of a size ends.
        """
        interval = self._interval
        if not interval:
            turned, waiting = self.now >= self._wake, len(self._jobs) > self._running
            self._wake = self._policy.turn(self.now, self._config) if waiting and self._turns else math.inf
            return happened or turned
        sample_ends = self.now >= self.allocator.sample_end
        self._wake = (math.floor(self.now / interval) + 1) * interval
        if not sample_ends:
            self._wake = min(self._wake, self.allocator.sample_end)
        return self.now % interval == 0 or self._restarts or sample_ends

    def _choose(self) -> Choice:
        """Decide, and stop the jobs that change their size. Returns what else is to be done."""
        self._decisions += 1
        self._restarts = False
        choice = self.allocator.choose(self.now)
        self._wake = min(self._wake, self.allocator.relaxes)
        resized = self.allocator.resized
        if self._interval and self.now % self._interval:
            choice, resized = Choice(choice.starts, ()), self.allocator.samples
        for row in resized:
            self._resize(self._jobs[row])
        return choice

    def _apply(self, choice: Choice) -> None:
        for row in choice.victims:
            self._preempt(self._jobs[row])
        if choice.starts:
            for job in self.allocator.admit(choice):
                self._begin(job)
        used = self._capacity - self.allocator.free
        self._recorder.add(self.now, used, self._running, len(self._jobs) - self._running)

    def _preempt(self, job: SimulatedJob) -> None:
        shrinks = job.row in self.allocator.shrunk
        self.events.append((_RESIZES if shrinks else _PREEMPTS, job.row))
        pause = self._stop_cost(job)
        (job.shrink if shrinks else job.preempt)(self.now, pause)
        self._release(job, pause, self._decides_after_release)

    def _resize(self, job: SimulatedJob) -> None:
        """Stop the job; once it has released its GPUs, a decision starts it with another size."""
        self.events.append((_RESIZES, job.row))
        pause = self._stop_cost(job)
        job.resize(self.now, pause)
        self._release(job, pause, True)

    def _stop_cost(self, job: SimulatedJob) -> float:
        """Return the seconds until a job has released its GPUs, and count them as overhead."""
        pause = self._cost(job).pause
        self._overhead += pause * job.gpus - self._unspent(job)
        return pause

    def _release(self, job: SimulatedJob, pause: float, decides: bool) -> None:
        """Let a stopped job release its GPUs after a pause; `decides`: a decision follows also where there is no pause."""
        self._running -= 1
        self.allocator.preempt(job)
        if self._contention:  # it saves, and holds its GPUs without progress
            self._contention.stop(job.row, self.now)
        if pause or decides:
            self._ends.push(self.now + pause, _RELEASE, job.row, job.stamp)
        else:
            self._end(_RELEASE, job.row, job.stamp)

    def _begin(self, job: SimulatedJob) -> None:
        self.events.append((_STARTS, job.row))
        resume = 0.0 if math.isnan(job.first_start) else self._cost(job).resume
        slow = self.allocator.slowdown(job)
        job.start(self.now, resume, self._config, self._minimum_run, slow)
        if self._contention:
            self._contention.start(job.row, self.allocator.parts(job), job.idle_until, slow)
        self._running += 1
        self._overhead += resume * job.gpus
        self._ends.push(job.ends, _FINISH, job.row, job.stamp)
        self._requeue(job)

    def _change_speeds(self, contention: ContentionTracker) -> None:
        """Let the jobs that share servers or links with those that started or stopped go on at their new speeds."""
        for row, slow in contention.settle(self.now):
            job = self._jobs[row]
            job.change_speed(self.now, slow)
            self._ends.push(job.ends, _FINISH, row, job.stamp)
            self._requeue(job)

    def _unspent(self, job: SimulatedJob) -> float:
        """GPU-seconds of the job's overhead that have not passed yet."""
        return float(max(0.0, job.idle_until - self.now) * job.gpus)

    def _cost(self, job: SimulatedJob) -> Cost:
        if not self._costs:
            return self._rules.cost
        return self._costs.get(self._trace.model[job.row], self._rules.cost)
