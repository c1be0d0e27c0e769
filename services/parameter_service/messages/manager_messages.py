"""The messages of agents to the manager. Tables of tensors are payloads, as JSON objects: a header would be too small for them."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.services.wire.typed_messages import message

MAX_TABLE_BYTES = 16 << 20


@message(64)
@dataclass(frozen=True, slots=True)
class RegisterJob:
    """The only message of a connection to the registration port.

    Attributes:
        credential: A munge credential for the service account; its payload is a JSON object with job, key (64 hexadecimal digits),
            servers, workers and compress, and slurm_job within a Slurm job.
    """

    credential: str


@message(65)
@dataclass(frozen=True, slots=True)
class PlaceTensors:
    """Requests a place for tensors of the job; the payload has the bytes of each. Repeated, it returns where they are.

    It may name tensors that were not declared before, and need not name all that were. The answer has all of them.
    """


@message(66)
@dataclass(frozen=True, slots=True)
class TensorPlacement:
    """The answer to PlaceTensors and Locations; the payload has the address of each block.

    Attributes:
        ready: Every aggregator of the job runs; otherwise the payload is empty, and the request is to be repeated.
    """

    ready: bool


@message(67)
@dataclass(frozen=True, slots=True)
class ReportProfile:
    """Rank 0 reports the job's profile; the payload has the seconds of work of each block in an iteration. Without
    a payload, what the aggregators have measured counts.

    Attributes:
        iteration_s: Seconds of an iteration.
    """

    iteration_s: float


@message(68)
@dataclass(frozen=True, slots=True)
class ReportIteration:
    """Rank 0 reports the seconds of one iteration."""

    iteration_s: float


@message(69)
@dataclass(frozen=True, slots=True)
class Locations:
    """Requests where the blocks of the job are assigned to; a block that moves to there is in the answer twice."""


@message(70)
@dataclass(frozen=True, slots=True)
class EndJob:
    """Removes the job."""
