"""Replays a trace through `scheduler.decide`, from event to event in exact times.

At equal times: jobs finish, leaving jobs leave, jobs arrive, and then one decision is made on what is, in which demotions and
promotions take effect. Nothing is random and there is no global state: the same input gives the same output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide, next_change
from tiresias.scheduler.model import ANYWHERE, Floats, Ints, Jobs, Plan, Snapshot, Start, State
from tiresias.scheduler.policy import Policy
from tiresias.simulator.cluster import Cluster, Occupancy
from tiresias.simulator.trace import TraceJob

COMING, OVER = -1, -2  # states beside those of scheduler.model.State


@dataclass(frozen=True, slots=True)
class Rules:
    """What is simulated. preemption_cost: seconds for which a preempted job still holds its GPUs and makes no progress.
    interval: decide only at multiples of so many seconds; 0: whenever something happens."""

    policy: Policy
    config: PolicyConfig
    preemption_cost: float = 0.0
    interval: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Arrays of shape (jobs,), in the order of the trace. start: the first one. Times in seconds."""

    start: Floats
    finish: Floats
    jct: Floats
    preemptions: Ints
    decisions: int


def simulate(
    jobs: Sequence[TraceJob], cluster: Cluster, rules: Rules, progress: Callable[[int], None] = lambda done: None
) -> Outcome:
    """`jobs`: by submit time; none larger than the cluster. `progress` is called with the number of finished jobs."""
    return _Simulation(jobs, cluster, rules).run(progress)


class _Simulation:
    def __init__(self, jobs: Sequence[TraceJob], cluster: Cluster, rules: Rules) -> None:
        count = len(jobs)
        self._rules, self._on = rules, Occupancy(cluster)
        self._id = np.array([job.job_id for job in jobs], dtype=object)
        self._row = {job.job_id: row for row, job in enumerate(jobs)}
        self._submit = np.array([job.submit_time for job in jobs], dtype=np.float64)
        self._gpus = np.array([job.num_gpus for job in jobs], dtype=np.int64)
        self._duration = np.array([job.duration for job in jobs], dtype=np.float64)
        self._state = np.full(count, COMING, np.int64)
        self._done = np.zeros(count)  # seconds of work in earlier runs
        self._held = np.zeros(count)  # seconds on GPUs in earlier runs
        self._uncounted = np.zeros(count)  # seconds on GPUs before the last promotion
        self._reset = np.full(count, -np.inf)
        self._first_start, self._last_start, self._preempted = (np.full(count, np.nan) for _ in range(3))
        self._finish, self._leave = (np.full(count, np.inf) for _ in range(2))
        self._preemptions = np.zeros(count, np.int64)
        self._now, self._next_arrival, self._oldest, self._decisions = 0.0, 0, 0, 0

    def run(self, progress: Callable[[int], None]) -> Outcome:
        over, wake = 0, math.inf
        while over < len(self._submit):
            self._now = min(self._next_event(), wake)
            over += self._finish_jobs()
            self._leave_jobs()
            self._arrive()
            wake = self._act()
            progress(over)
        return Outcome(
            self._first_start, self._finish, self._finish - self._submit, self._preemptions, self._decisions,
        )  # fmt: skip

    def _alive(self) -> Ints:
        """Rows of the jobs that are there: all between the oldest one and the next arrival, less those that are over."""
        here = self._state[self._oldest : self._next_arrival]
        rows = np.flatnonzero(here != OVER) + self._oldest
        self._oldest = int(rows[0]) if rows.size else self._next_arrival
        return rows

    def _next_event(self) -> float:
        window = slice(self._oldest, self._next_arrival)
        ends = np.minimum(self._finish[window], self._leave[window])[self._state[window] != OVER]
        comes = self._submit[self._next_arrival] if self._next_arrival < len(self._submit) else math.inf
        return min(float(ends.min(initial=np.inf)), float(comes))

    def _finish_jobs(self) -> int:
        rows = self._alive()
        rows = rows[(self._state[rows] == State.RUNNING) & (self._finish[rows] <= self._now)]
        for row in rows.tolist():
            self._held[row] += self._now - self._last_start[row]
            self._on.leave(row)
        self._state[rows] = OVER
        return len(rows)

    def _leave_jobs(self) -> None:
        rows = self._alive()
        for row in rows[self._leave[rows] <= self._now].tolist():
            self._held[row] += self._now - self._last_start[row]
            self._on.leave(row)
            self._state[row], self._leave[row], self._preempted[row] = State.WAITING, np.inf, self._now

    def _arrive(self) -> None:
        while self._next_arrival < len(self._submit) and self._submit[self._next_arrival] <= self._now:
            self._state[self._next_arrival] = State.WAITING
            self._next_arrival += 1

    def _act(self) -> float:
        """Decide and do it. Returns when to decide again at the latest."""
        interval = self._rules.interval
        if interval and self._now % interval:
            return math.ceil(self._now / interval) * interval
        snapshot = self._snapshot(self._alive())
        plan = decide(snapshot, self._rules.config, self._rules.policy)
        self._decisions += 1
        self._promote(plan)
        self._carry_out(plan)
        if interval:
            return self._now + interval
        return next_change(self._snapshot(self._alive()), self._rules.config, self._rules.policy)

    def _promote(self, plan: Plan) -> None:
        for job in plan.promoted:
            row = self._row[job]
            self._reset[row], self._uncounted[row] = self._now, self._held[row]

    def _carry_out(self, plan: Plan) -> None:
        for preemption in plan.preemptions:
            self._preempt(self._row[preemption.job])
        at_once = () if self._rules.preemption_cost else plan.reserved
        if not self._rules.preemption_cost:
            self._leave_jobs()
        for start in (*plan.starts, *at_once):
            self._start(self._row[start.job], start)

    def _preempt(self, row: int) -> None:
        self._state[row], self._leave[row] = State.LEAVING, self._now + self._rules.preemption_cost
        self._done[row] += self._now - self._last_start[row]
        self._finish[row] = np.inf
        self._preemptions[row] += 1

    def _start(self, row: int, start: Start) -> None:
        self._on.take(row, start)
        self._state[row], self._last_start[row] = State.RUNNING, self._now
        if np.isnan(self._first_start[row]):
            self._first_start[row] = self._now
        self._finish[row] = self._now + self._duration[row] - self._done[row]

    def _snapshot(self, rows: Ints) -> Snapshot:
        waits = self._state[rows] == State.WAITING
        ran = self._held[rows] - self._uncounted[rows]
        ran += np.where(waits, 0.0, self._now - self._last_start[rows])
        since = np.maximum(self._submit[rows], self._reset[rows])
        jobs = Jobs(
            id=tuple(self._id[rows]), gpus=self._gpus[rows], submit=self._submit[rows], state=self._state[rows],
            attained=ran * self._gpus[rows], ran=ran, waited=self._now - since - ran,
            first_start=self._first_start[rows], last_start=self._last_start[rows], preempted=self._preempted[rows],
            movable=np.ones(len(rows), bool), eligible=np.ones(len(rows), bool), request=(ANYWHERE,) * len(rows),
            duration=self._duration[rows],
        )  # fmt: skip
        place_of = {row: place for place, row in enumerate(rows.tolist())}
        return Snapshot(self._now, jobs, self._on.nodes(), self._on.allocations(place_of))
