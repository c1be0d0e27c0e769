"""The messages of agents and aggregators: content, gradients and parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiresias.services.wire.typed_messages import message


@message(10)
@dataclass(frozen=True, slots=True)
class InitTensor:
    """Rank 0 declares a tensor; the payload is its parameters, then, where `version` is above 0, the optimizer's state.

    Attributes:
        tensor: Its name in the job.
        shape: Its sizes.
        dtype: "float32" or "float64".
        optimizer: "sgd", "adam" or "average" (the master copy is the average gradient itself).
        options: Numbers of the optimizer; missing ones have PyTorch's defaults.
        version: The number of updates in the payload's state; 0 for new parameters.
        counts: Updates that were applied, and skipped, to reach the version; () for new parameters.
        generation: How often this run has stored a restored state before or with this message; the same on every rank.
    """

    tensor: str
    shape: tuple[int, ...]
    dtype: str
    optimizer: str
    options: dict[str, float] = field(default_factory=dict)
    version: int = 0
    counts: tuple[int, ...] = ()
    generation: int = 0


@message(11)
@dataclass(frozen=True, slots=True)
class Push:
    """One rank's gradient; the payload has the tensor's dtype.

    Attributes:
        tensor: Its name.
        epoch: The epoch of its assignment.
        step: The updates before this one, of the tensor (synchronous) or of the rank (asynchronous).
        lr: The learning rate of this step; a negative number takes that of InitTensor. Rank 0's counts.
        compress: How the payload is compressed: "none", or what the job has chosen (wire/shuffled_payload.py).
    """

    tensor: str
    epoch: int
    step: int
    lr: float = -1.0
    compress: str = "none"


@message(12)
@dataclass(frozen=True, slots=True)
class Pull:
    """Requests the parameters as soon as `step` updates are in them (asynchronous: by the staleness bound)."""

    tensor: str
    epoch: int
    step: int


@message(13)
@dataclass(frozen=True, slots=True)
class Parameters:
    """The answer to Pull; the payload is the master copy.

    Attributes:
        tensor: Its name.
        version: The number of updates in it.
        moved_to: Address of the new master for the next push; "" where nothing changes.
        moved_epoch: The epoch of the new assignment.
        compress: How the payload is compressed, as in Push.
    """

    tensor: str
    version: int
    moved_to: str = ""
    moved_epoch: int = 0
    compress: str = "none"


@message(14)
@dataclass(frozen=True, slots=True)
class PullState:
    """Requests the parameters and the optimizer's state as soon as `step` updates are in them."""

    tensor: str
    epoch: int
    step: int


@message(15)
@dataclass(frozen=True, slots=True)
class TensorState:
    """The answer to PullState; the payload is the parameters, then the optimizer's state."""

    tensor: str
    version: int
    counts: tuple[int, ...]


@message(16)
@dataclass(frozen=True, slots=True)
class Locate:
    """Requests where the master copy of a tensor is."""

    tensor: str


@message(17)
@dataclass(frozen=True, slots=True)
class Located:
    """The answer to Locate.

    Attributes:
        tensor: Its name.
        state: "active" here, "leaving", "moved" to `address`, "staged" (a copy without a commit), or "unknown".
        address: The new master's address where it has moved, else "".
        epoch: The epoch of that assignment.
        version: The number of updates.
        run: The run of the job that last declared it.
        generation: That of the last InitTensor.
    """

    tensor: str
    state: str
    address: str
    epoch: int
    version: int
    run: int
    generation: int = 0
