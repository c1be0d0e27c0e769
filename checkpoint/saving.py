"""One save by all ranks: each writes its part under a temporary name, rank 0 commits by one rename.

A rank that fails takes the whole temporary folder away, by one rename, too: rank 0 commits all of it or nothing. What it is called
then stays, empty: the others find their part gone, or that name, and detect that this save is over. The next attempt has another
name, so nothing of the failed one can interfere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tiresias.checkpoint import manifest, shard
from tiresias.checkpoint.manifest import Content, Manifest
from tiresias.checkpoint.root import Root
from tiresias.checkpoint.world import World
from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import files

_OVER = ".over"
_GAVE_UP = "another rank gave up (its log has the reason)"
Wait = Callable[[Callable[[], Any], str], Any]


class Saving:
    """One attempt of all ranks to save a step. `wait(poll, what)` returns the first result of `poll` that is not None."""

    def __init__(self, root: Root, step: int, world: World, attempt: int, wait: Wait) -> None:
        self._root, self._step, self._world, self._wait = root, step, world, wait
        self._final = root.path / f"step-{step}"
        self.temporary = root.path / f".step-{step}.{world.launch}{f'.{attempt}' if attempt else ''}"
        self._over = self.temporary.with_name(f"{self.temporary.name}{_OVER}")

    def run(self, state: Mapping[str, Any]) -> None:
        """Return when the whole checkpoint is committed. Raises OSError, CorruptCheckpoint or what `wait` raises."""
        self.temporary.mkdir(mode=0o700, exist_ok=True)
        try:
            with self._open() as folder:
                shard.write(folder, self._world.rank, state)
            if self._world.rank == 0:
                self._commit()
            else:
                self._wait(self._outcome, "rank 0's commit")
        except (FileNotFoundError, CorruptCheckpoint) as error:
            if self._is_taken_away():
                raise CorruptCheckpoint(_GAVE_UP) from error
            raise

    def give_up(self) -> None:
        """As far as the disk still lets us. What is committed by now stays."""
        with suppress(OSError):
            self.temporary.rename(self._over)
        files.remove_flat(self._over)
        if self._world.size == 1:
            files.remove_flat(self.temporary)  # where it could not be renamed
        elif not self._final.exists():
            with suppress(OSError):
                self._over.mkdir(mode=0o700, exist_ok=True)

    @property
    def names(self) -> set[str]:
        """Of the folders that are this save's."""
        return {self.temporary.name, self._over.name}

    def _commit(self) -> None:
        contents: dict[str, Content] = {}
        for rank in range(self._world.size):
            contents |= self._wait(lambda: self._part(rank), f"the part of rank {rank}")  # noqa: B023 (called now)
        with self._open() as folder:
            whole = Manifest(self._step, self._world.size, time.time(), contents)
            files.write_new(folder, manifest.NAME, manifest.encode(whole))
            os.fsync(folder)  # costs little: nothing was renamed since the file's own sync
        self.temporary.rename(self._final)
        with self._root.open() as folder:
            os.fsync(folder)

    @contextmanager
    def _open(self) -> Iterator[int]:
        """Opened again for each poll: network file systems keep showing what a folder held when it was opened."""
        with self._root.open() as root, files.open_folder(self.temporary.name, root) as folder:
            yield folder

    def _part(self, rank: int) -> dict[str, Content] | None:
        self._refuse_if_over()
        with self._open() as folder:
            return shard.finished(folder, rank)

    def _outcome(self) -> bool | None:
        if self._final.name in self._root.names():
            return True
        try:
            self._refuse_if_over()
        except CorruptCheckpoint:
            if self._final.name in self._root.names():  # renamed between the two polls
                return True
            raise
        return None

    def _is_taken_away(self) -> bool:
        """Whether the temporary folder is gone because another rank gave up: it is neither committed nor lost with all others."""
        several = self._world.size > 1 and self._root.path.exists()
        return several and not (self.temporary.exists() or self._final.exists())

    def _refuse_if_over(self) -> None:
        try:
            names = {entry.name for entry in self.temporary.iterdir()}
        except FileNotFoundError:
            names = set()
        if self._over.name in self._root.names() or manifest.file_name(self._world.rank, "json") not in names:
            raise CorruptCheckpoint(_GAVE_UP)
