"""A process beside the user's script, one for each run: started, and killed with the script."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from tiresias.protocol.job_log import log_line


class SideProcess:
    """At most one process.

    Args:
        command: Its command line; (): there is none.
        what: What cannot be done without it, for the log.
    """

    def __init__(self, command: Sequence[str], what: str) -> None:
        self._command, self._what = list(command), what
        self._child = 0

    def begin(self) -> None:
        """Start the process. A problem is logged: the job runs without it."""
        if not self._command:
            return
        try:
            self._child = os.posix_spawn(self._command[0], self._command, os.environ, setpgroup=0)
        except OSError as error:
            log_line(f"{self._what}: {error.strerror}")

    def end(self) -> None:
        """Kill the process, once the script has ended."""
        child, self._child = self._child, 0
        if child:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
