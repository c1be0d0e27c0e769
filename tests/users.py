"""Real users for tests of what one may do to another: a process each, so root runs such tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

ALICE, MALLORY, DAEMON = 20001, 20002, 20003


def as_user(
    uid: int, action: Callable[[], object], gid: int | None = None, groups: Sequence[int] = (), umask: int = 0o077
) -> str:
    """What `action` returns, as text, or its error's class and message. Run in a process of that user's."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            if (uid, gid) != (os.getuid(), None):
                _become(uid, uid if gid is None else gid, groups)
            os.umask(umask)
            output = str(action())
        except BaseException as error:
            output = f"{type(error).__name__}: {error}"
        os.write(writing, output.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        output = pipe.read()
    os.waitpid(pid, 0)
    return output


def _become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Only root may."""
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)
