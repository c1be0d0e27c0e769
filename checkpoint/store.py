"""The store: a folder of checkpoints of which readers only ever see whole ones.

    <root>/step-<n>/                  a committed checkpoint: manifest.json and two files a rank (shard.py)
    <root>/.step-<n>.<launch>/        one being written; a killed writer's is ignored by readers and removed by the next writer
    <root>/damaged-step-<n>/          set aside by a restore: it did not verify
    <root>/failed-step-<n>/           set aside by a restore: two resumes from it never came to their next save
    <root>/attempts.json              how often the newest checkpoint was handed out since the last save

A save writes under the second name, syncs files and folder, writes the manifest last, and renames once. Order is the step's
number, never a file's time; nothing is locked. One job (one launch of ranks) writes to a root at a time; any number may read.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tiresias.checkpoint import files, manifest, shard
from tiresias.checkpoint.blocks import tree_hash
from tiresias.checkpoint.manifest import Content, CorruptCheckpoint, Manifest
from tiresias.checkpoint.notes import say
from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError, Unavailable

KEEP = 2  # committed checkpoints that stay; also the least
MAX_ATTEMPTS = 2  # resumes from one checkpoint without a save after them
PATIENCE = 1800.0  # seconds that one rank waits for another's part
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})", re.ASCII)
_ASIDE = re.compile(r"(?:damaged|failed)-step-([0-9]{1,18})(?:\.[0-9]+)?", re.ASCII)
_ATTEMPTS = "attempts.json"


class SaveFailed(TiresiasError):
    """A checkpoint could not be written; the ones before it are as they were."""


class State(Mapping[str, Any]):
    """What one rank gets back: `state[name]` is bytes or the JSON value; names it did not save itself are those of rank 0."""

    def __init__(self, shards: list[shard.Shard]) -> None:
        self._homes = {
            name: part for part in shards for home in (part.entries, part.values) for name in home
        }  # the own part comes last and wins

    def __getitem__(self, name: str) -> Any:
        home = self._homes[name]
        return home.values[name] if name in home.values else bytes(self.view(name))

    def view(self, name: str) -> memoryview:
        """A buffer's bytes without a copy, read from disk as they are touched; valid also after the checkpoint is gone."""
        home = self._homes[name]
        offset, size = home.entries[name]
        return home.data[offset : offset + size]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


class Checkpoint:
    """A verified checkpoint as one rank sees it. world_size: ranks that wrote it; time: epoch seconds of its commit."""

    def __init__(self, path: Path, found: Manifest, state: State) -> None:
        self.path, self.step, self.world_size, self.time, self.state = (
            path,
            found.step,
            found.world_size,
            found.time,
            state,
        )


class Store:
    def __init__(self, root: Path, keep: int = KEEP) -> None:
        self.root = Path(root)
        self.keep = max(KEEP, keep)

    # reading

    def steps(self) -> list[int]:
        """Committed steps, newest first. Raises Unavailable where the folder cannot be listed."""
        return sorted((int(found[1]) for name in self._names() if (found := _STEP.fullmatch(name))), reverse=True)

    def path(self, step: int) -> Path:
        return self.root / f"step-{step}"

    def verify(self, step: int, hashes: bool = True) -> Manifest:
        """Compare a checkpoint with its manifest: sizes, and `hashes` of every byte. Raises CorruptCheckpoint, Unavailable."""
        with self._telling(step):
            return self._verify(step, None if hashes else set())

    def load(self, step: int, rank: int = 0) -> Checkpoint:
        """A checkpoint for `rank`. Rank 0 verifies every byte, others what they read. Raises CorruptCheckpoint, Unavailable."""
        with self._telling(step):
            read = {manifest.file_name(part, kind) for part in (0, rank) for kind in ("bin", "json")}
            found = self._verify(step, read if rank else None)
            with files.open_folder(self.path(step)) as folder:
                parts = sorted({0, rank} & set(range(found.world_size)))
                return Checkpoint(self.path(step), found, State([shard.read(folder, part) for part in parts]))

    def restore(self, rank: int = 0) -> Checkpoint | None:
        """The newest checkpoint that verifies and has not failed twice; others are set aside. None: there is none.

        Counts the attempt before it returns. Raises Unavailable where the disk cannot be asked: never starts from nothing for that.
        """
        for step in self.steps():
            if self._attempts(step) >= MAX_ATTEMPTS:
                self._set_aside(step, "failed", f"{MAX_ATTEMPTS} resumes from it never came to their next save")
                continue
            try:
                found = self.load(step, rank)
            except CorruptCheckpoint as error:
                self._set_aside(step, "damaged", str(error))
                continue
            self._count_attempt(step)
            return found
        return None

    # writing

    def save(self, step: int, state: Mapping[str, Any], world: World = World()) -> Path:  # noqa: B008 (immutable)
        """Commit `state` as `step`; every rank of `world` calls it with the same step, and returns when all parts are committed.

        A step is written once: one that is committed already is left as it is. Values: bytes-like objects (written without a copy),
        iterators of bytes-like objects, or JSON. Raises SaveFailed, or TypeError for a value that is none of these.
        """
        if not 0 <= step <= manifest.MAX_STEP:
            raise SaveFailed(f"step {step}: a step is a whole number from 0 to {manifest.MAX_STEP}")
        try:
            if not self._committed(step):
                self._write(step, state, world)
        except (OSError, CorruptCheckpoint) as error:
            if world.rank == 0:
                files.remove_flat(self._temporary(step, world))
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SaveFailed(
                f"checkpoint of step {step} in {self.root}: {reason}; the ones before it are untouched"
            ) from error
        if world.rank == 0:
            self._after_commit()
        return self.path(step)

    def prune(self) -> list[Path]:
        """Remove all but the newest `keep` committed checkpoints and the newest `keep` set aside; what was removed."""
        extra = [self.path(step) for step in self.steps()[self.keep :]]
        aside = sorted((int(found[1]), name) for name in self._names() if (found := _ASIDE.fullmatch(name)))
        for path in extra:
            hidden = self.root / f".{path.name}.old"
            with suppress(OSError):
                path.rename(hidden)  # at once: no reader sees half of it
                files.remove_flat(hidden)
        removed = [self.root / name for _, name in aside[: -self.keep]]
        for path in removed:
            files.remove_flat(path)
        return extra + removed

    def _write(self, step: int, state: Mapping[str, Any], world: World) -> None:
        temporary = self._temporary(step, world)
        if world.rank == 0:
            self._prepare(step, world)
        self.root.mkdir(parents=True, exist_ok=True)
        temporary.mkdir(mode=0o700, exist_ok=True)
        shard.write(temporary, world.rank, state)
        if world.rank == 0:
            self._commit(step, world)
        else:
            self.wait(lambda: step in self.steps() or not temporary.exists() or None, "rank 0's commit")
            if step not in self.steps():
                raise SaveFailed(f"checkpoint of step {step} in {self.root}: rank 0 gave up (its message says why)")

    def _prepare(self, step: int, world: World) -> None:
        newer = [other for other in self.steps() if other > step]
        if newer:
            raise SaveFailed(
                f"{self.root} holds step {newer[0]}, newer than {step}: call restore() first, or save into another folder"
            )
        if step in self.steps():
            self._set_aside(step, "damaged", "it does not verify")
        for name in self._names():
            if name.startswith((".step-", ".agreement-")) and not name.endswith(f".{world.launch}"):
                files.remove_flat(self.root / name)

    def _commit(self, step: int, world: World) -> None:
        temporary = self._temporary(step, world)
        contents: dict[str, Content] = {}
        with files.open_folder(temporary) as folder:
            for rank in range(world.size):
                contents |= self.wait(lambda: shard.finished(folder, rank), f"the part of rank {rank}")  # noqa: B023 (called now)
            whole = Manifest(step, world.size, time.time(), contents)
            shard.write_synced(folder, manifest.NAME, manifest.encode(whole))
            os.fsync(folder)
        temporary.rename(self.path(step))
        files.sync_folder(self.root)

    def wait(self, look: Callable[[], Any], what: str) -> Any:
        """What `look` returns once that is not None. Raises SaveFailed after PATIENCE seconds."""
        deadline, pause = time.monotonic() + PATIENCE, 0.001
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise SaveFailed(f"{self.root}: waited {PATIENCE:g} s for {what}")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return found

    def _after_commit(self) -> None:
        with suppress(OSError):
            (self.root / _ATTEMPTS).unlink()
        with suppress(Unavailable):
            self.prune()

    # parts

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.root.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unavailable(error) from None

    def _temporary(self, step: int, world: World) -> Path:
        return self.root / f".step-{step}.{world.launch}"

    def _committed(self, step: int) -> bool:
        try:
            return step in self.steps() and bool(self._verify(step, set()).files)
        except CorruptCheckpoint:
            return False

    @contextmanager
    def _telling(self, step: int) -> Iterator[None]:
        """Errors in words that name the folder."""
        try:
            yield
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(f"{self.path(step)}: {error}") from None
        except OSError as error:
            raise self._unavailable(error) from None

    def _verify(self, step: int, hashed: set[str] | None) -> Manifest:
        """Sizes of all files, hashes of those in `hashed`; None: of all."""
        with files.open_folder(self.path(step)) as folder:
            found = manifest.parse(files.read_small(folder, manifest.NAME, manifest.MAX_BYTES))
            if found.step != step:
                raise CorruptCheckpoint(f"{manifest.NAME}: speaks of step {found.step}")
            for name, content in found.files.items():
                _compare(folder, name, content, hashed is None or name in hashed)
        return found

    def _set_aside(self, step: int, kind: str, why: str) -> None:
        target = self.root / f"{kind}-step-{step}"
        number = 0
        while target.exists():
            number += 1
            target = self.root / f"{kind}-step-{step}.{number}"
        try:
            self.path(step).rename(target)
        except OSError as error:
            raise self._unavailable(error) from None
        say(f"checkpoint of step {step} is set aside as {target.name}: {why}")

    def _attempts(self, step: int) -> int:
        try:
            with files.open_folder(self.root) as folder:
                noted = manifest.parse_object(files.read_small(folder, _ATTEMPTS, 4096), _ATTEMPTS)
            return manifest.whole(noted, "count", 10**6) if noted.get("step") == step else 0
        except (CorruptCheckpoint, OSError):
            return 0

    def _count_attempt(self, step: int) -> None:
        text = f'{{"step": {step}, "count": {self._attempts(step) + 1}}}'
        try:
            with files.open_folder(self.root) as folder:
                shard.write_synced(folder, _ATTEMPTS, text.encode())
                os.fsync(folder)
        except OSError as error:
            say(f"{self.root}: resume from step {step} could not be noted: {error.strerror}")

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"checkpoints in {self.root}: {error.strerror or error}; look at the disk and start again")


def _compare(folder: int, name: str, content: Content, hashes: bool) -> None:
    with files.open_regular(folder, name) as file:
        size = os.fstat(file).st_size
        if size != content.size:
            raise CorruptCheckpoint(f"{name}: {size} bytes, {content.size} were written")
        if hashes and tree_hash(file, size) != content.digest:
            raise CorruptCheckpoint(f"{name}: its hash is not the one that was written")
