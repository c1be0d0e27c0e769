"""The public interface of the simulator: a trace that is replayed to its end, or step by step."""

from __future__ import annotations

import math
from collections.abc import Callable

from tiresias.errors import UsageError
from tiresias.scheduler import garbage_collection
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.event_loop import EventLoop
from tiresias.simulator.observation import Event, Observation
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import Trace

_REPORT_INTERVAL_JOBS = 1000  # completed jobs between two reports of progress

Progress = Callable[[int], None]


class Simulation:
    """A trace that is replayed on a simulated cluster, to its end or step by step.

    A step is one moment at which something happens: all events of that moment, then one decision. Observing, and running in
    several parts, changes no result. Simulations are independent of each other.

    Args:
        trace: The jobs.
        cluster: The size of the cluster.
        rules: The policy, its configuration, and what else is simulated.

    Raises:
        UsageError: A job is larger than the cluster.
    """

    def __init__(self, trace: Trace, cluster: ClusterSize, rules: Rules) -> None:
        _check_sizes(trace, cluster)
        self._trace, self._cluster, self._rules = trace, cluster, rules
        self.reset()

    def reset(self) -> None:
        """Return to the beginning: time 0, no job submitted, the policy as the rules give it."""
        self._loop, self._until = EventLoop(self._trace, self._cluster, self._rules), 0.0

    @property
    def time(self) -> float:
        """The simulated time, seconds, on the clock of the trace."""
        return max(self._loop.now, self._until)

    @property
    def done(self) -> bool:
        """Whether all jobs have ended."""
        return self._loop.completed == len(self._trace)

    def step(self) -> bool:
        """Advance to the next moment at which something happens, and decide.

        Returns:
            True; or False, and nothing has changed, if all jobs had ended before.

        Raises:
            UsageError: Jobs wait and no event is due, for example because failed nodes never return.
        """
        if self.done:
            return False
        while not self._advance(self._loop.next_event()):
            pass
        return True

    def run(self, until: float = math.inf, progress: Progress = lambda completed: None) -> None:
        """Advance to a moment, that moment included, or to the end.

        Args:
            until: Simulated time, seconds. The simulated time is `until` afterwards unless all jobs have ended.
            progress: Called with the number of completed jobs from time to time.

        Raises:
            UsageError: As for `step`.
        """
        loop, count, reported = self._loop, len(self._trace), self._loop.completed
        with garbage_collection.suspended():
            while loop.completed < count and (moment := loop.next_event()) <= until:
                if loop.completed >= reported + _REPORT_INTERVAL_JOBS:
                    progress(reported := loop.completed)
                self._advance(moment)
                loop.advance_ranks(until)
        if not self.done:
            self._until = max(self._until, until)

    def observe(self) -> Observation:
        """Return the present state and the events of the last step. O(jobs that wait or run)."""
        loop, now = self._loop, self.time
        events = tuple(Event(*event) for event in loop.events)
        return Observation(now, loop.allocator.snapshot(now), events, loop.completed, self.done)

    def outcome(self) -> Outcome:
        """Return what has happened so far; nan for the times of jobs that have not ended."""
        return self._loop.outcome()

    def _advance(self, moment: float) -> bool:
        if moment == math.inf:
            row, trace = self._loop.first_waiting, self._trace
            owner = f" of virtual cluster {trace.vc[row]}" if self._rules.tenants and trace.vc[row] else ""
            raise UsageError(
                f"{self._loop.waiting} jobs wait at {self.time:g} s and no event is due, first job {trace.job_id[row]}{owner}, "
                f"which requests {trace.gpus[row]} GPUs; do failed nodes return, and may it ever start?"
            )
        return self._loop.advance(moment)


def simulate(trace: Trace, cluster: ClusterSize, rules: Rules, progress: Progress = lambda completed: None) -> Outcome:
    """Replay a trace to its end.

    O(events x log jobs) where GPUs are one pool, O(events x jobs) node by node.

    Args:
        trace: The jobs.
        cluster: The size of the cluster.
        rules: The policy, its configuration, and what else is simulated.
        progress: Called with the number of completed jobs from time to time.

    Returns:
        What happened to each job.

    Raises:
        UsageError: A job is larger than the cluster, or jobs wait and no event is due.
    """
    simulation = Simulation(trace, cluster, rules)
    simulation.run(progress=progress)
    return simulation.outcome()


def _check_sizes(trace: Trace, cluster: ClusterSize) -> None:
    largest = int(trace.gpus.argmax()) if len(trace) else 0
    if len(trace) and trace.gpus[largest] > cluster.gpus:
        raise UsageError(
            f"job {trace.job_id[largest]} requests {trace.gpus[largest]} GPUs and the cluster has {cluster.gpus}"
        )
