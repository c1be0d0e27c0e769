"""root in the state folder: a file of root's there would keep the controller's own user out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """root acts as the user whom the folder belongs to; anybody else as himself."""
    if os.geteuid() != 0 or not folder.exists():
        yield
        return
    owner, group = folder.stat(), os.getegid()
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
