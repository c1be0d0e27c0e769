"""Ask Slurm when this run ends: one squeue in the background, which the supervisor never waits for.

Measured on 22.05.8, 24.11.5 and 26.05.5: with SLURM_TIME_FORMAT=%s the times are epoch seconds, in any time zone. The end of a run
without a limit is NONE, or a year after its start. The id of an array's last task is also that of the array, and the id of a
heterogeneous job that of its first part: squeue then prints a row for each. Without slurmctld it fails after 20 s.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from tiresias.wrappers import time_limit

QUERY_TIMEOUT_S = 60.0  # a busy slurmctld; then squeue is killed
MOST_BYTES = 4 * 2**20  # of what squeue prints: a row for each running task of an array
FORMAT = "%A|%S|%e"
# A SQUEUE_STATES, SLURM_CLUSTERS or SLURM_WORKING_CLUSTER (the address of slurmctld at the start) of the job would change squeue's.
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "TMPDIR")


class EndAnswer(NamedTuple):
    """What squeue reported.

    Attributes:
        end: Epoch second at which Slurm ends this run, inf without a limit; of no meaning after a problem.
        problem: Why the end is not known, "" where it is.
    """

    end: float
    problem: str = ""


class EndQuery:
    """At most one squeue at a time.

    Args:
        env: The job's environment.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._job = env.get("SLURM_JOB_ID", "")
        self._env = {name: env[name] for name in _KEPT if name in env} | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        self._child, self._output, self._deadline = 0, -1, float("inf")

    @property
    def runs(self) -> bool:
        """Whether squeue has been started and its answer not been returned."""
        return self._child > 0

    def begin(self) -> str:
        """Start squeue; return why it cannot be started, or ""."""
        command = ["squeue", "--noheader", "--all", "--local", f"--jobs={self._job}", f"--format={FORMAT}"]
        try:
            self._output = os.memfd_create("squeue")
            self._child = os.posix_spawnp(
                command[0],
                command,
                self._env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, self._output, 1),
                    (os.POSIX_SPAWN_DUP2, self._output, 2),
                ],
                setpgroup=0,
                setsigmask=(),
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            self._close()
            return "there is no squeue here" if isinstance(error, FileNotFoundError) else f"squeue: {error.strerror}"
        self._deadline = time.monotonic() + QUERY_TIMEOUT_S
        return ""

    def poll(self) -> EndAnswer | None:
        """Return the answer once; None while there is none. After its deadline squeue is killed."""
        if not self._child:
            return None
        if self._has_ended():
            text = self._printed()
            self._close()
            return answer_in(text, self._job, time.time())
        if time.monotonic() >= self._deadline:
            self.end()
        return None

    def wait(self) -> float:
        """Return the seconds until squeue is killed; its own end sends SIGCHLD."""
        return max(self._deadline - time.monotonic(), 0.0)

    def end(self) -> None:
        """Kill squeue. One that hangs on a file system is not waited for."""
        if self._child:
            with suppress(OSError):
                os.kill(self._child, signal.SIGKILL)
            self._deadline = float("inf")

    def _has_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def _printed(self) -> str:
        with suppress(OSError):
            return os.pread(self._output, MOST_BYTES, 0).decode(errors="replace")
        return ""

    def _close(self) -> None:
        if self._output >= 0:
            os.close(self._output)
        self._child, self._output, self._deadline = 0, -1, float("inf")


def answer_in(text: str, job: str, now: float) -> EndAnswer:
    """Return the end of the run of the record `job` in what squeue printed. An end in the past is no answer: the run goes on."""
    row = re.search(rf"^{re.escape(job)}\|([0-9]+)\|([0-9]+|NONE) *$", text, re.MULTILINE | re.ASCII) if job else None
    if row is None:
        return EndAnswer(0.0, f"squeue: {_last_line(text)}")
    end = float("inf") if row[2] == "NONE" else time_limit.end_of(row[1], row[2])
    if end is None or end <= now:
        return EndAnswer(0.0, f"squeue reports that this run started at {row[1][:20]} and ended at {row[2][:20]}")
    return EndAnswer(end)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    printable = "".join(one if one.isprintable() else "?" for one in lines[-1].strip()[:200]) if lines else ""
    return printable or "it printed nothing"
