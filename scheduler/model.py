"""What `decide` sees and what it answers.

A `Snapshot` is a structure of arrays: one row a job, one row a node, one row an (job, node) allocation. Ten thousand jobs are then
ranked by a handful of numpy calls, and the simulator and the controller fill the same arrays from different ends.

Units: seconds (epoch seconds for moments), GPUs, GPU-seconds, megabytes. `nan` stands for "never".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.reason_codes import Reason
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class JobState(IntEnum):
    WAITING = 0
    RUNNING = 1
    RELEASING = 2  # preempted or completing: it still holds its GPUs
    STARTING = 3  # released to Slurm, which has not started it yet: its GPUs are promised to it


class Action(IntEnum):
    WAIT = 0
    START = 1
    KEEP = 2
    PREEMPT = 3
    RELEASE = 4  # the job goes on releasing its GPUs


class Style(IntEnum):
    """How a job's GPUs are put on nodes. The paper's two (section 3.3), then others to compare with."""

    CONSOLIDATE = 0  # the fewest nodes
    SPREAD = 1  # fragments
    FIRST_FIT = 2
    LOAD_BALANCING = 3
    RANDOM = 4
    APART = 5  # as CONSOLIDATE, but on two nodes at least if it may: a trial run shows what leaves a node


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for besides its number of GPUs; the defaults ask for nothing.

    min_nodes, max_nodes: Slurm's -N (0: no limit). gpus_per_node: exactly so many on each node (0: uneven counts allowed).
    cpus, memory: per GPU, counted on each node (CPU-only jobs have no GPUs and are none of ours); memory_per_node: Slurm's --mem,
    the same on each node, in place of memory_per_gpu.
    features: node features that must all be there. nodes: these (-w), others where they are too few. excluded: never these (-x).
    closed: nodes on which it cannot start now, such as those of a reservation that begins before its time limit ends; later it can.
    """

    min_nodes: int = 0
    max_nodes: int = 0
    gpus_per_node: int = 0
    cpus_per_gpu: float = 0.0
    memory_per_gpu: float = 0.0
    memory_per_node: float = 0.0
    gpu_type: str = ""
    features: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()


ANYWHERE = Request()


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """The managed jobs, one row each; all arrays have shape (jobs,).

    attained: W_J * t_J in GPU-seconds since the last reset (section 3.2.2). ran, waited: t_J and the waiting time since the last
    reset (section 3.2.3). preempted: when it last went back to waiting, nan for a job never preempted.
    movable: may be preempted now. eligible: a waiting job that may be started now (not backed off, no dependency).
    remaining: seconds of work left, which only the simulator knows, for its clairvoyant baselines. preemption_cost: seconds on
    its GPUs that a preemption costs a job, as measured; nan: not known. progress_from: the moment of the first step after the
    newest start; nan: not known, the start counts. A run that has reported none yet has the snapshot's time here. None: all nan.
    obstacle: Slurm's reason for which the job cannot start now, in Slurm's words, "" for none; such a job is not eligible.
    free_only: a waiting job that may start on free GPUs only, as Slurm refused to start it: no job is preempted for it, and no
    GPUs are reserved for it.
    virtual_cluster: the name of the job's virtual cluster; "", the neutral value: it is in none.
    priority_class: the PriorityTier of the job's partition, the higher the more important; 0, the neutral value: not known.
    min_gpus, max_gpus: the GPUs that the job can use; both equal `gpus`, the neutral value, for a job of fixed size.
    progress: the newest training step that the job's program has reported, a claim of its owner; nan, the neutral value: none.
    """

    id: tuple[str, ...]
    gpus: Ints
    submit: Floats
    state: Ints
    attained: Floats
    ran: Floats
    waited: Floats
    first_start: Floats
    last_start: Floats
    preempted: Floats
    movable: Bools
    eligible: Bools
    request: tuple[Request, ...]
    remaining: Floats | None = None
    preemption_cost: Floats | None = None
    progress_from: Floats | None = None

    style: Ints | None = None  # of `Style`; None: all consolidate
    packed_until: Floats | None = None  # a job that consolidates waits so long for as few nodes as it could ever have

    obstacle: tuple[str, ...] | None = None
    free_only: Bools | None = None

    # No decision of the built-in stages depends on these; None: as if every job had the neutral value.
    virtual_cluster: tuple[str, ...] | None = None
    priority_class: Ints | None = None
    min_gpus: Ints | None = None
    max_gpus: Ints | None = None
    progress: Floats | None = None

    def __len__(self) -> int:
        return len(self.id)


class Row:
    """One of the jobs, as a policy's formulas see it."""

    def __init__(self, jobs: Jobs, row: int) -> None:
        self._jobs, self._row = jobs, row

    def __getattr__(self, column: str) -> Any:
        values = getattr(self._jobs, column)
        return None if values is None else values[self._row]


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The nodes that managed jobs may use; arrays of shape (nodes,). Nodes that are down or drained have no free GPUs and
    `usable` False: running jobs stay on them, nothing new starts there."""

    name: tuple[str, ...]
    gpus: Ints  # configured
    free: Resources  # allocated to no job, managed or unmanaged
    usable: Bools
    topology: Topology
    gpu_type: tuple[str, ...]  # several with commas between them
    features: tuple[frozenset[str], ...]

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """What managed jobs hold: one row for each pair of a job, running or releasing, and a node; shape (allocations,).

    Attributes:
        job: its row in `Jobs`.
        node: its row in `Nodes`.
        resources: what it holds there; the same columns as `Nodes.free`.
    """

    job: Ints
    node: Ints
    resources: Resources


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of Slurm's on what several jobs hold together, such as GPUs of a QOS or tasks of an array at once.

    reason: of a job that the limit keeps waiting, in Slurm's words. left: what the jobs that hold GPUs leave of the limit.
    amounts: of each waiting job that it counts, by row, what that job would take of it.
    """

    reason: str
    left: float
    amounts: Mapping[int, float]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    time: float
    jobs: Jobs
    nodes: Nodes
    allocations: Allocations
    quotas: tuple[Quota, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """Start `job` on exactly these nodes: (node name, GPUs)."""

    job: str
    nodes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """Preempt `job` because `beneficiary` starts on what it leaves."""

    job: str
    beneficiary: str


class RankWords(Protocol):
    """What knows why jobs have their rank (`rank/standing.py`)."""

    def of(self, row: int) -> str:
        """The text for one job."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The answer for every job of the snapshot, in the snapshot's order of rows; arrays of shape (jobs,).

    queue: index of the job's queue, 0 the most urgent. rank: its place in the order of the walk, 0 first.
    promoted: ids whose service and waiting time the ledger must now reset (section 3.2.3).
    reserved: where waiting jobs will start once the leaving and the preempted ones have left; kept free for them until then.
    """

    action: Ints
    queue: Ints
    rank: Ints
    starts: tuple[Start, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    promoted: tuple[str, ...] = ()
    reserved: tuple[Start, ...] = ()
    why: dict[int, Reason] = field(default_factory=dict)  # reasons that need more than the action, by row
    standing: RankWords | None = None  # why a row has its rank
