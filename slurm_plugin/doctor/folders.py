"""The folders of the configuration: who may write there, and whether the file system keeps its word."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from tiresias.slurm_plugin.config import Paths
from tiresias.slurm_plugin.doctor.finding import Finding, Level, fine

_OF_ONE_HOST = ("tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "zfs")
_CLOCKS_APART = 5.0  # seconds


def findings(paths: Paths, several_hosts: bool) -> Iterator[Finding]:
    """several_hosts: the nodes are other machines than this one."""
    yield _own(paths.state, "the journal")
    yield _own(paths.run, "sockets and lease")
    for folder, what in ((paths.control, "control folders"), (paths.checkpoints, "checkpoints")):
        found = list(_of_users(folder, what, several_hosts))
        yield from found or [fine(what, f"{folder}: for all users, and renames are whole")]


def _own(folder: Path, what: str) -> Finding:
    """Made by the controller where its parent can be written."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        remedy = f"install -d -o {_name()} {folder}, or StateDirectory= and RuntimeDirectory= of the unit"
        return Finding(Level.BLOCKS, what, f"{folder}: not writable for {_name()}", remedy)
    if folder.exists() and folder.stat().st_mode & stat.S_IWOTH:
        return Finding(Level.BLOCKS, what, f"{folder}: anyone may write there", f"chmod o-w {folder}")
    return fine(what, f"{folder}")


def _of_users(folder: Path, what: str, several_hosts: bool) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding(
            Level.BLOCKS, what, f"{folder}: is no folder", f"install -d -m 1777 {folder} on the shared file system"
        )
        return
    if folder.stat().st_mode & 0o1777 != 0o1777:
        yield Finding(
            Level.BLOCKS,
            what,
            f"{folder}: not every user may make a folder of his own, or may remove others'",
            f"chmod 1777 {folder}",
        )
    kind = file_system(folder)
    if several_hosts and kind in _OF_ONE_HOST:
        yield Finding(
            Level.BLOCKS,
            what,
            f"{folder}: {kind} is of one host; jobs write on others",
            "a folder that all nodes share",
        )
    if os.access(folder, os.W_OK):
        yield from _semantics(folder, what)


def file_system(folder: Path) -> str:
    """Its kind, as /proc/self/mountinfo names it; "" where that cannot be read."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    mounts = [(line.split()[4], line.partition(" - ")[2].split()[0]) for line in lines]
    above = {str(folder.resolve()), *map(str, folder.resolve().parents)}
    return max(((len(point), kind) for point, kind in mounts if point in above), default=(0, ""))[1]


def _semantics(folder: Path, what: str) -> Iterator[Finding]:
    """What commits of checkpoints and acknowledgements rely on."""
    place = folder / f".doctor-{secrets.token_hex(8)}"
    try:
        place.mkdir(mode=0o700)
        yield from _rename(place, what)
    except OSError as error:
        yield Finding(Level.BLOCKS, what, f"{folder}: {error.strerror} while a file was made, written through and renamed",
                      "free space and quota; mount options; another file system")  # fmt: skip
    finally:
        for each in place.glob("*"):
            each.unlink()
        if place.exists():
            place.rmdir()


def _rename(place: Path, what: str) -> Iterator[Finding]:
    old, new = place / "old", place / "new"
    for path, text in ((old, "old"), (new, "new")):
        with path.open("x") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    made = new.stat().st_mtime
    apart = abs(time.time() - made)
    new.replace(old)
    if old.read_text() != "new" or new.exists():
        yield Finding(Level.BLOCKS, what, f"{place.parent}: a rename over a file is not whole", "a POSIX file system")
    if apart > _CLOCKS_APART:
        yield Finding(
            Level.ADVICE,
            "clock",
            f"the file server of {place.parent} is {apart:.0f} s apart from this host",
            "NTP or PTP on both",
        )


def _name() -> str:
    return "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
