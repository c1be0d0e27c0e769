"""The store: a folder of checkpoints in which readers only see whole ones.

    <root>/step-<n>/                  a committed checkpoint: manifest.json and two files a rank (shard.py)
    <root>/.step-<n>.<launch>/        one being written; a killed writer's is ignored by readers and removed by the next writer
    <root>/damaged-step-<n>/          set aside by a restore: it did not verify
    <root>/failed-step-<n>/           set aside by a restore: two resumes from it never came to their next save
    <root>/attempts.json              how often the newest checkpoint was handed out since the last save

A save writes under the second name, syncs files and folder, writes the manifest last, and renames once. Order is the step's
number, never a file's time; nothing is locked. One job (one launch of ranks) writes to a root at a time; any number may read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tiresias.checkpoint import manifest, shard
from tiresias.checkpoint import set_aside as aside
from tiresias.checkpoint.attempts import Attempts
from tiresias.checkpoint.blocks import compare
from tiresias.checkpoint.manifest import Manifest
from tiresias.checkpoint.retention import KEEP, KeepLast, RetentionPolicy, kept
from tiresias.checkpoint.root import NotYours, Root
from tiresias.checkpoint.saving import Saving
from tiresias.checkpoint.state import Checkpoint
from tiresias.checkpoint.world import World
from tiresias.errors import CorruptCheckpoint, TiresiasError, Unavailable
from tiresias.protocol import files
from tiresias.protocol.job_log import log_line

MAX_ATTEMPTS = 2  # resumes from one checkpoint without a save after them
RANK_TIMEOUT_S = 1800.0  # that one rank waits for another's part
STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})", re.ASCII)
_HIDDEN = (".step-", ".agreement-", ".damaged-", ".failed-")  # of older launches, failed saves and removals cut short


class SaveFailed(TiresiasError):
    """A checkpoint could not be written; the ones before it are as they were."""


class OtherWorldSize(TiresiasError):
    """The newest checkpoint was written by another number of ranks than there are now."""


class Store:
    """A folder of checkpoints.

    Args:
        root: The folder; the first save creates it.
        retention: Policies for older checkpoints (retention.py).
        lost: Returns a rank of this launch that is known to have ended, or None.

    Attributes:
        root: The folder.
    """

    def __init__(
        self,
        root: Path,
        retention: Iterable[RetentionPolicy] = (KeepLast(),),
        lost: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.root = Path(root)
        self._folder = Root(self.root)
        self._attempts = Attempts(self._folder)
        self._retention, self._lost = tuple(retention), lost
        self._verified: set[int] = set()
        self._trying, self._tries = -1, 0  # the newest step that was to be saved; how often before

    # reading

    def steps(self) -> list[int]:
        """Committed steps, newest first. Raises Unavailable where the folder cannot be listed."""
        return sorted((int(found[1]) for name in self._folder.names() if (found := STEP.fullmatch(name))), reverse=True)

    def set_aside(self) -> list[str]:
        """Return the names of what restores have set aside, oldest step first. Raises Unavailable."""
        return aside.names(self._folder)

    def path(self, step: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.root / f"step-{step}"

    def verify(self, step: int, hashes: bool = True) -> Manifest:
        """Compare a checkpoint with its manifest.

        Args:
            step: The checkpoint.
            hashes: Also compare the hash of every byte, not the sizes alone.

        Raises:
            CorruptCheckpoint: It differs.
            Unavailable: It cannot be read now.
        """
        with self._open(step) as folder:
            return _verify(folder, step, hashes)

    def load(self, step: int, rank: int = 0) -> Checkpoint:
        """Return the checkpoint of `step` for `rank`. Rank 0 verifies every byte, other ranks what they read.

        Raises:
            CorruptCheckpoint: It differs from its manifest.
            Unavailable: It cannot be read now.
        """
        with self._open(step) as folder:
            found = _verify(folder, step, hashes=not rank, apart=("rank-0.bin", "rank-0.json"))
            parts = sorted({0, rank} & set(range(found.world_size)))  # the own part comes last and wins
            return Checkpoint(self.path(step), found, {part: shard.read(folder, part, found.files) for part in parts})

    def restore(self, rank: int = 0, world_size: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint that verifies and has not failed twice, None without one. Others are set aside.

        It counts the attempt before it returns.

        Args:
            rank: The rank that restores.
            world_size: The number of ranks that must have written it; None: any.

        Raises:
            OtherWorldSize: Another number of ranks wrote it.
            Unavailable: The disk cannot be read now.
            NotYours: The folder belongs to another user.
        """
        if not self._is_mine():
            return None
        for step in self.steps():
            if self._attempts.of(step) >= MAX_ATTEMPTS:
                aside.set_aside(
                    self._folder, step, aside.FAILED, f"{MAX_ATTEMPTS} resumes from it never came to their next save"
                )
                continue
            try:
                found = self.load(step, rank)
            except CorruptCheckpoint as error:
                aside.set_aside(self._folder, step, aside.DAMAGED, str(error))
                continue
            if world_size not in (None, found.world_size):
                raise OtherWorldSize(
                    f"{found.path}: written by {found.world_size} ranks, now there are {world_size}: start as many again, or use "
                    "an adapter that can spread it over another number (restore(reshard=True))"
                )
            self._attempts.add(step)
            return found
        return None

    def confirm_restore(self) -> None:
        """Forget the attempt that `restore` counted: the program runs, or was refused for another reason than the checkpoint."""
        self._attempts.clear()

    # writing

    def save(self, step: int, state: Mapping[str, Any], world: World = World()) -> Path:  # noqa: B008 (immutable)
        """Commit `state` as `step`; every rank of `world` calls it with the same step, and returns when all parts are committed.

        A step is written once: a committed one stays as it is.

        Args:
            step: Number of the step, from 0.
            state: Values by name: bytes-like objects (written without a copy), iterators of these, or JSON.
            world: This rank and the number of ranks.

        Returns:
            The folder of the checkpoint.

        Raises:
            SaveFailed: It could not be written; older checkpoints are untouched.
            TypeError: A value is none of these.
        """
        if not 0 <= step <= manifest.MAX_STEP:
            raise SaveFailed(f"step {step}: a step is a whole number from 0 to {manifest.MAX_STEP}")
        self._tries = self._tries + 1 if step == self._trying else 0
        self._trying = step
        saving = Saving(self._folder, step, world, self._tries, self.wait)
        try:
            self._write(saving, step, state, world)
        except BaseException:
            saving.give_up()
            raise
        if world.rank == 0:
            self._after_commit()
        return self.path(step)

    def _write(self, saving: Saving, step: int, state: Mapping[str, Any], world: World) -> None:
        try:
            self._folder.make()
            if not self._committed(step):
                if world.rank == 0:
                    self._prepare(step, world, saving.names)
                saving.run(state)
        except (OSError, CorruptCheckpoint, Unavailable, NotYours) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SaveFailed(
                f"checkpoint of step {step} in {self.root}: {reason}; the ones before it are untouched"
            ) from error

    def prunable(self) -> list[Path]:
        """What `prune` would remove. Raises Unavailable."""
        steps = self.steps()
        stay = kept(self._retention, steps, self._verifies)
        extra = [self.path(step) for step in steps if step not in stay]
        return extra + [self.root / name for name in self.set_aside()[:-KEEP]]

    def prune(self) -> list[Path]:
        """Remove the committed checkpoints that no policy keeps, and all but the newest KEEP set aside; what was removed."""
        found = self.prunable()
        for path in found:
            hidden = self.root / f".{path.name}.old"
            with suppress(OSError):
                path.rename(hidden)  # at once: no reader sees half of it
                files.remove_flat(hidden)
        return found

    def wait(self, poll: Callable[[], Any], what: str) -> Any:
        """Return the first result of `poll` that is not None. Raises SaveFailed after RANK_TIMEOUT_S, or when a rank has ended."""
        deadline, pause = time.monotonic() + RANK_TIMEOUT_S, 0.001
        while (found := poll()) is None:
            lost = self._lost() if pause >= 0.05 else None
            if lost is not None and poll() is None:
                raise SaveFailed(f"{self.root}: waited for {what}, but rank {lost} has ended")
            if time.monotonic() > deadline:
                raise SaveFailed(f"{self.root}: waited {RANK_TIMEOUT_S:g} s for {what}")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return found

    def _prepare(self, step: int, world: World, own: set[str]) -> None:
        newer = [other for other in self.steps() if other > step]
        if newer:
            raise CorruptCheckpoint(
                f"it holds step {newer[0]}, newer than {step}: call restore() first, or save into another folder"
            )
        if step in self.steps():
            aside.set_aside(self._folder, step, aside.DAMAGED, "it does not verify", must=True)
        for name in self._folder.names():
            if name.startswith(_HIDDEN) and name not in own | {f".agreement-.{world.launch}"}:
                files.remove_flat(self.root / name)

    def _after_commit(self) -> None:
        self._attempts.clear()
        with suppress(Unavailable):
            self.prune()

    # parts

    def _is_mine(self) -> bool:
        """False: the folder was never made. Raises NotYours, Unavailable."""
        try:
            with self._folder.open():
                return True
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._folder.unavailable(error) from None

    @contextmanager
    def _open(self, step: int) -> Iterator[int]:
        """A checkpoint's folder; errors in words that name it."""
        try:
            with files.open_folder(self.root.resolve()) as root, files.open_folder(f"step-{step}", root) as folder:
                yield folder
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(f"{self.path(step)}: {error}") from None
        except OSError as error:
            raise self._folder.unavailable(error) from None

    def _committed(self, step: int) -> bool:
        try:
            return step in self.steps() and bool(self.verify(step, hashes=False).files)
        except CorruptCheckpoint:
            return False

    def _verifies(self, step: int) -> bool:
        """As `verify`, each step once."""
        if step not in self._verified:
            try:
                self.verify(step)
            except TiresiasError as error:
                log_line(f"{error}; older ones stay for now")
                return False
            self._verified.add(step)
        return True


def _verify(folder: int, step: int, hashes: bool, apart: Collection[str] = ()) -> Manifest:
    """Sizes of all files, and with `hashes` their bytes, but for the files `apart`. Raises CorruptCheckpoint, OSError."""
    found = manifest.parse(files.read_small(folder, manifest.NAME, manifest.MAX_BYTES))
    if found.step != step:
        raise CorruptCheckpoint(f"{manifest.NAME}: contains step {found.step}")
    for name, content in found.files.items():
        compare(folder, name, content, hashes and name not in apart)
    return found
