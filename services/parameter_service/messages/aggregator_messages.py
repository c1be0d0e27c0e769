"""The messages of the manager and of aggregators to an aggregator: jobs, migrations and statistics."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.services.wire.typed_messages import message


@message(20)
@dataclass(frozen=True, slots=True)
class AdoptJob:
    """The manager hands a job to an aggregator; idempotent.

    Attributes:
        job: Its name.
        key: Its 32-byte key, in hexadecimal.
        workers: The number of ranks that push.
        memory_bytes: Bound of its tensors on this aggregator.
        mode: "synchronous" or "asynchronous".
        staleness: Steps by which a rank may be ahead of the slowest one (asynchronous).
        on_nan: "stop" or "skip": what a gradient with NaN or Inf does.
        push_timeout_s: Seconds that a step waits for the gradients of all ranks.
        compress: How gradients and parameters may be compressed: "none" or "shuffle-zlib" (wire/shuffled_payload.py).
    """

    job: str
    key: str
    workers: int
    memory_bytes: int
    mode: str = "synchronous"
    staleness: int = 0
    on_nan: str = "stop"
    push_timeout_s: float = 600.0
    compress: str = "none"


@message(21)
@dataclass(frozen=True, slots=True)
class DropJob:
    """Removes a job with all its tensors; idempotent."""

    job: str


@message(22)
@dataclass(frozen=True, slots=True)
class MigrateTensor:
    """MIGRATE_INIT of the thesis: the tensor moves to another aggregator at an update.

    Attributes:
        job: The job's name.
        tensor: The tensor's name.
        to: Address of the new master.
        within_s: Seconds without an update after which it moves without one; gradients that were received are pushed again by
            their ranks.
        paced_s: Seconds in which it moves only at an update whose idle window has the time for the copy; later at any update.
    """

    job: str
    tensor: str
    to: str
    within_s: float = 5.0
    paced_s: float = 10.0  # below the times in which nodes are given back


@message(23)
@dataclass(frozen=True, slots=True)
class DrainAggregator:
    """Moves every tensor of an aggregator to another one, and refuses new ones.

    Attributes:
        to: Address of the other one.
        within_s: Seconds of pacing (MigrateTensor.paced_s); later a tensor moves at its next update, or without one in these
            seconds.
    """

    to: str
    within_s: float = 5.0


@message(34)
@dataclass(frozen=True, slots=True)
class PlanCycle:
    """The execution cycle of an aggregator, as the manager has assigned its jobs; idempotent.

    Attributes:
        cycle_s: Its length in seconds; 0 for none: every step is executed when it arrives.
        runs: How often each job runs in it.
        work_s: Seconds of processor time of each job's tensors here in a run.
    """

    cycle_s: float
    runs: dict[str, float]
    work_s: dict[str, float]


@message(24)
@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """Requests an aggregator's statistics."""


@message(25)
@dataclass(frozen=True, slots=True)
class StatisticsReport:
    """The answer to ReadStatistics; the payload is a JSON object (aggregator_statistics.py)."""


@message(26)
@dataclass(frozen=True, slots=True)
class Subscribe:
    """Requests that TensorCopyDone, WorkerDone and MigrationFailed are sent on this connection."""


@message(27)
@dataclass(frozen=True, slots=True)
class TensorCopyDone:
    """TENSOR_COPY_DONE: the old master reports that the new one has taken over."""

    job: str
    tensor: str
    to: str
    epoch: int


@message(28)
@dataclass(frozen=True, slots=True)
class WorkerDone:
    """WORKER_DONE: the new master reports that every rank has pushed to it."""

    job: str
    tensor: str
    epoch: int


@message(29)
@dataclass(frozen=True, slots=True)
class MigrationFailed:
    """The old master reports that it keeps the tensor, under a new epoch."""

    job: str
    tensor: str
    to: str
    epoch: int
    reason: str


@message(30)
@dataclass(frozen=True, slots=True)
class TensorCopy:
    """TENSOR_COPY, from the old master to the new one; the payload is the parameters, the optimizer's state and the counts.

    Attributes:
        job: The job's name.
        tensor: The tensor's name.
        epoch: That of PrepareCopy.
        version: The number of updates in the payload.
    """

    job: str
    tensor: str
    epoch: int
    version: int


@message(31)
@dataclass(frozen=True, slots=True)
class CommitCopy:
    """Makes a staged copy the master; idempotent. The old master sends it after it has durably given the tensor up."""

    job: str
    tensor: str
    epoch: int


@message(32)
@dataclass(frozen=True, slots=True)
class DiscardCopy:
    """Removes a staged copy; idempotent."""

    job: str
    tensor: str
    epoch: int


@message(33)
@dataclass(frozen=True, slots=True)
class PrepareCopy:
    """The old master requests memory for a copy at the new one, before its content is sent; idempotent.

    Attributes:
        job: The job's name.
        declaration: The fields of InitTensor, as a JSON object.
        epoch: The epoch that begins with the commit.
        run: The run of the job that declared the tensor.
        generation: That of the last InitTensor.
    """

    job: str
    declaration: object
    epoch: int
    run: int
    generation: int
