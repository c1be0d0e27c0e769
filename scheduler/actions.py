"""The actions of a plan: what `act` does to one job.

`model.py` exports these names, so that a reader of plans needs one module only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Start:
    """The action that starts a job.

    Attributes:
        job: Id of the job.
        nodes: Names of exactly the nodes that it gets, each with its GPUs.
        owned_cells: For each node the type of the cell of its virtual cluster; (): none, so that the job is opportunistic where
            there are virtual clusters.
        parts: For each node the GPUs from each of its finest parts (`Topology.parts`), () for any; (): any GPUs of all nodes.
        servers: Its parameter servers on CPUs alone; 0: none.
    """

    job: str
    nodes: tuple[tuple[str, int], ...]
    owned_cells: tuple[str, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()
    servers: int = 0


@dataclass(frozen=True, slots=True)
class Preempt:
    """The action that preempts a job.

    Attributes:
        job: Id of the preempted job.
        beneficiary: Id of the job that starts on the GPUs that it releases.
    """

    job: str
    beneficiary: str


@dataclass(frozen=True, slots=True)
class Rebind:
    """The action that changes in which cells a job holds its GPUs; the GPUs stay.

    Attributes:
        job: Id of the job.
        owned_cells: For each of its nodes, in the order of `Allocations`, the type of the cell of its virtual cluster; (): none,
            the job is opportunistic from now on.
    """

    job: str
    owned_cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resize:
    """The action that changes the size of a running job: it saves and is requeued, and a later decision starts it again.

    Attributes:
        job: Id of the job.
        gpus: The size that the decision found for it; its present one where the number of its parameter servers changes alone.
        is_sample: The size is measured, so that the speed of the job can be predicted.
        beneficiary: Id of the job that starts on GPUs that it releases, as of a preemption; "": there is none.
    """

    job: str
    gpus: int
    is_sample: bool = False
    beneficiary: str = ""


PlannedAction: TypeAlias = (
    Start | Preempt | Rebind | Resize
)  # another kind of action is another class, in this list and in `Actor.begin`
