"""The input and the result of `decide`.

A `Snapshot` is a structure of arrays: one row a job, one row a node, one row an (job, node) allocation. Ten thousand jobs are then
ranked by a handful of numpy calls, and the simulator and the controller fill the same arrays from different ends.

Units: seconds (epoch seconds for moments), GPUs, GPU-seconds, MiB. `nan` stands for "never".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.actions import PlannedAction as PlannedAction
from tiresias.scheduler.actions import Preempt as Preempt
from tiresias.scheduler.actions import Rebind as Rebind
from tiresias.scheduler.actions import Resize as Resize
from tiresias.scheduler.actions import Start as Start
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.scheduler.reason_codes import Reason
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class JobState(IntEnum):
    """The state of a job for a decision."""

    WAITING = 0
    RUNNING = 1
    RELEASING = 2  # preempted or completing: it still holds its GPUs
    STARTING = 3  # released to Slurm, which has not started it yet: its GPUs are promised to it


class Effect(IntEnum):
    """What a plan does to one job."""

    WAIT = 0
    START = 1
    KEEP = 2
    PREEMPT = 3
    RELEASE = 4  # the job goes on releasing its GPUs


class Style(IntEnum):
    """The styles of placement that are chosen job by job: codes, as of all styles, in `place/placements.py`."""

    CONSOLIDATE = 0  # the fewest nodes (section 3.3)
    SPREAD = 1  # fragments (section 3.3)
    APART = 2  # as CONSOLIDATE, but on two nodes at least if it may: a trial run shows what leaves a node


@dataclass(frozen=True, slots=True)
class Request:
    """What a job requests besides its number of GPUs; the defaults request nothing.

    Attributes:
        min_nodes, max_nodes: Slurm's -N; 0: no limit.
        gpus_per_node: GPUs on each node; 0: uneven numbers are allowed.
        cpus_per_gpu: CPUs on each node, per GPU there.
        memory_per_gpu: MiB on each node, per GPU there.
        memory_per_node: MiB, the same on each node (Slurm's --mem), in place of `memory_per_gpu`.
        remote_memory: MiB of the memory of other nodes that the whole job may use (`tsbatch --remote-mem`).
        gpu_type: GPU type; "": any.
        features: Node features, all of which are required.
        nodes: Required nodes (-w); others are added where these are too few.
        excluded: Nodes that are never used (-x).
        closed: Nodes on which it cannot start now but can later, such as those of a reservation that begins before its time limit
            ends.
    """

    min_nodes: int = 0
    max_nodes: int = 0
    gpus_per_node: int = 0
    cpus_per_gpu: float = 0.0
    memory_per_gpu: float = 0.0
    memory_per_node: float = 0.0
    remote_memory: float = 0.0
    gpu_type: str = ""
    features: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()


ANYWHERE = Request()


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """The managed jobs, one row each; all arrays have shape (jobs,). An optional column that is None has its neutral values.

    Attributes:
        id: As Slurm's commands print it.
        gpus: Requested GPUs; of a running job the GPUs that it holds.
        submit: Epoch second of the first submission.
        state: Of `JobState`.
        attained: W_J * t_J in GPU-seconds since the last reset (section 3.2.2).
        ran, waited: t_J and the waiting time since the last reset, seconds (section 3.2.3).
        first_start, last_start: Epoch second of its first and its newest start; nan: it never ran.
        preempted: Epoch second at which it last went back to waiting; nan: it was never preempted.
        movable: It may be preempted now.
        eligible: A waiting job that may be started now: not backed off, no dependency.
        request: What it requests besides GPUs.
        remaining: Seconds of work left. Only the simulator fills it, for its clairvoyant baselines.
        preemption_cost: Measured seconds on its GPUs that a preemption costs; nan: not known.
        progress_from: Epoch second of the first step after the newest start; nan: not known, the start counts. For a run that has
            reported no step yet it is the snapshot's time.
        style: The code of the job's style of placement (`place/placements.py`); neutral: consolidate.
        packed_until: Epoch second up to which a job that consolidates accepts only the fewest nodes possible; neutral: -inf.
        obstacle: Slurm's reason for which it cannot start now, in Slurm's words; "": none. A job with an obstacle is not eligible.
        free_only: A waiting job that may start on free GPUs only, as Slurm refused to start it: no job is preempted for it, and no
            GPUs are reserved for it.
        virtual_cluster: Name of its virtual cluster; "", the neutral value: none.
        priority_class: The highest PriorityTier of its partitions, larger is more important; 0, the neutral value: not known.
        min_gpus, max_gpus: The GPUs that it can use; neutral: `gpus`, as for a job of fixed size.
        gpu_step: The GPUs by multiples of which its size can change (an elastic job); 0, the neutral value: its size is fixed.
        progress: The newest training step that its program reported, a claim of its owner; nan, the neutral value: none reported.
        claimed_remaining: Seconds of work left by its program's reports, corrected by what happened (`estimates/claims.py`); nan,
            the neutral value: no claim counts.
        claim_trust: Weight of the claims of its owner, 0 to 1; neutral: 1.
        opportunistic: It may run beyond the cells of its virtual cluster, where it can be preempted; neutral: True.
        reclaimable: A running job that may be preempted for the owner of the cells on which it runs opportunistically, whatever
            protects it from preemption by a policy; neutral: `movable`.
        saves: It is known to save when it is preempted; neutral: True.
        seconds_by_size: Predicted seconds of training left of each job by its size, shape (servers + 1, workers + 1) each; a job
            without parameter servers has one row, its workers are its GPUs. A server takes a GPU as a worker does. nan or inf:
            not possible or not known. None, the neutral value: no prediction.
        uncertain: The predictions of the job are uncertain, as of few points; neutral: False.
        servers: Of the GPUs of a job those that its parameter servers hold; 0, the neutral value: it has none.
        servers_by_gpus: Of each job whose parameter servers hold CPUs alone their number by its GPUs, shape (GPUs + 1,); its
            `seconds_by_size` has one row. None: it has no such servers; None of all jobs, the neutral value: no job has.
        sizes_timed: The sizes (servers that take GPUs, GPUs) at which steps of each job, or of others of its kind, were timed;
            None of a job: it is not timed, and not sampled. None of all jobs, the neutral value: none is.
        starts: How often each job has started; neutral: not known.
        cpus_by_gpus: CPUs for each GPU of such a job by its GPUs, those of its servers included, shape (GPUs + 1,). None: as of
            `servers_by_gpus`.
        demoted: Jobs that are ranked after all others, as they do not use their GPUs (rank/idle_gpus.py); None: none.
        owner_excess: GPU-seconds that the owner of each job used more than others, by shares (`fairness/owner_shares.py`); None,
            the neutral value: owners do not share.
        last_nodes: Names of the nodes of the last run of each waiting job, empty where it never ran; None, the neutral value: not
            known. A restart prefers them where nothing else differs (`place/last_nodes.py`).
        seconds_now: Predicted seconds of training left of each such job that runs, with the number of servers that it has; nan, the
            neutral value: not known.
        interference_kind: The row of each job in `Snapshot.interference`; -1, the neutral value: nothing is expected of it.
        speed_sensitivity: How much slower each job is on slow nodes, 0 to 1 (`place/speed_needs.py`); neutral: 1.
        locality_penalty: How much slower it is on several nodes, 1 or more, or inf (as above); neutral: LOCALITY_PENALTY.
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
    style: Ints | None = None
    packed_until: Floats | None = None
    obstacle: tuple[str, ...] | None = None
    free_only: Bools | None = None

    # No decision of the built-in stages depends on these.
    virtual_cluster: tuple[str, ...] | None = None
    priority_class: Ints | None = None
    min_gpus: Ints | None = None
    max_gpus: Ints | None = None
    gpu_step: Ints | None = None
    progress: Floats | None = None
    claimed_remaining: Floats | None = None
    claim_trust: Floats | None = None
    opportunistic: Bools | None = None
    reclaimable: Bools | None = None
    saves: Bools | None = None
    seconds_by_size: tuple[Floats | None, ...] | None = None
    uncertain: Bools | None = None
    servers: Ints | None = None
    servers_by_gpus: tuple[Ints | None, ...] | None = None
    sizes_timed: tuple[tuple[tuple[int, int], ...] | None, ...] | None = None
    starts: Ints | None = None
    cpus_by_gpus: tuple[Floats | None, ...] | None = None
    seconds_now: Floats | None = None
    demoted: Bools | None = None
    owner_excess: Floats | None = None
    last_nodes: tuple[frozenset[str], ...] | None = None
    interference_kind: Ints | None = None
    speed_sensitivity: Floats | None = None
    locality_penalty: Floats | None = None

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The nodes that managed jobs may use, one row each; arrays of shape (nodes,).

    Attributes:
        name: As in Slurm.
        gpus: Configured GPUs.
        free: Resources that no job holds, managed or unmanaged.
        usable: New jobs may start there. A node that is down or drained is not usable; running jobs stay on it.
        topology: The tree of the nodes.
        gpu_type: GPU types, with commas between several.
        features: Node features.
        last_resort: Nodes that jobs use only where no others suffice; neutral: none.
        slowness: Seconds a step of sensitive jobs on each node, divided by those on the median node; neutral: all nodes are equal.
        lendable: MiB that the donor of each node can lend beyond what is promised to jobs (`admit/remote_memory.py`); None, the
            neutral value: not known, and the placement of jobs does not depend on it.
    """

    name: tuple[str, ...]
    gpus: Ints
    free: Resources
    usable: Bools
    topology: Topology
    gpu_type: tuple[str, ...]
    features: tuple[frozenset[str], ...]
    last_resort: Bools | None = None
    slowness: Floats | None = None
    lendable: Floats | None = None

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """What managed jobs hold: one row for each pair of a job, running or releasing, and a node; shape (allocations,).

    Attributes:
        job: its row in `Jobs`.
        node: its row in `Nodes`.
        resources: what it holds there; the same columns as `Nodes.free`.
        owned_cell: type of the cell of the job's virtual cluster in which it holds them; "": none, the job is opportunistic there.
            None: there are no virtual clusters.
    """

    job: Ints
    node: Ints
    resources: Resources
    owned_cell: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of Slurm on what several jobs hold together, such as GPUs of a QOS or tasks of an array at once.

    Attributes:
        reason: Slurm's reason of a job that the limit keeps waiting.
        left: What remains of the limit beside the jobs that hold GPUs.
        amounts: What each waiting job that the limit counts would take of it, by row.
    """

    reason: str
    left: float
    amounts: Mapping[int, float]


class TrainedPlacement(Protocol):
    """A network that was trained to place jobs (`place/learned/weights_file.py`)."""

    @property
    def fingerprint(self) -> str:
        """Of the topology for which it was trained."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The jobs and nodes at one moment: the input of a decision.

    Attributes:
        time: Epoch seconds.
        jobs: The managed jobs that take part.
        nodes: The nodes that they may use.
        allocations: What they hold.
        quotas: Slurm's limits on several jobs together.
        interference: What jobs on one node are expected to do to each other; None: nothing is expected.
        trained: The network by which jobs of the style `learned` are placed; None: they are placed by `least_interference`.
    """

    time: float
    jobs: Jobs
    nodes: Nodes
    allocations: Allocations
    quotas: tuple[Quota, ...] = ()
    interference: InterferenceTable | None = None
    trained: TrainedPlacement | None = None


class RankWords(Protocol):
    """Texts that explain the ranks of jobs (`rank/standing.py`)."""

    def of(self, row: int) -> str:
        """The text for one job."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is done to each job of a snapshot; arrays of shape (jobs,), rows as in the snapshot.

    Attributes:
        effect: What happens to each job, of `Effect`.
        queue: Index of the job's queue, 0 the most urgent.
        rank: Place of the job in the order of the walk, 0 first.
        actions: What is done now: the starts in the order of the walk, then the preemptions, the rebindings and the resizes.
        promoted: Ids of the jobs whose service and waiting time start anew (section 3.2.3).
        reserved: Where waiting jobs start once other jobs have released their GPUs; kept free for them until then.
        why: Reasons of jobs for which the effect alone does not state it, by row.
        standing: Why each job has its rank.
        servers: Of the GPUs of each job those of its parameter servers, shape (jobs,); None: no job has any.
    """

    effect: Ints
    queue: Ints
    rank: Ints
    actions: tuple[PlannedAction, ...] = ()
    promoted: tuple[str, ...] = ()
    reserved: tuple[Start, ...] = ()
    why: dict[int, Reason] = field(default_factory=dict)
    standing: RankWords | None = None
    servers: Ints | None = None

    @property
    def starts(self) -> tuple[Start, ...]:
        """The actions that start a job. O(actions)."""
        return tuple(action for action in self.actions if isinstance(action, Start))

    @property
    def preemptions(self) -> tuple[Preempt, ...]:
        """The jobs that release GPUs for another one: preempted ones, and those that go on with fewer. O(actions)."""
        return tuple(Preempt(action.job, action.beneficiary) for action in self.releases)

    @property
    def releases(self) -> tuple[Preempt | Resize, ...]:
        """The actions that release GPUs for another job. O(actions)."""
        return tuple(
            action
            for action in self.actions
            if isinstance(action, Preempt) or (isinstance(action, Resize) and action.beneficiary)
        )

    @property
    def rebindings(self) -> tuple[Rebind, ...]:
        """The actions that only change the cells of a job. O(actions)."""
        return tuple(action for action in self.actions if isinstance(action, Rebind))

    @property
    def resizes(self) -> tuple[Resize, ...]:
        """The actions that change the size of a running job. O(actions)."""
        return tuple(action for action in self.actions if isinstance(action, Resize))
