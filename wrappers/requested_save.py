"""A save that the supervisor has requested: until the program has left, and the rest of its script with it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from tiresias.protocol import control, environment
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import job_processes, run_messages
from tiresias.wrappers.control_channel import ControlChannel

if TYPE_CHECKING:
    from tiresias.wrappers.job import Job
    from tiresias.wrappers.outside_save import OutsideSave

GRACE_S = 1.0  # for the script to end once the program has reported that it saved and leaves
CLEAN_UP_S = 5.0  # for the script's own traps, before the rest of it is killed
STRAGGLERS_S = 30.0  # for programs on other nodes that have not reported that they left


class RequestedSave:
    """A save by the program of one run.

    A program that saved has ended its job's run: the next run repeats what the script still does. The script gets SIGTERM, for
    its traps. (srun kills its tasks on SIGTERM: not before every program has left.)

    Args:
        job: This run.
        channel: Its control folder.
        outside: For a save without the checkpoint library, else None.
        child: Process id and group of the script.
        number: The checkpoint signal.
        late_in: Seconds until the save is reported as late.
        limit_end: Epoch second of the time limit that caused the save, None for a preemption.
    """

    def __init__(
        self,
        job: Job,
        channel: ControlChannel,
        outside: OutsideSave | None,
        child: int,
        number: int,
        late_in: float,
        limit_end: float | None,
    ) -> None:
        self._job, self._channel, self._outside = job, channel, outside
        self._child, self._signal, self._limit_end = child, number, limit_end
        self._late_at = time.monotonic() + late_in
        self._left_at = self._ended_at = 0.0  # when the program left; when the script got SIGTERM
        self._leaving: set[str] = set()  # the processes registered when the program left

    def request(self) -> str:
        """Send the request; return a message for the log."""
        if self._outside:
            return self._outside.ask()
        signalled = self._channel.request_save(self._signal)
        return f"checkpoint signal sent to {signalled} processes on this node"

    def poll(self) -> None:
        """Detect that the program has left, then end the rest of its script. Call it until the script ends."""
        now = time.monotonic()
        if not self._left_at:
            self._detect_leaving(now)
        elif self._ended_at:
            if now - self._ended_at > CLEAN_UP_S:
                kill_run(self._job, self._child)
        elif now - self._left_at > GRACE_S and not self._others_are_saving(now - self._left_at):
            log_line("the program saved and left; ending the rest of the script")
            self._ended_at = now
            os.killpg(self._child, signal.SIGTERM)

    def has_failed(self) -> bool:
        """Whether the save has ended without a checkpoint, and the script runs on: another one may be requested."""
        return self._outside is not None and self._outside.has_failed()

    def _detect_leaving(self, now: float) -> None:
        if self._has_left():
            self._left_at, self._leaving = now, self._channel.registered()
        elif now > self._late_at:
            self._late_at = float("inf")
            log_line(self._late_message())

    def _has_left(self) -> bool:
        if self._outside:
            return self._outside.has_left()
        self._channel.repeat_request(self._signal)
        return bool(self._channel.program().get("requeue"))

    def _late_message(self) -> str:
        if self._outside:
            return self._outside.late_words()
        here, elsewhere = self._channel.staying(self._channel.registered())
        step = control.integer(self._channel.program().get("step"))
        limit_in = None if self._limit_end is None else self._limit_end - time.time()
        return run_messages.late_words(here, elsewhere, step, limit_in)

    def _others_are_saving(self, waited: float) -> bool:
        """Programs that were registered when the first one left; not the workers that a launcher starts to replace those."""
        here, elsewhere = self._channel.staying(self._leaving)
        return here > 0 or (elsewhere > 0 and waited < STRAGGLERS_S)


def kill_run(job: Job, child: int) -> None:
    """Kill the script and all processes of its job on this node: they would hold the GPUs through the requeue."""
    os.killpg(child, signal.SIGKILL)
    marks = {environment.CONTROL: str(job.control), "SLURM_JOB_ID": os.environ.get("SLURM_JOB_ID", "")}
    if left := job_processes.kill_all(marks):
        log_line(f"killed what was left of the run: {left} processes here")
