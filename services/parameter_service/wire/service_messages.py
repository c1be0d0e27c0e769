"""The typed messages: dataclasses with a number each, as JSON objects in headers.

`@message(NUMBER)` registers a dataclass. Numbers below 64 are of agents and aggregators, from 64 on those of the manager. Fields
are int (0 to 2^63-1), float, str, bool, tuple[int, ...], tuple[str, ...], dict[str, float] or object (any JSON value).
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_type_hints

from tiresias.services.parameter_service.wire.frames import BadFrame

MESSAGE_TYPES: dict[int, type[Any]] = {}
NUMBER_OF: dict[type[Any], int] = {}
_HINTS: dict[type[Any], dict[str, Any]] = {}
MAX_INT = 2**63 - 1
Kind = TypeVar("Kind", bound=type[Any])


def message(number: int) -> Callable[[Kind], Kind]:
    """Register a dataclass under a number from 1 to 255."""

    def register(kind: Kind) -> Kind:
        assert 0 < number < 256
        assert number not in MESSAGE_TYPES, f"message {number} is registered twice"
        MESSAGE_TYPES[number] = kind
        NUMBER_OF[kind] = number
        return kind

    return register


def encoded(content: Any) -> tuple[int, bytes]:
    """Return the number and the header of a message."""
    values = {name: getattr(content, name) for name in _hints(type(content))}
    return NUMBER_OF[type(content)], json.dumps(values, separators=(",", ":")).encode()


def decoded(number: int, header: bytes | bytearray | memoryview) -> Any:
    """Return the message of a frame.

    Raises:
        BadFrame: An unknown type, no JSON object, an unknown, missing or wrong field.
    """
    kind = MESSAGE_TYPES.get(number)
    if kind is None:
        raise BadFrame(f"a message of the unknown type {number}")
    values = _parsed(bytes(header))
    hints = _hints(kind)
    if not isinstance(values, dict) or values.keys() != hints.keys():
        raise BadFrame(f"{kind.__name__}: other fields than {', '.join(hints) or 'none'}")
    return kind(**{name: _checked(kind, name, hint, values[name]) for name, hint in hints.items()})


def _parsed(header: bytes) -> Any:
    try:
        return json.loads(header)
    except (ValueError, RecursionError) as error:
        raise BadFrame("a header that is no JSON") from error


def _hints(kind: type[Any]) -> dict[str, Any]:
    if kind not in _HINTS:
        hints = get_type_hints(kind)
        _HINTS[kind] = {each.name: hints[each.name] for each in fields(kind)}
    return _HINTS[kind]


def _checked(kind: type[Any], name: str, hint: Any, value: Any) -> Any:
    found = _converted(hint, value)
    if found is NotImplemented:
        raise BadFrame(f"{kind.__name__}: {name} has a wrong type or is out of range")
    return found


def _converted(hint: Any, value: Any) -> Any:
    if hint is object:
        return value
    if isinstance(hint, types.GenericAlias):
        return _collection(hint, value)
    if hint is float and type(value) is int:
        value = float(value) if abs(value) <= MAX_INT else None
    if type(value) is not hint or (hint is int and not 0 <= value <= MAX_INT):
        return NotImplemented
    return value


def _collection(hint: types.GenericAlias, value: Any) -> Any:
    mapping = hint.__origin__ is dict
    if type(value) is not (dict if mapping else list):
        return NotImplemented
    inner = hint.__args__[1 if mapping else 0]
    found = [_converted(inner, each) for each in _members(value)]
    if any(each is NotImplemented for each in found):
        return NotImplemented
    return dict(zip(value, found, strict=True)) if mapping else tuple(found)


def _members(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


@message(1)
@dataclass(frozen=True, slots=True)
class Hello:
    """The client's first message.

    Attributes:
        identity: What it is: peer_identity.py.
        nonce: 64 hexadecimal digits, new for each connection.
    """

    identity: str
    nonce: str


@message(2)
@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's answer to Hello: its own nonce, and its proof that it has the key."""

    nonce: str
    proof: str


@message(3)
@dataclass(frozen=True, slots=True)
class Proof:
    """The client's proof that it has the key."""

    proof: str


@message(4)
@dataclass(frozen=True, slots=True)
class Accepted:
    """A request was carried out, or a client was authenticated."""

    tensor: str = ""


@message(5)
@dataclass(frozen=True, slots=True)
class Refused:
    """A request was not carried out.

    Attributes:
        code: One word for programs: wire/refusal_codes.py.
        text: One line for people.
        tensor: The tensor of the request, or "".
        step: The step of the request, or 0.
    """

    code: str
    text: str
    tensor: str = ""
    step: int = 0


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
    """

    tensor: str
    epoch: int
    step: int
    lr: float = -1.0


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
    """

    tensor: str
    version: int
    moved_to: str = ""
    moved_epoch: int = 0


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
    """

    job: str
    key: str
    workers: int
    memory_bytes: int
    mode: str = "synchronous"
    staleness: int = 0
    on_nan: str = "stop"
    push_timeout_s: float = 600.0


@message(21)
@dataclass(frozen=True, slots=True)
class DropJob:
    """Removes a job with all its tensors; idempotent."""

    job: str


@message(22)
@dataclass(frozen=True, slots=True)
class MigrateTensor:
    """MIGRATE_INIT of the thesis: the tensor moves to another aggregator at its next update.

    Attributes:
        job: The job's name.
        tensor: The tensor's name.
        to: Address of the new master.
        within_s: Seconds after which it moves without an update; gradients that were received are pushed again by their ranks.
    """

    job: str
    tensor: str
    to: str
    within_s: float = 5.0


@message(23)
@dataclass(frozen=True, slots=True)
class DrainAggregator:
    """Moves every tensor of an aggregator to another one, and refuses new ones."""

    to: str
    within_s: float = 5.0


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
