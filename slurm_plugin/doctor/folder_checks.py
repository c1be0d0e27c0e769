"""Checks of the configured folders: write access, and the file system's guarantees."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.config import Paths

_LOCAL_FILE_SYSTEMS = ("tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "zfs")
_MAX_CLOCK_DIFFERENCE_S = 5.0
_MAX_NAMES = 5  # in a finding


def findings(paths: Paths, several_hosts: bool) -> Iterator[Finding]:
    """Yield the findings; several_hosts: whether nodes are other machines than this one."""
    yield _own(paths.state, "the journal")
    yield _own(paths.run, "sockets and lease")
    for folder, what, closed in (
        (paths.control, "control folders", _made_for_users),
        (paths.checkpoints, "checkpoints", _own_roots),
    ):
        found = list(_of_users(folder, what, several_hosts, closed))
        yield from found or [fine(what, f"{folder}: writable for all users, renames are atomic")]


def _own(folder: Path, what: str) -> Finding:
    """Check a folder of the controller, which creates it where the parent is writable."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        remedy = f"install -d -o {_name()} {folder}, or StateDirectory= and RuntimeDirectory= of the unit"
        return Finding(Level.BLOCKS, what, f"{folder}: not writable for {_name()}", remedy)
    if folder.exists() and folder.stat().st_mode & stat.S_IWOTH:
        return Finding(Level.BLOCKS, what, f"{folder}: anyone may write there", f"chmod o-w {folder}")
    return fine(what, f"{folder}")


def _of_users(
    folder: Path, what: str, several_hosts: bool, closed: Callable[[Path, str], Iterator[Finding]]
) -> Iterator[Finding]:
    """Check a root of users' folders; closed: checks one in which users may not create folders."""
    if not folder.is_dir():
        yield Finding(
            Level.BLOCKS, what, f"{folder}: not a folder", f"install -d -m 1777 {folder} on the shared file system"
        )
        return
    mode = folder.stat().st_mode
    if not mode & stat.S_IWOTH:
        yield from closed(folder, what)
    elif not mode & stat.S_ISVTX:
        yield Finding(Level.BLOCKS, what, f"{folder}: users may remove one another's folders", f"chmod 1777 {folder}")
    kind = file_system(folder)
    if several_hosts and kind in _LOCAL_FILE_SYSTEMS:
        yield Finding(
            Level.BLOCKS,
            what,
            f"{folder}: {kind} exists on one host only; jobs run on other hosts",
            "a folder on a shared file system",
        )
    if os.access(folder, os.W_OK):
        yield from _semantics(folder, what)


def _made_for_users(folder: Path, what: str) -> Iterator[Finding]:
    """Check a control root in which the site creates the folders (docs/explanation/security.md), named by uid."""
    users = [each for each in folder.iterdir() if each.name.isdecimal()]
    foreign = [each.name for each in users if each.stat().st_uid != int(each.name)]
    closed = [each.name for each in users if not os.access(each, os.R_OK | os.X_OK)]
    if not users:
        yield Finding(
            Level.BLOCKS,
            what,
            f"{folder}: users cannot create folders there, and the site created none",
            f"chmod 1777 {folder}, or a folder for each user (docs/explanation/security.md)",
        )
    if foreign:
        yield Finding(
            Level.BLOCKS,
            what,
            f"{folder}: folders not owned by the user in their name: {_some(foreign)}",
            "chown each to its user: jobs with a folder of another owner are not preempted",
        )
    if closed:
        yield Finding(
            Level.BLOCKS,
            what,
            f"{folder}: folders not readable for {_name()} and its groups: {_some(closed)}",
            "chgrp them to a group of SupplementaryGroups= in the unit, mode 750",
        )
    if users and not foreign and not closed:
        yield fine(what, f"{folder}: {len(users)} users' folders, created by the site")


def _own_roots(folder: Path, what: str) -> Iterator[Finding]:
    yield Finding(
        Level.RISK,
        what,
        f"{folder}: users cannot create folders there; correct only where each user has a separate root",
        f"TIRESIAS_CHECKPOINT_ROOT for each user, or chmod 1777 {folder}",
    )


def _some(names: list[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def file_system(folder: Path) -> str:
    """Return the type of the file system in /proc/self/mountinfo, "" if it cannot be read."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    mounts = [(line.split()[4], line.partition(" - ")[2].split()[0]) for line in lines]
    above = {str(folder.resolve()), *map(str, folder.resolve().parents)}
    return max(((len(point), kind) for point, kind in mounts if point in above), default=(0, ""))[1]


def _semantics(folder: Path, what: str) -> Iterator[Finding]:
    """Check the guarantees that commits of checkpoints and acknowledgements need."""
    place = folder / f".doctor-{secrets.token_hex(8)}"
    try:
        place.mkdir(mode=0o700)
        yield from _rename(place, what)
    except OSError as error:
        yield Finding(
            Level.BLOCKS,
            what,
            f"{folder}: {error.strerror} while a file was created, synchronised and renamed",
            "free space and quota; mount options; another file system",
        )
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
        yield Finding(Level.BLOCKS, what, f"{place.parent}: a rename over a file is not atomic", "a POSIX file system")
    if apart > _MAX_CLOCK_DIFFERENCE_S:
        yield Finding(
            Level.ADVICE,
            "clock",
            f"the clock of {place.parent}'s file server differs by {apart:.0f} s from this host's",
            "NTP or PTP on both",
        )


def _name() -> str:
    return "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
