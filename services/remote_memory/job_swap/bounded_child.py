"""Work in a child process, for which the caller waits for a limited time: a call of the kernel or of a file system may hang."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_POLL_S = 0.01


def in_child(work: Callable[[], None], timeout_s: float, left: Callable[[], int] = lambda: 0) -> bool:
    """Do something in a child process, which is left alone after the timeout; return whether it succeeded in time.

    The time begins again whenever `left` has decreased.
    """
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:  # it must not continue as a second parent
            os._exit(1)
    least, deadline = left(), time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        if (now := left()) < least:
            least, deadline = now, time.monotonic() + timeout_s
        time.sleep(_POLL_S)
    return False
