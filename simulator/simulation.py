"""Replays a trace from event to event in exact times.

At equal times: jobs finish, preempted jobs leave their GPUs, nodes fail and come back, jobs arrive, jobs sink or are promoted,
and then one decision is made on what is. Nothing is random and there is no global state: the same input gives the same output.
"""

from __future__ import annotations

import gc
import math
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from tiresias.scheduler.config import SERVICE_TOLERANCE
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.model import Floats, Ints, JobState
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.failures import Outages
from tiresias.simulator.node_allocator import NodeAllocator
from tiresias.simulator.pool_allocator import PoolAllocator
from tiresias.simulator.simulated_job import JobColumns, SimulatedJob
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace

_FINISH, _LEAVE = 0, 1
_SAME_MOMENT = 1e-6  # seconds; what is worked out in two ways differs by rounding errors
_REPORT_EVERY = 1000  # finished jobs between two reports of progress


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What the cluster did: from each moment until the next, arrays of shape (steps,). time: seconds; used: GPUs that somebody
    holds; running, waiting: jobs."""

    time: Floats
    used: Ints
    running: Ints
    waiting: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Arrays of shape (jobs,), in the order of the trace. start: the first one. Times in seconds.
    overhead: GPU-seconds that preemptions and restarts cost; lost: GPU-seconds of work that had to be done again."""

    start: Floats
    finish: Floats
    jct: Floats
    preemptions: Ints
    course: Course
    decisions: int
    overhead: float
    lost: float = 0.0


def simulate(
    trace: Trace, cluster: ClusterSize, rules: Rules, progress: Callable[[int], None] = lambda done: None
) -> Outcome:
    """`trace`: no job larger than the cluster. `progress` is called with the number of finished jobs now and then.

    O(events x log jobs) where GPUs are one pool, O(events x jobs) node by node.
    """
    with _uncollected():
        return _Simulation(trace, cluster, rules).run(progress)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing here makes cycles, and to look for some among all jobs, again and again, takes a tenth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Recorder:
    """Compact, as there are several steps a job."""

    def __init__(self) -> None:
        self.time, self.used, self.running, self.waiting = array("d"), array("q"), array("q"), array("q")

    def step(self, time: float, used: int, running: int, waiting: int) -> None:
        self.time.append(time)
        self.used.append(used)
        self.running.append(running)
        self.waiting.append(waiting)

    def course(self) -> Course:
        return Course(
            np.array(self.time), np.array(self.used, np.int64),
            np.array(self.running, np.int64), np.array(self.waiting, np.int64),
        )  # fmt: skip


class _History:
    """The jobs that are over; columns are made of them when somebody learns from them."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._rows, self._service = trace, array("q"), array("d")

    def add(self, job: SimulatedJob, now: float) -> None:
        self._rows.append(job.row)
        self._service.append((job.held + now - job.last_start) * job.gpus)

    def completed(self) -> Completed:
        trace, rows = self._trace, np.array(self._rows, np.int64)
        user, vc, model = (tuple(map(words.__getitem__, self._rows)) for words in (trace.user, trace.vc, trace.model))
        return Completed(trace.gpus[rows], np.array(self._service), trace.submit[rows], user, vc, model)


class _Simulation:
    def __init__(self, trace: Trace, cluster: ClusterSize, rules: Rules) -> None:
        count = len(trace)
        self._trace, self._rules, self._policy, self._capacity = trace, rules, rules.policy, cluster.gpus
        self._submit: list[float] = [*trace.submit.tolist(), math.inf]
        self._duration, self._gpus = trace.duration.tolist(), trace.gpus.tolist()
        self._jobs: dict[int, SimulatedJob] = {}  # those that are there, by row
        self._nodes = NodeAllocator(rules, cluster, self._jobs, trace.model) if rules.by_node else None
        self._on: PoolAllocator | NodeAllocator = self._nodes or PoolAllocator(
            rules, cluster.gpus, self._gpus, self._jobs
        )
        self._outages = Outages(rules.failures(cluster.nodes) if rules.failures else ())
        self._ends: list[tuple[float, int, int, int]] = []  # (time, what, row, stamp)
        self._changes: list[tuple[float, int, int]] = []  # (time, row, stamp)
        self._start, self._finish = np.full(count, math.nan), np.full(count, math.nan)
        self._preemptions = np.zeros(count, np.int64)
        self._recorder, self._history, self._learns = _Recorder(), _History(trace), rules.policy.refit_at < math.inf
        self._now, self._next_arrival, self._running, self._over = 0.0, 0, 0, 0
        self._decisions, self._overhead, self._lost, self._wake = 0, 0.0, 0.0, math.inf

    def run(self, progress: Callable[[int], None]) -> Outcome:
        reported, count = 0, len(self._trace)
        while self._over < count:
            if self._over >= reported + _REPORT_EVERY:
                progress(reported := self._over)
            self._now = self._next_event()
            happened = self._happen()
            if self._over >= self._policy.refit_at:
                self._learn()
            if self._is_time(happened):
                self._decide()
        return Outcome(
            self._start, self._finish, self._finish - self._trace.submit, self._preemptions,
            self._recorder.course(), self._decisions, self._overhead, self._lost,
        )  # fmt: skip

    def _next_event(self) -> float:
        moment = min(self._wake, self._submit[self._next_arrival], self._outages.moment)
        if self._ends and self._ends[0][0] < moment:
            moment = self._ends[0][0]
        if self._changes and self._changes[0][0] < moment:
            moment = self._changes[0][0]
        return moment

    def _happen(self) -> bool:
        """All that is due, in its order. False: it was expected once, and then something else happened."""
        now, happened = self._now, False
        while self._ends and self._ends[0][0] <= now + _SAME_MOMENT:
            happened |= self._end(*heappop(self._ends))
        if self._outages.moment <= now:
            for outage in self._outages.happen(now):
                happened |= self._outage(*outage)
        while self._submit[self._next_arrival] <= now:
            self._arrive(self._next_arrival)
            self._next_arrival += 1
            happened = True
        if self._changes and self._changes[0][0] <= now + SERVICE_TOLERANCE:
            for change in self._due_changes():
                happened |= self._change(*change)
        return happened

    def _due_changes(self) -> list[tuple[float, int, int]]:
        """Those too that policies see already, as they look at service and waiting time with some tolerance."""
        due = []
        while self._changes and self._changes[0][0] <= self._now + SERVICE_TOLERANCE:
            due.append(heappop(self._changes))
        return due

    def _end(self, moment: float, what: int, row: int, stamp: int) -> bool:
        job = self._jobs.get(row)
        if job is None or job.stamp != stamp:
            return False
        self._on.release(job)
        if what == _LEAVE:
            job.wait(self._now)
            self._follow(job)
            return True
        self._finish[row] = self._now
        self._start[row], self._preemptions[row] = job.first_start, job.preemptions
        if self._learns:
            self._history.add(job, self._now)
        self._running -= 1
        self._over += 1
        del self._jobs[row]
        return True

    def _outage(self, node: int, down: bool) -> bool:
        assert self._nodes, "see Rules"
        if down:
            for row in self._nodes.fail(node):
                self._fail(self._jobs[row])
        else:
            self._nodes.repair(node)
        return True

    def _fail(self, job: SimulatedJob) -> None:
        self._on.release(job)
        self._running -= job.state == JobState.RUNNING
        self._overhead -= self._unspent(job)
        self._lost += job.fail(self._now, self._rules.checkpoint_interval) * job.gpus
        self._follow(job)

    def _arrive(self, row: int) -> None:
        self._jobs[row] = job = SimulatedJob(row, self._gpus[row], self._submit[row], self._duration[row])
        job.at(self._now)
        self._follow(job)

    def _change(self, moment: float, row: int, stamp: int) -> bool:
        job = self._jobs.get(row)
        if job is None or job.stamp != stamp:
            return False
        job.at(self._now)
        if self._policy.promoted(job, self._now, self._rules.config):
            job.promote(self._now)
        self._follow(job)
        return True

    def _follow(self, job: SimulatedJob) -> None:
        """Take its new place in the order, and remember when that changes by itself."""
        self._on.update(job)
        moment = self._policy.change(job, self._now, self._rules.config)
        if job.state == JobState.RUNNING and self._policy.preempts:
            moment = min(moment, job.movable_from) if job.movable_from > self._now else moment
        if moment < job.ends:  # which is not for one that waits
            heappush(self._changes, (max(moment, self._now), job.row, job.stamp))  # a new policy may find it overdue

    def _learn(self) -> None:
        """All keys, and the moments at which they change, are others now."""
        there = JobColumns(self._jobs.values())
        there.now = self._now
        self._policy = self._policy.fitted(self._history.completed(), there)
        self._on.follow(self._policy)
        self._changes.clear()
        for job in self._jobs.values():
            if job.state != JobState.RELEASING:
                job.at(self._now)
                self._follow(job)

    def _is_time(self, happened: bool) -> bool:
        """With an interval: only at its multiples; what happens in between waits for the next one."""
        interval = self._rules.interval
        if not interval:
            turned, waiting = self._now >= self._wake, len(self._jobs) > self._running
            self._wake = self._policy.turn(self._now, self._rules.config) if waiting else math.inf
            return happened or turned
        self._wake = (math.floor(self._now / interval) + 1) * interval
        return self._now % interval == 0

    def _decide(self) -> None:
        self._decisions += 1
        choice = self._on.choose(self._now)
        self._wake = min(self._wake, self._on.relaxes)
        for row in choice.victims:
            self._preempt(self._jobs[row])
        for job in self._on.admit(choice):
            self._begin(job)
        self._recorder.step(self._now, self._capacity - self._on.free, self._running, len(self._jobs) - self._running)

    def _preempt(self, job: SimulatedJob) -> None:
        pause = self._cost(job).pause
        self._overhead += pause * job.gpus - self._unspent(job)
        job.preempt(self._now, pause)
        self._running -= 1
        self._on.preempt(job)
        heappush(self._ends, (self._now + pause, _LEAVE, job.row, job.stamp))
        if not pause:
            self._end(*heappop(self._ends))

    def _begin(self, job: SimulatedJob) -> None:
        resume = 0.0 if math.isnan(job.first_start) else self._cost(job).resume
        job.start(self._now, resume, self._rules.config, self._on.slowdown(job))
        self._running += 1
        self._overhead += resume * job.gpus
        heappush(self._ends, (job.ends, _FINISH, job.row, job.stamp))
        self._follow(job)

    def _unspent(self, job: SimulatedJob) -> float:
        """GPU-seconds of overhead that are ahead of it."""
        spared: float = max(0.0, job.idle_until - self._now) * job.gpus
        return spared

    def _cost(self, job: SimulatedJob) -> Cost:
        costs = self._rules.costs
        return costs.get(self._trace.model[job.row], self._rules.cost) if costs else self._rules.cost
