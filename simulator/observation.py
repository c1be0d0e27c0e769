"""What `Simulation.observe` returns: the snapshot for the policies, and the events of the last step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tiresias.scheduler.model import Snapshot


class EventKind(Enum):
    """What happened to a job or to a node."""

    SUBMIT = "submit"  # a job is submitted
    START = "start"  # a job starts, or starts again
    PREEMPT = "preempt"  # a running job is preempted; it holds its GPUs until RELEASE
    RESIZE = "resize"  # a running elastic job is stopped to start with another size; it holds its GPUs until RELEASE
    RELEASE = "release"  # a preempted job has released its GPUs and waits again
    KILL = "kill"  # a job lost its node and waits again
    FINISH = "finish"  # a job has done all its work
    CHANGE = "change"  # the rank of a job changes by itself: it sinks a queue, or is promoted
    NODE_DOWN = "node_down"
    NODE_UP = "node_up"


class Event(NamedTuple):
    """One thing that happened.

    Attributes:
        kind: What happened.
        row: Of a job, its row in the trace; of a node, its index.
    """

    kind: EventKind
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """The state of a simulation at one moment.

    Attributes:
        time: Simulated time, seconds, on the clock of the trace.
        snapshot: The jobs that wait or run and the nodes, as `scheduler.decide` and the policies see them. A job's id is its
            row in the trace, as text. Where GPUs are one pool (`Rules.by_node` is False), the pool is shown as one node.
        events: What happened in the last step, in order.
        completed: Number of jobs that have ended.
        done: Whether all jobs of the trace have ended.
    """

    time: float
    snapshot: Snapshot
    events: tuple[Event, ...]
    completed: int
    done: bool
