"""Reasons of decisions as values: a code with its parameters. `reasons.py` turns them into words."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ReasonCode(IntEnum):
    """Why a decision on a job is what it is, where the action alone does not show it."""

    NEVER_FITS = 0  # no nodes fit the request, even if all GPUs were free
    KEPT_FREE = 1  # GPUs are kept free for the starving job
    NO_NODES = 2  # enough GPUs, but not on nodes that fit the request
    STRICT_FIFO = 3  # a higher-ranked job does not fit, and no job overtakes it
    BLOCKED_BY_SLURM = 4  # text: Slurm's reason
    REFUSED_BY_SLURM = 5  # text: Slurm's reason of the last refused start
    NOT_ADMITTED = 6  # text: the admission rule
    PACKED = 7  # amount: nodes that it waits for; seconds: until it takes more nodes
    DEFRAGMENT = 8  # text: the job that gets its nodes; nodes: where the preempted job fits
    OPPORTUNISTIC = 9  # text: the virtual cluster, whose cells are in use by other jobs
    COVERED = 10  # text: the virtual cluster, which keeps cells free for the job that runs elsewhere
    OUTSIDE = 11  # the job belongs to no virtual cluster
    UNBOUND = 12  # text: the virtual cluster, which has enough free GPUs, but no hardware that fits the request
    IN_CELLS = 13  # text: the virtual cluster, in whose cells the job runs
    CELLS_BEING_FREED = (
        14  # text: the virtual cluster; amount: its free cells of the level; jobs: preempted ones on `nodes`
    )
    CELLS_IN_USE = (
        15  # text: the virtual cluster; needed, amount, in_use: cells of the level; jobs: which hold its cells
    )
    BEYOND_CELLS = 16  # text: the virtual cluster; amount: its GPUs; needed: requested GPUs
    PREEMPTED_FOR_CELLS = 17  # text: the virtual cluster of the job in `jobs`, which starts on these GPUs
    CONFINED = 18  # the job belongs to no virtual cluster, and may not run opportunistically
    SLURM_ORDER = 19  # mode assist: Slurm starts the job by its own order; text: an unmanaged job that it ranks first
    SLURM_HEAD = 20  # mode assist: Slurm ranks the job first, and no preemption for it is possible or gains time
    ASSIST_COSTS = (
        21  # mode assist: as SLURM_HEAD; seconds: the expected wait; amount: seconds that a preemption would cost
    )
    ASSISTED = 22  # mode assist: jobs in `jobs` are preempted for the job; seconds, amount: as above
    PREEMPTED_TO_ASSIST = 23  # mode assist: text: the beneficiary; seconds, amount: as above
    REMOTE_MEMORY = 24  # needed: MiB of remote memory that the job requests; amount: MiB that remain
    UNFIT_CELLS = 25  # text: the virtual cluster, of which no cells fit the request


class Reason(NamedTuple):
    """A code with its parameters; those that a code does not have keep their defaults.

    Attributes:
        code: What happened.
        text: A job id, an admission rule or Slurm's reason.
        amount: Nodes, GPUs, cells, seconds or MiB.
        seconds: A duration.
        nodes: Names of nodes with GPUs.
        level: Type of a cell of a virtual cluster, such as node or leaf.
        needed, in_use: Cells of that type, or MiB, that the job needs, and cells that jobs use.
        jobs: Ids of other jobs.
    """

    code: ReasonCode
    text: str = ""
    amount: int = 0
    seconds: float = 0.0
    nodes: tuple[tuple[str, int], ...] = ()
    level: str = ""
    needed: int = 0
    in_use: int = 0
    jobs: tuple[str, ...] = ()
