"""The event loop of a simulation: what is due at a moment happens in a fixed order, then one decision is made.

At equal times the order is: jobs end, preempted jobs release their GPUs, nodes fail and return, jobs arrive, jobs sink a queue or
are promoted. Nothing is random and there is no global state: the same input gives the same output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from tiresias.scheduler.config import SERVICE_TOLERANCE
from tiresias.scheduler.job_queue import NOTHING, Choice
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import Policy, replaces
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.failures import Outages
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.job_transitions import JobTransitions
from tiresias.simulator.node_allocator import NodeAllocator
from tiresias.simulator.observation import EventKind
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.pool_allocator import PoolAllocator
from tiresias.simulator.recorders import TimelineRecorder
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import Trace

_RUNNING: Final = int(JobState.RUNNING)  # plain numbers compare faster
PoolOfJobs: TypeAlias = Callable[[dict[int, SimulatedJob]], PoolAllocator]
_SAME_TIME_S: Final = 1e-6  # a moment computed in two ways differs by rounding errors


class EventLoop:
    """Lets the events of one simulation happen in their order, and decides.

    Attributes:
        now: The moment of the last step, seconds.
        events: What happened in the last step: kind, and the row of the job or the index of the node.
        allocator: The part of the cluster that decides and holds the GPUs.
    """

    def __init__(self, trace: Trace, cluster: ClusterSize, rules: Rules, pool_of: PoolOfJobs | None = None) -> None:
        """`pool_of`: makes the allocator of these jobs, in place of the one that the rules name."""
        self._trace, self._rules, self._capacity = trace, rules, cluster.gpus
        self._config, self._interval = rules.config, rules.interval
        self._submit: list[float] = [*trace.submit.tolist(), math.inf]
        self._jobs: dict[int, SimulatedJob] = {}  # submitted and not ended, by row
        by_node = pool_of is None and (rules.by_node or bool(trace.elastic))
        self._nodes = NodeAllocator(rules, cluster, self._jobs, trace) if by_node else None
        pool_of = pool_of or partial(PoolAllocator, rules, cluster.gpus, trace.gpus.tolist())
        self.allocator: PoolAllocator | NodeAllocator = self._nodes or pool_of(self._jobs)
        self._contention = self.allocator.contention
        self._outages = Outages(rules.failures(cluster.nodes) if rules.failures else ())
        policy = rules.policy_of(trace.vc)
        self._transitions = JobTransitions(trace, rules, self._jobs, self.allocator, self._nodes, policy)
        self._ends, self._changes = self._transitions.ends, self._transitions.changes
        self.events: list[tuple[EventKind, int]] = self._transitions.events  # of the last step
        self._recorder, self._owners = TimelineRecorder(), self._transitions.owners
        self._follow(policy)
        self.now, self._next_arrival = 0.0, 0
        self._next_submit, self._next_outage = self._submit[0], float(self._outages.moment)
        self._decisions, self._wake = 0, math.inf

    def _follow(self, policy: Policy) -> None:
        """Use this policy from now on. Of the optional parts that it leaves at their defaults none is called."""
        self._policy, self._refit_at = policy, float(policy.refit_at) - len(self._rules.history)
        self._turns = replaces(policy, "turn")

    @property
    def completed(self) -> int:
        """Number of jobs that have ended."""
        return self._transitions.completed

    @property
    def waiting(self) -> int:
        """Number of jobs that wait or still release their GPUs."""
        return len(self._jobs) - self._transitions.running

    @property
    def first_waiting(self) -> int:
        """The row of the first submitted job that waits or still releases its GPUs."""
        return min(row for row, job in self._jobs.items() if job.state != _RUNNING)

    def outcome(self) -> Outcome:
        """Return what has happened so far; nan for the times of jobs that have not ended."""
        results = self._transitions.results
        columns = *results.columns(self._trace), self._recorder.timeline()
        found = Outcome(*columns, self._decisions, self._transitions.overhead, self._transitions.lost)
        if self._contention:
            found = replace(found, slowdowns=self._contention.slowdowns())
        if self._nodes and self._nodes.memory:
            found = replace(found, memory=self._nodes.memory.summary())
        if self._trace.elastic:
            found = replace(found, resizes=results.resizes(), held=results.held())
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
            self._transitions.count(self._owners, moment)
        return happened, self._choose()

    def carry_out(self, choice: Choice | None) -> None:
        """Preempt and start the chosen jobs; afterwards all jobs go on at the speeds that follow."""
        if choice is not None:
            self._apply(choice)
            if self._nodes:
                self._nodes.note_samples(self.now)
                self._wake = min(self._wake, self._nodes.sample_end)
        if self._contention:
            self._transitions.change_speeds(self._contention, self.now)

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
            happened |= self._transitions.end(kind, row, stamp, now)
        if self._next_outage <= now:
            for outage in self._outages.happen(now):
                happened |= self._transitions.change_node(*outage, now)
            self._next_outage = self._outages.moment
        while self._next_submit <= now:
            self._transitions.arrive(self._next_arrival, now)
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
            return self._transitions.change(first[2], first[3], self.now)
        due, happened = [first], False
        while self._changes.moment <= latest:
            due.append(self._changes.pop())
        for _, _, row, stamp in due:
            happened |= self._transitions.change(row, stamp, self.now)
        return happened

    def _learn(self) -> None:
        """Replace the policy by the fitted one: all keys, and the moments at which they change, are different now."""
        present = JobColumns(self._jobs.values())
        present.now = self.now
        self._follow(self._policy.fitted(self._transitions.completions.completed(), present, self._capacity))
        self.allocator.follow(self._policy)
        self._transitions.follow(self._policy)
        self._transitions.rank_all(self.now)

    def _decision_due(self, happened: bool) -> bool:
        """Return whether to decide now.

        With an interval: at its multiples, other events wait for the next one; and where jobs start again with another size, or a
        sample of a size ends.
        """
        interval = self._interval
        if not interval:
            turned, waiting = self.now >= self._wake, len(self._jobs) > self._transitions.running
            self._wake = self._policy.turn(self.now, self._config) if waiting and self._turns else math.inf
            return happened or turned
        sample_ends = self.now >= self.allocator.sample_end
        self._wake = (math.floor(self.now / interval) + 1) * interval
        if not sample_ends:
            self._wake = min(self._wake, self.allocator.sample_end)
        return self.now % interval == 0 or self._transitions.restarts or sample_ends

    def _choose(self) -> Choice:
        """Decide, and stop the jobs that change their size. Returns what else is to be done."""
        self._decisions += 1
        self._transitions.restarts = False
        choice = self.allocator.choose(self.now)
        self._wake = min(self._wake, self.allocator.relaxes)
        resized = self.allocator.resized
        if self._interval and self.now % self._interval:
            choice, resized = Choice(choice.starts, ()), self.allocator.samples
        for row in resized:
            self._transitions.resize(self._jobs[row], self.now)
        return choice

    def _apply(self, choice: Choice) -> None:
        for row in choice.victims:
            self._transitions.preempt(self._jobs[row], self.now)
        if choice.starts:
            for job in self.allocator.admit(choice):
                self._transitions.begin(job, self.now)
        used, running = self._capacity - self.allocator.free, self._transitions.running
        self._recorder.add(self.now, used, running, len(self._jobs) - running)
