"""Versions of the protocol of the control folder: those that each side speaks, and the one that two sides use.

A job's training program, its supervisor and the controller come from up to three installations. Each states the oldest and the
newest version that it speaks, as "protocol": [oldest, newest], in the files that it writes (control.py). Two sides use the newest
version that both speak. Where there is none, the job runs without preemption: its program and its supervisor then write only
"restart" and "protocol", which have their place and meaning in all versions.

1   no version is stated; a file without "protocol" is of this version
2   every side states its versions; the controller does so in <control root>/controller/protocol.json
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import CorruptCheckpoint
from tiresias.protocol.files import open_folder, read_small

KEY = "protocol"
LARGEST = 1000
SYSTEM_ACCOUNTS = 1000  # user ids below this one are not of people


class Versions(NamedTuple):
    """The oldest and the newest version of the protocol that a program supports."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest}" if self.oldest == self.newest else f"{self.oldest} to {self.newest}"


OWN = Versions(1, 2)
UNSTATED = Versions(1, 1)


def stated(content: Mapping[str, object]) -> Versions:
    """The versions that the writer of a file speaks."""
    found = content.get(KEY)
    if not isinstance(found, list) or len(found) != 2 or not all(type(one) is int for one in found):
        return UNSTATED
    return Versions(*found) if 0 < found[0] <= found[1] <= LARGEST else UNSTATED


def common(one: Versions, other: Versions) -> int:
    """The newest version that both speak; 0: there is none."""
    newest = min(one.newest, other.newest)
    return newest if newest >= max(one.oldest, other.oldest) else 0


def refusal(other: str, stated_versions: Versions, reader: str, own: Versions = OWN) -> str:
    """Why `reader` cannot use what `other` writes, and what to update, in one line; "" where both have a version in common."""
    if common(own, stated_versions):
        return ""
    older = reader if stated_versions.oldest > own.newest else other
    return f"{other} speaks version {stated_versions} of the control protocol, {reader} {own}: update {older}"


def may_speak_for_controller(folder: os.stat_result, root: os.stat_result) -> bool:
    """Whether what is in <control root>/controller is the controller's: where anybody may write, a user may have made it."""
    anybodys = bool(root.st_mode & stat.S_IWOTH)
    return not anybodys or folder.st_uid in (0, root.st_uid) or folder.st_uid < SYSTEM_ACCOUNTS


def read_trusted(root: Path, name: str, file: str, most: int) -> bytes:
    """`file` in the folder `name` of the control root; b"" where there is none that may be trusted."""
    try:
        with open_folder(root) as above, open_folder(root / name) as folder:
            trusted = may_speak_for_controller(os.fstat(folder), os.fstat(above))
            return read_small(folder, file, most) if trusted else b""
    except (OSError, CorruptCheckpoint):
        return b""
