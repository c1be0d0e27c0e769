"""Models whose parameters are DTensors (FSDP2's fully_shard, tensor parallel): each rank saves its pieces, any number resumes.

    state = ShardedState(model, optimizer, scheduler=scheduler, sampler=sampler)
    step = state.restore(checkpointer)
    ...
    state.save(checkpointer, step)

Names and values come from torch.distributed.checkpoint.state_dict, which handles the wrappers. A piece is a box of a global tensor:

    {"pieces": [[name, buffer, dtype, offsets, sizes], ...], "piece/0": buffer, ...}     in each rank's state
    {"plain": packed}                                                                    in rank 0's: what is no DTensor

A resume copies into each local tensor what overlaps with it: with the same layout that is the rank's own pieces only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor

from tiresias.checkpoint import Checkpoint, Checkpointer, CorruptCheckpoint
from tiresias.checkpoint.adapters import encoding
from tiresias.checkpoint.adapters.rank_waits import measure_waits
from tiresias.checkpoint.adapters.torch import HasState, TrainingState
from tiresias.checkpoint.world import World

_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


class Box(NamedTuple):
    """Part of a tensor: its first index and its length in each dimension."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def overlap(self, other: Box) -> Box | None:
        """Return the common part of two boxes, None without one."""
        starts = tuple(map(max, self.offsets, other.offsets))
        ends = map(min, self._ends(), other._ends())
        sizes = tuple(end - start for start, end in zip(starts, ends, strict=True))
        return Box(starts, sizes) if all(size > 0 for size in sizes) else None

    def within(self, outer: Box) -> tuple[slice, ...]:
        """The index of this part in a tensor that holds `outer`."""
        starts = [own - base for own, base in zip(self.offsets, outer.offsets, strict=True)]
        return tuple(slice(start, start + size) for start, size in zip(starts, self.sizes, strict=True))

    @property
    def volume(self) -> int:
        """The number of elements."""
        return math.prod(self.sizes)

    def _ends(self) -> list[int]:
        return [offset + size for offset, size in zip(self.offsets, self.sizes, strict=True)]


class ShardedState:
    """A sharded model and optimizer, and further parts of the training.

    Args:
        model: The FSDP module.
        optimizer: Its optimizer.
        others: As the parts of TrainingState, the same on all ranks.

    Methods raise TypeError for a tensor of partial sums.
    """

    def __init__(self, model: Any, optimizer: Any, **others: HasState | None) -> None:
        self._model, self._optimizer, self._others = model, optimizer, TrainingState(**others)

    def save(self, checkpointer: Checkpointer, step: int, wait: bool = True) -> None:
        """Commit `step`; every rank calls it. See Checkpointer.save."""
        checkpointer.save(step, self.to_checkpoint(checkpointer.world.rank), wait)

    def restore(self, checkpointer: Checkpointer) -> int:
        """Load the newest good checkpoint; its step, 0 where there is none. Raises as Checkpointer.restore and `load`."""
        found = checkpointer.restore(reshard=True)
        if found:
            self.load(found, checkpointer.world)
        measure_waits(checkpointer, [self._model])
        return found.step if found else 0

    def to_checkpoint(self, rank: int) -> dict[str, Any]:
        """Return the state of this rank in the form that Checkpointer.save takes."""
        tensors, plain = self._current()
        pieces: list[list[Any]] = []
        state = self._others.to_checkpoint(rank) | (encoding.pack("plain", plain) if rank == 0 else {})
        for name, tensor in tensors.items():
            if _is_mine_to_write(tensor, name):
                buffer = f"piece/{len(pieces)}"
                pieces.append([name, buffer, encoding.dtype_name(tensor.dtype), *_box(tensor)])
                state[buffer] = encoding.tensor_buffer(tensor.to_local(), name)
        return state | {"pieces": pieces}

    def load(self, found: Checkpoint, world: World) -> None:
        """Raises CorruptCheckpoint where it holds not all that the model and the optimizer consist of."""
        tensors, _ = self._current()
        pieces = _Pieces(found, world)
        for name, tensor in tensors.items():
            pieces.fill(name, tensor)
        state = tensors | encoding.unpack(found.state, "plain")
        model, optimizer = _of_kind("model.", state), _of_kind("optimizer.", state)
        set_state_dict(self._model, self._optimizer, model_state_dict=model, optim_state_dict=optimizer, options=_FLAT)
        self._others.load(found, world)

    def _current(self) -> tuple[dict[str, DTensor], dict[str, Any]]:
        """(DTensors, the rest), by kind and full name. A new optimizer gets its (empty) state first."""
        model, optimizer = get_state_dict(self._model, self._optimizer, options=_FLAT)
        state = {f"model.{name}": value for name, value in model.items()}
        state |= {f"optimizer.{name}": value for name, value in optimizer.items()}
        tensors = {name: value for name, value in state.items() if isinstance(value, DTensor)}
        return tensors, {name: value for name, value in state.items() if name not in tensors}


def _of_kind(kind: str, state: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(kind): value for name, value in state.items() if name.startswith(kind)}


def _box(tensor: Any) -> Box:
    """Where this rank's part lies in the whole; its protocol is that of torch.distributed.checkpoint."""
    (chunk,) = tensor.__create_chunk_list__()
    return Box(tuple(chunk.offsets), tuple(chunk.sizes))


def _is_mine_to_write(tensor: Any, name: str) -> bool:
    """Of equal copies (Replicate) the first is written; a rank outside of the mesh has none."""
    if any(placement.is_partial() for placement in tensor.placements):
        raise TypeError(f"{name}: a DTensor of partial sums cannot be saved; reduce it first")
    coordinate: Sequence[int] | None = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return False
    return all(at == 0 for at, placement in zip(coordinate, tensor.placements, strict=True) if placement.is_replicate())


class _Pieces:
    """The pieces of all ranks of the run that saved, looked through from the most likely rank on, and no further than needed."""

    def __init__(self, found: Checkpoint, world: World) -> None:
        self._found = found
        nearest = (2 * world.rank + 1) * found.world_size // (2 * world.size)
        self._order = sorted(range(found.world_size), key=lambda old: abs(old - nearest))
        self._indexes: dict[int, dict[str, tuple[str, str, Box]]] = {}

    def fill(self, name: str, tensor: Any) -> None:
        """Overwrite the local part of `tensor`. Raises CorruptCheckpoint where the pieces do not cover it."""
        box, local, missing = _box(tensor), tensor.to_local(), _box(tensor).volume
        if not missing:
            return
        for common, source in self._overlapping(name, box):
            with torch.no_grad():
                local[common.within(box)].copy_(source)
            missing -= common.volume
            if missing <= 0:
                return
        raise CorruptCheckpoint(
            f"{self._found.path}: {missing} of the {box.volume} numbers of {name!r} at {box.offsets} are missing; "
            "the model or the optimizer is another one than was saved"
        )

    def _overlapping(self, name: str, box: Box) -> Iterator[tuple[Box, Any]]:
        for rank in self._order:
            if found := self._index(rank).get(name):
                buffer, dtype, piece = found
                if len(piece.sizes) == len(box.sizes) and (common := box.overlap(piece)):
                    whole = encoding.tensor_view(self._found.shards[rank].view(buffer), dtype, list(piece.sizes))
                    yield common, whole[common.within(piece)]

    def _index(self, rank: int) -> dict[str, tuple[str, str, Box]]:
        if rank not in self._indexes:
            self._indexes[rank] = {
                name: (buffer, dtype, Box(tuple(offsets), tuple(sizes)))
                for name, buffer, dtype, offsets, sizes in self._found.shards[rank]["pieces"]
            }
        return self._indexes[rank]
