"""A master copy in a memory-mapped file with two slots: a killed process loses no update, and no update is seen half-written.

An update reads one slot and writes the other one; then a single aligned store of 8 bytes makes it the current version. What a
killed process has stored in a mapping remains in the file: the next process finds either the version before or the one after. A
pull is answered after that store only. The cost is the memory of a second slot; nothing is copied for it. The loss of the node
loses what is on a tmpfs: the training then resumes from its checkpoint.

    bytes 0-7        magic
    bytes 64-127     control words: commit (version << 1 | slot), assignment (epoch << 2 | state), run, length of the declaration,
                     generation
    bytes 512-1023   address of the new master: 2 bytes of length, then the text
    bytes 1024-8191  the declaration in JSON
    from 8192        two slots: parameters, state arrays, counts (applied, skipped, then a clock of each rank)
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiresias.errors import TiresiasError
from tiresias.services.parameter_service.aggregator.memory_pages import free_shared, touch
from tiresias.services.parameter_service.aggregator.optimizer_kernels import Slot
from tiresias.services.parameter_service.aggregator.tensor_declaration import TensorDeclaration, declaration_of

MAGIC = b"TPTENS01"
ACTIVE, MOVED, STAGED, PREPARING = range(4)  # states of an assignment
DECLARATION_AT, MOVED_TO_AT, SLOTS_AT = 1024, 512, 8192
_COMMIT, _ASSIGNMENT, _RUN, _LENGTH, _GENERATION = range(5)
_ALIGNED = 4096


class DamagedTensorFile(TiresiasError):
    """A file that is no master copy."""


class TensorFile:
    """One mapped file.

    Attributes:
        path: The file.
        declaration: What rank 0 has declared.
        workers: The number of ranks.
    """

    def __init__(self, path: Path, declaration: TensorDeclaration, workers: int, memory: mmap.mmap) -> None:
        self.path, self.declaration, self.workers = path, declaration, workers
        self._memory = memory
        self._words: NDArray[np.uint64] = np.frombuffer(memory, np.uint64, 8, 64)
        self._slots = [self._mapped(at) for at in (0, 1)]
        self._counts = [self._mapped_counts(at) for at in (0, 1)]

    @classmethod
    def create(
        cls, path: Path, declaration: TensorDeclaration, workers: int, epoch: int, state: int, run: int
    ) -> TensorFile:
        """Create the file with zeros and version 0; it appears under its name when it is whole.

        Raises:
            OSError: No memory, no space.
        """
        temporary = path.with_name(path.name + ".new")
        size = file_bytes(declaration, workers)
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(handle, 0, size)
            memory = mmap.mmap(handle, size, flags=mmap.MAP_SHARED)
        finally:
            os.close(handle)
        touch(memory)  # its pages exist before the first push
        text = declaration.to_json().encode()
        memory[DECLARATION_AT : DECLARATION_AT + len(text)] = text
        made = cls(path, declaration, workers, memory)
        made._words[_LENGTH], made._words[_RUN] = len(text), run
        made.assign(epoch, state)
        memory[: len(MAGIC)] = MAGIC
        temporary.rename(path)
        return made

    @classmethod
    def open(cls, path: Path, workers: int) -> TensorFile:
        """Map an existing file.

        Raises:
            DamagedTensorFile: It is no master copy.
        """
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        try:
            length = int(np.frombuffer(memory, np.uint64, 8, 64)[_LENGTH])
            declaration = declaration_of(json.loads(memory[DECLARATION_AT : DECLARATION_AT + min(length, 7168)]))
            whole = memory[: len(MAGIC)] == MAGIC and len(memory) == file_bytes(declaration, workers)
        except (ValueError, TiresiasError) as error:
            raise DamagedTensorFile(f"{path}: no master copy of a tensor") from error
        if not whole:
            raise DamagedTensorFile(f"{path}: no master copy of a tensor, or one of another number of workers")
        return cls(path, declaration, workers, memory)

    def _mapped(self, at: int) -> Slot:
        count, dtype = self.declaration.elements, self.declaration.numpy_dtype
        start = SLOTS_AT + at * _slot_bytes(self.declaration, self.workers)
        arrays = [
            np.frombuffer(self._memory, dtype, count, start + number * _aligned(self.declaration.bytes))
            for number in range(1 + self.declaration.spec.arrays)
        ]
        return Slot(arrays[0], arrays[1:])

    def _mapped_counts(self, at: int) -> NDArray[np.int64]:
        start = SLOTS_AT + (at + 1) * _slot_bytes(self.declaration, self.workers) - _aligned(_count_bytes(self.workers))
        return np.frombuffer(self._memory, np.int64, 2 + self.workers, start)

    @property
    def version(self) -> int:
        """The number of updates in the current slot."""
        return int(self._words[_COMMIT]) >> 1

    @property
    def epoch(self) -> int:
        """The epoch of the assignment."""
        return int(self._words[_ASSIGNMENT]) >> 2

    @property
    def state(self) -> int:
        """ACTIVE, MOVED, STAGED or PREPARING."""
        return int(self._words[_ASSIGNMENT]) & 3

    @property
    def run(self) -> int:
        """The run of the job that last declared the tensor."""
        return int(self._words[_RUN])

    @property
    def current(self) -> Slot:
        """The committed version."""
        return self._slots[int(self._words[_COMMIT]) & 1]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Updates applied, updates skipped, and a clock of each rank, of the committed version."""
        return self._counts[int(self._words[_COMMIT]) & 1]

    @property
    def spare(self) -> Slot:
        """The slot that the next update writes."""
        return self._slots[1 - (int(self._words[_COMMIT]) & 1)]

    @property
    def current_bytes(self) -> memoryview:
        """The current slot as it lies in the file, with its counts: what a migration sends."""
        return self._slot_memory(int(self._words[_COMMIT]) & 1)

    @property
    def spare_bytes(self) -> memoryview:
        """The spare slot as it lies in the file: where a migration receives."""
        return self._slot_memory(1 - (int(self._words[_COMMIT]) & 1))

    def _slot_memory(self, at: int) -> memoryview:
        size = _slot_bytes(self.declaration, self.workers)
        return memoryview(self._memory)[SLOTS_AT + at * size : SLOTS_AT + (at + 1) * size]

    def commit_received(self, version: int) -> None:
        """Make the spare slot the current one, with the counts that were received with it."""
        self.commit(version, self._counts[1 - (int(self._words[_COMMIT]) & 1)].tolist())

    def commit(self, version: int, counts: Sequence[int]) -> None:
        """Make the spare slot the current one, by one store."""
        slot = 1 - (int(self._words[_COMMIT]) & 1)
        self._counts[slot][:] = counts
        self._words[_COMMIT] = version << 1 | slot

    def assign(self, epoch: int, state: int) -> None:
        """Change epoch and state, by one store."""
        self._words[_ASSIGNMENT] = epoch << 2 | state

    @property
    def generation(self) -> int:
        """How often that run has stored a restored state."""
        return int(self._words[_GENERATION])

    def declare_run(self, run: int, generation: int) -> None:
        """Store the run of the job that declared the tensor."""
        self._words[_RUN], self._words[_GENERATION] = run, generation

    @property
    def moved_to(self) -> str:
        """The new master's address, "" where none was stored."""
        length = int.from_bytes(self._memory[MOVED_TO_AT : MOVED_TO_AT + 2], "big")
        return self._memory[MOVED_TO_AT + 2 : MOVED_TO_AT + 2 + min(length, 500)].decode(errors="replace")

    def give_up(self, epoch: int, address: str) -> None:
        """Store the new master's address, then that the tensor has moved. From then on this process never updates it."""
        text = address.encode()[:500]
        self._memory[MOVED_TO_AT + 2 : MOVED_TO_AT + 2 + len(text)] = text
        self._memory[MOVED_TO_AT : MOVED_TO_AT + 2] = len(text).to_bytes(2, "big")
        self.assign(epoch, MOVED)

    def rename(self, path: Path) -> None:
        """Rename the file, in place of what is there."""
        self.path.rename(path)
        self.path = path

    def free_pages(self) -> None:
        """Free the memory of a removed file, while other threads run."""
        free_shared(self._memory)

    def remove(self) -> None:
        """Delete the file; the mapping remains until no buffer of it is in use."""
        self.path.unlink(missing_ok=True)


def file_bytes(declaration: TensorDeclaration, workers: int) -> int:
    """Return the size of a tensor's file."""
    return SLOTS_AT + 2 * _slot_bytes(declaration, workers)


def _slot_bytes(declaration: TensorDeclaration, workers: int) -> int:
    return (1 + declaration.spec.arrays) * _aligned(declaration.bytes) + _aligned(_count_bytes(workers))


def _count_bytes(workers: int) -> int:
    return 8 * (2 + workers)


def _aligned(count: int) -> int:
    return -(-count // _ALIGNED) * _ALIGNED


def buffers_of(slot: Slot, counts: NDArray[Any] | None = None) -> list[memoryview]:
    """Return the bytes of a slot, as they are sent."""
    arrays: list[NDArray[Any]] = [slot.parameters, *slot.state] + ([] if counts is None else [counts])
    return [array.data.cast("B") for array in arrays if array.size]
