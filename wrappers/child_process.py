"""Work in a forked process with a time limit: folders of a site may hang."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from tiresias.wrappers import isolated


def run(work: Callable[[], None], limit: float) -> None:
    """Run `work` in a child and wait for it, `limit` seconds at most. What it imports is this installation's and Python's own."""
    ended, ends = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(ended)
        os.close(ends)
        return
    if not child:
        _work(work)
    os.close(ends)
    if not select.select([ended], [], [], limit)[0]:  # readable: the child has closed its end
        os.kill(child, signal.SIGKILL)  # not waited for: where a folder hangs, it ends when that comes back
    else:
        os.waitpid(child, 0)
    os.close(ended)


def _work(work: Callable[[], None]) -> None:
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        sys.path[:] = isolated.path()
        work()
    except BaseException:  # it reports what it can by itself
        with suppress(BaseException):
            os.write(2, b"tiresias: the scheduling note for this job could not be written\n")
    finally:
        os._exit(0)
