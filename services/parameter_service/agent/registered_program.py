"""The programs of a job between its registration and its end: started again after a failure, ended at the service whatever happens.

A failed program begins with its checkpoint, as a requeued one does. A program that saved and left for a requeue is not started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from tiresias.errors import TiresiasError
from tiresias.protocol.control import EXIT_REQUEUE, stop_file
from tiresias.protocol.environment import CONTROL, PARAMETER_SERVICE, RESTART
from tiresias.protocol.job_log import log_line

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
NOT_EXECUTABLE = 127
END_S, PAUSE_S = 30.0, 0.5
PARKED_END_S = 2.0  # a few seconds after the save of a preempted job, what is left of it is killed


class RegisteredProgram:
    """One command of a job, such as `tsrun python3 train.py`.

    Args:
        job_file: The job file, for the command's environment.
        command: The command and its arguments.
        restarts: How often it is started again after an exit code other than 0 and 99.
        register: Registers the job and numbers the run; called before each start.
        end: Ends the job at the service.
    """

    def __init__(
        self,
        job_file: str,
        command: Sequence[str],
        restarts: int,
        register: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        self._environment = {**os.environ, PARAMETER_SERVICE: job_file}
        self._command, self._restarts, self._register, self._end = list(command), restarts, register, end
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []  # signals to end that came while no program ran
        self._asked_to_end = False

    def run(self) -> int:
        """Run the command until it succeeds, leaves for a requeue, is ended by a signal, or has failed too often.

        Returns:
            The exit code of its last run; 128 and the number of the signal that killed it.

        Raises:
            TiresiasError: The job cannot be registered.
        """
        for number in FORWARDED:
            signal.signal(number, self._forward)
        self._register()
        code = self._started()
        while code not in (0, EXIT_REQUEUE) and self._restarts and not self._is_to_leave():
            self._restarts -= 1
            log_line(f"parameter service: {self._command[0]} ended with exit code {code}; it starts again")
            self._register()
            code = self._started()
        self._end_job(PARKED_END_S if code == EXIT_REQUEUE or self._is_to_leave() else END_S)
        return code

    def _is_to_leave(self) -> bool:
        """Return whether the job ends or is preempted: after the first rank that leaves, srun may kill the others."""
        folder, restart = self._environment.get(CONTROL), self._environment.get(RESTART, "0")
        requested = folder is not None and restart.isdecimal() and stop_file(Path(folder), int(restart)).exists()
        return self._asked_to_end or requested

    def _started(self) -> int:
        try:
            self._process = subprocess.Popen(self._command, env=self._environment)
        except OSError as error:
            log_line(f"{self._command[0]}: {error.strerror}")
            self._restarts = 0
            return NOT_EXECUTABLE
        while self._early:
            self._process.send_signal(self._early.pop(0))
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_end = self._asked_to_end or number in ENDING
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
        elif number in ENDING:  # another signal would end a program that has no handler yet
            self._early.append(number)

    def _end_job(self, seconds: float) -> None:
        """End the job at the service; a standby may have to replace the manager first."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._end()
            except TiresiasError as error:
                if time.monotonic() < deadline and not self._asked_to_end:
                    time.sleep(PAUSE_S)
                    continue
                log_line(f"parameter service: {error}; the manager removes the silent job later")
            return
