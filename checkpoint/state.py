"""The result of a restore: a verified checkpoint with the names and values of one rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiresias.checkpoint import shard
from tiresias.checkpoint.manifest import Manifest
from tiresias.errors import CorruptCheckpoint, Unavailable
from tiresias.protocol import files


class SavedState(Mapping[str, Any]):
    """The values of one rank by name, bytes or JSON; a name in several shards is the last one's."""

    def __init__(self, shards: Sequence[shard.Shard]) -> None:
        self._homes = {name: part for part in shards for home in (part.buffers, part.values) for name in home}

    def __getitem__(self, name: str) -> Any:
        home = self._homes[name]
        return home.values[name] if name in home.values else bytes(self.view(name))

    def view(self, name: str) -> memoryview:
        """A buffer's bytes without a copy, read-only; valid also after the checkpoint is gone."""
        return self._homes[name].buffers[name].toreadonly()

    def own(self, name: str) -> memoryview:
        """As `view`, for the only user of this state, which may write to them; read-only where they are mapped (own_memory.py)."""
        return self._homes[name].buffers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


class Shards(Sequence[SavedState]):
    """The state of each rank that saved, for a program that spreads it over another number of ranks.

    A shard is read and verified when it is first asked for. Raises CorruptCheckpoint or Unavailable.
    """

    def __init__(self, path: Path, found: Manifest, parts: Mapping[int, shard.Shard]) -> None:
        self._path, self._manifest = path, found
        self._read = {rank: SavedState([part]) for rank, part in parts.items()}

    def __len__(self) -> int:
        return self._manifest.world_size

    def __getitem__(self, rank: Any) -> Any:
        if isinstance(rank, slice):
            return [self[number] for number in range(*rank.indices(len(self)))]
        number = range(len(self))[rank]  # raises IndexError as a list does
        if number not in self._read:
            self._read[number] = self._open(number)
        return self._read[number]

    def _open(self, rank: int) -> SavedState:
        try:
            with files.open_folder(self._path) as folder:
                return SavedState([shard.read(folder, rank, self._manifest.files)])
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(f"{self._path}: {error}") from None
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror or error}; check the disk and start again") from None


class Checkpoint:
    """A verified checkpoint as one rank sees it.

    Attributes:
        path: Its folder.
        step: The training step.
        world_size: Number of ranks that wrote it.
        time: Epoch seconds of its commit.
        state: This rank's own names and, for names that it did not save, those of rank 0.
        shards: The state of each rank that wrote it.
    """

    def __init__(self, path: Path, found: Manifest, parts: Mapping[int, shard.Shard]) -> None:
        """`parts` in this order: of equal names, the last one counts."""
        self.path, self.step, self.world_size, self.time = path, found.step, found.world_size, found.time
        self.state, self.shards = SavedState([*parts.values()]), Shards(path, found, parts)
