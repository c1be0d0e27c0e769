"""Slurm's commands as child processes with a deadline, one at a time; another thread may end the one that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress

from tiresias.errors import Unavailable, one_line

CALL_TIMEOUT_S = 30.0
_OF_A_JOB = ("SBATCH_", "SLURM_", "SQUEUE_", "SCANCEL_", "SINFO_")


class FleetCommands:
    """Runs commands from a known environment: without Slurm's variables of a job and of options."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None

    def run(self, *command: str) -> str:
        """Run a command and return its output.

        Raises:
            Unavailable: It failed, took too long or was interrupted: whether Slurm has carried it out is unknown.
        """
        try:
            with self._started(command) as child:
                output, problem = self._awaited(child)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{command[0]}: {one_line(error)}") from None
        if child.returncode:
            raise Unavailable(f"{command[0]}: {one_line(problem.strip() or f'exit status {child.returncode}')}")
        return output.strip()

    def interrupt(self) -> None:
        """End the command that runs now."""
        with self._lock:
            if self._running is not None:
                _end(self._running)

    def _started(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command; one that has begun is the one that interrupt() ends."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_JOB)}
        pipe = subprocess.PIPE
        with self._lock:
            self._running = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                text=True,
                env=clean,
                start_new_session=True,
            )
            return self._running

    def _awaited(self, child: subprocess.Popen[str]) -> tuple[str, str]:
        try:
            return child.communicate(timeout=CALL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _end(child)
            raise
        finally:
            with self._lock:
                self._running = None


def _end(child: subprocess.Popen[str]) -> None:
    """Send SIGKILL to the command and its children, which could hold its output open."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
