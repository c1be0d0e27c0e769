"""Folders that are either complete or absent: built under a temporary name by one process at a time, then renamed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tiresias.sandbox.host import remove_tree

MARK = ".unfinished"
SCRATCH = ".scratch"  # before MARK: the temporary files of a build


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock on a file; the kernel releases it when the holder ends. Yields False if it is taken and `wait` is not
    set.

    The file stays: removing it would give later holders different locks.
    """
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def build_once(final: Path, build: Callable[[Path], None]) -> None:
    """Call `build(unfinished)` unless `final` exists, and rename the result. Errors of `build` are passed on."""
    final.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(_lock(final)):
        if final.is_dir():
            return
        remove_leftovers(final.parent, own=final)
        unfinished = final.with_name(f"{final.name}{MARK}")
        try:
            build(unfinished)
            os.sync()
            unfinished.rename(final)
        finally:
            remove_tree(unfinished)
            remove_tree(scratch_of(unfinished))


def scratch_of(unfinished: Path) -> Path:
    """Return the folder for the temporary files of a build, which is removed with the unfinished result. The build makes it."""
    return unfinished.with_name(f"{unfinished.name.removesuffix(MARK)}{SCRATCH}{MARK}")


def remove_leftovers(folder: Path, *, own: Path | None = None) -> None:
    """Remove the folders of killed builds; a build in progress, on this host or another, holds its lock."""
    for leftover in folder.glob(f"*{MARK}"):
        final = leftover.with_name(leftover.name.removesuffix(MARK).removesuffix(SCRATCH))
        if final == own:
            remove_tree(leftover)
            continue
        with exclusive(_lock(final), wait=False) as held:
            if held:
                remove_tree(leftover)


def _lock(final: Path) -> Path:
    return final.with_name(f".{final.name}.lock")
