"""The checkpoint folder of one job as it is on disk, and its removal.

Its owner may change anything in it meanwhile: each access is relative to an open folder and follows no link.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from tiresias.checkpoint.store import STEP
from tiresias.protocol.files import open_folder

NAME = re.compile(
    r"(?P<job>[1-9][0-9]{0,9}(?:_[0-9]{1,10}|\+[0-9]{1,4})?)(?:-(?P<user>[0-9]{1,10}))?(?P<aside>\.[0-9]{1,6})?",
    re.ASCII,
)
_FOLDER = re.compile(
    r"\.?(?:damaged-|failed-)?step-[0-9]{1,18}(?:\.[\w.-]{1,200})?|\.agreement-[\w.-]{1,200}", re.ASCII
)
_FILE = re.compile(r"\.?(?:attempts|submission)\.json", re.ASCII)
_IN_STEP = re.compile(r"\.?(?:rank-[0-9]{1,7}\.(?:bin|json)|manifest\.json)", re.ASCII)


class JobFolder(NamedTuple):
    """What a job has left.

    Attributes:
        name: In the root; "12_3" is of an array task, "12-1001" of user 1001, "12.1" was set aside by a later job 12.
        owner: The user's id.
        changed: Epoch seconds of the last change of the folder or of one in it.
        sizes: Bytes of each entry, by its name.
        strange: The first entry that no checkpoint has, "" without one.
    """

    name: str
    owner: int
    changed: float
    sizes: dict[str, int]
    strange: str

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(self.sizes.values())

    @property
    def steps(self) -> list[int]:
        """The committed steps, newest first."""
        return sorted((int(found[1]) for entry in self.sizes if (found := STEP.fullmatch(entry))), reverse=True)


def survey(root: int, name: str) -> JobFolder:
    """Return what is in the folder of a job in an open root. Raises CorruptCheckpoint (it is none), OSError."""
    with open_folder(name, root, of_anyone=True) as folder:
        found = os.fstat(folder)
        sizes, strange, changed = {}, "", found.st_mtime
        for entry in sorted(_names(folder)):
            size, moment, odd = _entry(folder, entry)
            sizes[entry], changed, strange = size, max(changed, moment), strange or odd
        return JobFolder(name, found.st_uid, changed, sizes, strange)


def _entry(folder: int, name: str) -> tuple[int, float, str]:
    """Return bytes, time of the last change, and the name where no checkpoint has such an entry."""
    found = os.lstat(name, dir_fd=folder)
    if stat.S_ISREG(found.st_mode):
        return found.st_size, found.st_mtime, "" if _FILE.fullmatch(name) else name
    if not (stat.S_ISDIR(found.st_mode) and _FOLDER.fullmatch(name)):
        return 0, found.st_mtime, name
    with open_folder(name, folder) as inner:
        entries = [(each, os.lstat(each, dir_fd=inner)) for each in _names(inner)]
    return sum(each.st_size for _, each in entries), found.st_mtime, _strange_in(name, entries)


def _strange_in(folder: str, entries: list[tuple[str, os.stat_result]]) -> str:
    inside = None if folder.startswith(".agreement-") else _IN_STEP  # the ranks' own files
    odd = (
        name for name, found in entries if not stat.S_ISREG(found.st_mode) or (inside and not inside.fullmatch(name))
    )
    return next((f"{folder}/{name}" for name in odd), "")


def remove(root: int, job: JobFolder, names: list[str]) -> None:
    """Remove entries of a job's folder, and the folder where nothing is left. Raises CorruptCheckpoint, OSError."""
    with open_folder(job.name, root, of_anyone=True) as folder:
        for name in names:
            _remove_entry(folder, name)
        if _names(folder):
            return
    os.rmdir(job.name, dir_fd=root)


def _remove_entry(folder: int, name: str) -> None:
    if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        os.unlink(name, dir_fd=folder)
        return
    hidden = name if name.startswith(".") else f".{name}.old"
    if hidden != name:
        os.rename(name, hidden, src_dir_fd=folder, dst_dir_fd=folder)  # at once: no reader sees half of it
    with open_folder(hidden, folder) as inner:
        for entry in _names(inner):
            os.unlink(entry, dir_fd=inner)
    os.rmdir(hidden, dir_fd=folder)


def _names(folder: int) -> list[str]:
    return os.listdir(folder)
