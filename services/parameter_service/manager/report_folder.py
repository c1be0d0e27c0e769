"""The folder of the manager's report: each file is put there whole, with the readers that it may have.

A user's file is readable by that user by a POSIX access control list, as the service account cannot give files away. Where the
file system has no such lists (NFSv4), only the service account reads it: users then see sums only.
"""

from __future__ import annotations

import grp
import json
import os
import struct
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.protocol.service_report import JOBS, REPORT, USERS, PublishedServiceJob, ServiceReport, user_file

_ACL = "system.posix_acl_access"
_ACL_VERSION = 2
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20  # tags of entries; linux/posix_acl.h
_READ, _READ_WRITE = 4, 6
_NO_ID = 0xFFFFFFFF  # the id of entries that name none


class ReportFolder:
    """Writes the files.

    Args:
        folder: The folder; it is created.
        group: The name of the group that sees all jobs; "": only the service account does.

    Raises:
        UsageError: There is no such group.
        OSError: The folder cannot be created.
    """

    def __init__(self, folder: Path, group: str = "") -> None:
        self._folder, self._gid = folder, _gid_of(group)
        for each, mode in ((folder, 0o755), (folder / USERS, 0o711)):
            each.mkdir(parents=True, exist_ok=True)
            each.chmod(mode)
        self._written: dict[str, bytes] = {}

    def write(self, report: ServiceReport, jobs: Iterable[PublishedServiceJob]) -> None:
        """Write the files whose content has changed, and the report; remove those of users without jobs. Raises OSError."""
        by_user: dict[int, list[PublishedServiceJob]] = defaultdict(list)
        for each in jobs:
            by_user[each["uid"]].append(each)
        self._write(JOBS, {"jobs": [one for each in by_user.values() for one in each]}, uid=None)
        for uid, own in by_user.items():
            self._write(user_file(uid), {"jobs": own}, uid)
        self._remove_others({user_file(uid) for uid in by_user})
        self._put(REPORT, json.dumps(report).encode(), lambda file: os.fchmod(file, 0o644))

    def _write(self, name: str, content: dict[str, Any], uid: int | None) -> None:
        encoded = json.dumps(content).encode()
        if self._written.get(name) == encoded:
            return
        self._put(name, encoded, self._share_with_group if uid is None else lambda file: _share_with(file, uid))
        self._written[name] = encoded

    def _share_with_group(self, file: int) -> None:
        if self._gid is not None:
            os.fchown(file, -1, self._gid)
            os.fchmod(file, 0o640)

    def _put(self, name: str, content: bytes, share: Any) -> None:
        path = self._folder / name
        temporary = path.with_suffix(".new")
        with suppress(FileNotFoundError):
            temporary.unlink()
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as opened:
            share(file)  # before there is anything to read
            opened.write(content)
        temporary.replace(path)

    def _remove_others(self, kept: set[str]) -> None:
        for path in (self._folder / USERS).iterdir():
            if (name := f"{USERS}/{path.name}") not in kept:
                path.unlink(missing_ok=True)
                self._written.pop(name, None)


def _gid_of(group: str) -> int | None:
    try:
        return grp.getgrnam(group).gr_gid if group else None
    except KeyError:
        raise UsageError(f"report_group: there is no group {group[:64]}") from None


def _share_with(file: int, uid: int) -> None:
    """Let one user read the file besides its owner. Where lists are not supported, no other user may."""
    entries = [(_OWNER, _READ_WRITE, _NO_ID), (_USER, _READ, uid), (_GROUP, 0, _NO_ID), (_MASK, _READ, _NO_ID),
               (_OTHERS, 0, _NO_ID)]  # fmt: skip
    packed = struct.pack("<I", _ACL_VERSION) + b"".join(struct.pack("<HHI", *each) for each in entries)
    with suppress(OSError):
        os.setxattr(file, _ACL, packed)
