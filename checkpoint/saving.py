"""One save by all ranks: each writes its part under a temporary name, rank 0 commits by one rename.

A rank that fails takes the whole temporary folder away. Then rank 0 misses its own part, the others miss the folder, and all of
them know that this save is over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from tiresias.checkpoint import files, manifest, shard
from tiresias.checkpoint.manifest import Content, CorruptCheckpoint, Manifest
from tiresias.checkpoint.root import Root
from tiresias.checkpoint.world import World

Wait = Callable[[Callable[[], Any], str], Any]


class Saving:
    """`wait(look, what)`: what `look` returns once that is not None; raises where it waits in vain for `what`."""

    def __init__(self, root: Root, step: int, world: World, wait: Wait) -> None:
        self._root, self._step, self._world, self._wait = root, step, world, wait
        self._final = root.path / f"step-{step}"
        self._temporary = root.path / f".step-{step}.{world.launch}"

    def run(self, state: Mapping[str, Any]) -> None:
        """Return when the whole checkpoint is committed. Raises OSError, CorruptCheckpoint or what `wait` raises."""
        try:
            self._temporary.mkdir(mode=0o700, exist_ok=True)
            shard.write(self._temporary, self._world.rank, state)
            if self._world.rank == 0:
                self._commit()
            else:
                self._wait(self._outcome, "rank 0's commit")
        except BaseException:
            files.remove_flat(self._temporary)
            raise

    def _commit(self) -> None:
        contents: dict[str, Content] = {}
        for rank in range(self._world.size):
            contents |= self._wait(lambda: self._part(rank), f"the part of rank {rank}")  # noqa: B023 (called now)
        with files.open_folder(self._temporary) as folder:
            whole = Manifest(self._step, self._world.size, time.time(), contents)
            files.write_synced(folder, manifest.NAME, manifest.encode(whole))
            os.fsync(folder)
        self._temporary.rename(self._final)
        with self._root.open() as folder:
            os.fsync(folder)

    def _part(self, rank: int) -> dict[str, Content] | None:
        try:
            own = files.is_there(self._temporary / manifest.file_name(0, "json"))
        except FileNotFoundError:
            own = False
        if not own:
            raise CorruptCheckpoint("another rank gave up (its message says why)")
        return shard.finished(self._temporary, rank)

    def _outcome(self) -> bool | None:
        names = self._root.names()
        if self._final.name in names:
            return True
        if self._temporary.name not in names:
            raise CorruptCheckpoint("another rank gave up (its message says why)")
        return None
