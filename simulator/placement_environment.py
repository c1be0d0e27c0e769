"""The stepping interface in which a placement is learned: each step places one task of the first job that starts.

    environment = PlacementEnvironment(ClusterSize.of_network(network_of("fat_tree:4")), PlacementWorkload(jobs=200).trace)
    view = environment.reset(seed=1)
    while True:
        group = int(view.free.argmax())  # or the choice of a learner
        step = environment.step(group)
        if step.done:
            break
        view = environment.observe()

The jobs, their order, events and speeds are those of `Simulation`: the event loop is the same, and only the choice of GPUs is the
caller's. Everything follows from the seed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.job_queue import Choice
from tiresias.scheduler.model import Floats, Ints, Snapshot
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.contention_tracker import ContentionTracker
from tiresias.simulator.contention.server_loads import PartOfServer
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE, SimulatedContention
from tiresias.simulator.event_loop import EventLoop
from tiresias.simulator.observation import EventKind
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.placed_pool import PlacedPool
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import Trace

TraceOfSeed = Callable[[int, int], Trace]  # from the seed and the GPUs of the cluster


@dataclass(frozen=True, slots=True, eq=False)
class PlacementView:
    """The cluster before one task is placed. A group is a socket with its GPUs: number server x sockets + socket.

    Attributes:
        time: Simulated time, seconds.
        row: The job of the task, a row of the trace.
        model: Its model.
        gpus: The number of its tasks, with a GPU each.
        placed: Those that are placed, by server and socket, shape (servers, sockets).
        free: Free GPUs, those of placed tasks not included, shape (servers, sockets).
        cpu, pcie: What the running jobs use of the processor and of the PCIe link of each socket, as parts of the capacity, shape
            (servers, sockets).
        link_jobs: Running jobs on each link of the network, shape (links,).
        running: Rows of the running jobs; `PlacementEnvironment.parts` returns where they are.
        waiting: Number of the jobs that wait, the placed one included.
    """

    time: float
    row: int
    model: str
    gpus: int
    placed: Ints
    free: Ints
    cpu: Floats
    pcie: Floats
    link_jobs: Ints
    running: tuple[int, ...]
    waiting: int


class PlacementStep(NamedTuple):
    """What follows from the placement of a task.

    Attributes:
        reward: Minus the seconds that all jobs together spent in the cluster since the last step, as multiples of the mean duration
            of the trace. The sum over an episode is minus the number of jobs times the mean completion time, in that unit.
        done: Whether all jobs have ended.
        started: Whether the task was the last one of its job, which has started.
        slowdown: By how much that raised the sum of the slowdowns of all running jobs, its own included; 0 where none started.
        ended: The rows of the jobs that have ended since the last step, each with its completion time, seconds.
    """

    reward: float
    done: bool
    started: bool
    slowdown: float
    ended: tuple[tuple[int, float], ...]


class PlacementEnvironment:
    """A cluster in which the caller places the tasks of jobs, which then run to their end.

    Args:
        cluster: The nodes, with a network or without.
        workload: Makes the trace of a seed, such as `PlacementWorkload.trace`.
        policy: The order of the jobs; one that does not preempt.
        contention: How jobs slow each other.
        interval: Jobs start only at multiples of it, seconds; 0: as soon as they fit.

    Raises:
        UsageError: The policy preempts, or does not exist.
    """

    def __init__(
        self, cluster: ClusterSize, workload: TraceOfSeed, policy: str = "fifo", contention: SimulatedContention | None = None,
        interval: float = 0.0,
    ) -> None:  # fmt: skip
        if policy not in POLICIES:
            raise UsageError(f"policy {policy[:40]!r}: no such policy; there are {', '.join(POLICIES)}")
        contention = contention or SimulatedContention(DEFAULT_INTERFERENCE)
        self.cluster, self._workload = cluster, workload
        self._rules = Rules(POLICIES[policy], PolicyConfig(name=policy), interval=interval, contention=contention)
        self.groups = cluster.nodes * cluster.sockets_per_node
        self.reset(0)

    def reset(self, seed: int) -> PlacementView:
        """Begin anew with the trace of a seed, and advance to the first task. Returns what `observe` returns.

        Raises:
            UsageError: A job is larger than the cluster, or there are none.
        """
        self.trace = trace = self._workload(seed, self.cluster.gpus)
        if not len(trace) or trace.gpus.max() > self.cluster.gpus:
            raise UsageError(
                f"the jobs of seed {seed} do not fit {self.cluster.gpus} GPUs, or there are none; give others"
            )
        pool = partial(PlacedPool, self._rules, self.cluster, trace.model, trace.gpus.tolist())
        self._loop = EventLoop(trace, self.cluster, self._rules, pool)
        self._unit = float(trace.duration.mean()) or 1.0
        self._submit: list[float] = trace.submit.tolist()
        self._seconds, self._since = 0.0, self._submit[0]
        self._present: set[int] = set()
        self._ended: list[tuple[int, float]] = []
        self._queue: deque[int] = deque()
        self._advance()
        return self.observe()

    def observe(self) -> PlacementView:
        """Return the cluster before the next task is placed; at the end row is -1."""
        contention, row = self._contention, self._queue[0] if self._queue else -1
        links = contention.links.count.copy() if contention.links else np.zeros(0, np.int64)
        return PlacementView(
            self._loop.now, row, self.trace.model[row] if row >= 0 else "", int(self.trace.gpus[row]) if row >= 0 else 0,
            self._placed.copy(), self._free.copy(), contention.servers.cpu.copy(), contention.servers.pcie.copy(), links,
            contention.rows(), self._loop.waiting,
        )  # fmt: skip

    def step(self, group: int) -> PlacementStep:
        """Place the next task on a GPU of a group.

        Args:
            group: Number of the group, server x sockets + socket.

        Raises:
            UsageError: The group has no free GPU, does not exist, or all jobs have ended.
        """
        server, socket = divmod(group, self.cluster.sockets_per_node)
        if not self._queue or not 0 <= group < self.groups or not self._free[server, socket]:
            raise UsageError(f"group {group} has no free GPU for a task that waits; place it on one that has")
        self._free[server, socket] -= 1
        self._placed[server, socket] += 1
        self._left -= 1
        slowdown, started = 0.0, not self._left
        if started:
            slowdown = self._start(self._queue.popleft())
            self._advance()
        return self._result(started, slowdown)

    def excess_of(self, parts: tuple[PartOfServer, ...]) -> float:
        """Return the sum of the slowdowns of all running jobs if the next job started there, its own included.

        Args:
            parts: What it would have of its servers, all of it free.

        Raises:
            UsageError: All jobs have ended.
        """
        if not self._queue:
            raise UsageError("all jobs have ended; reset the environment")
        return self._contention.excess_with(self._queue[0], parts, self._loop.now)

    def parts(self, row: int) -> tuple[PartOfServer, ...]:
        """Return what a running job has of its servers."""
        return self._contention.parts(row)

    def snapshot(self) -> Snapshot:
        """Return the jobs and nodes as `scheduler.decide` sees them; tasks of a job that has not started do not show."""
        return self._loop.allocator.snapshot(self._loop.now)

    def outcome(self) -> Outcome:
        """Return what has happened so far, as `Simulation.outcome`."""
        return self._loop.outcome()

    @property
    def done(self) -> bool:
        """Whether all jobs have ended."""
        return self._loop.completed == len(self.trace)

    @property
    def _pool(self) -> PlacedPool:
        assert isinstance(self._loop.allocator, PlacedPool)
        return self._loop.allocator

    @property
    def _contention(self) -> ContentionTracker:
        assert self._pool.contention, "the rules have one"
        return self._pool.contention

    def _start(self, row: int) -> float:
        """Start a job whose tasks are all placed. Returns by how much the sum of the slowdowns rises."""
        before = self._contention.excess()
        servers = np.flatnonzero(self._placed.any(axis=1)).tolist()
        self._pool.place(row, [PartOfServer(server, tuple(self._placed[server].tolist())) for server in servers])
        self._loop.carry_out(Choice((row,), ()))
        return self._contention.excess() - before

    def _advance(self) -> None:
        """Advance until a task is to be placed, or all jobs have ended."""
        loop = self._loop
        while not self._queue and not self.done:
            moment = loop.next_event()
            assert moment < math.inf, "each job fits the empty cluster"
            _, choice = loop.prepare(moment)
            self._count(moment)
            if choice is None or not choice.starts:
                loop.carry_out(choice)
            else:
                self._queue.extend(choice.starts)
        self._placed = np.zeros((self.cluster.nodes, self.cluster.sockets_per_node), np.int64)
        self._free = self._pool.occupancy.free_by_socket()
        self._left = int(self.trace.gpus[self._queue[0]]) if self._queue else 0

    def _count(self, now: float) -> None:
        """Count the seconds of the jobs that were there until `now`, then the jobs that were submitted or ended."""
        self._seconds += len(self._present) * (now - self._since)
        self._since = now
        for kind, row in self._loop.events:
            if kind is EventKind.SUBMIT:
                self._present.add(row)
                self._seconds += now - self._submit[row]
            elif kind is EventKind.FINISH:
                self._present.discard(row)
                self._ended.append((row, now - self._submit[row]))

    def _result(self, started: bool, slowdown: float) -> PlacementStep:
        found = PlacementStep(-self._seconds / self._unit, self.done, started, slowdown, tuple(self._ended))
        self._seconds = 0.0
        self._ended.clear()
        return found
