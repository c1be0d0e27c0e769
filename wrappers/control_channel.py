"""The supervisor's messages in the job's control folder (protocol/control.py). Without a folder it sends and receives nothing."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress

from tiresias.protocol import control, environment, later_runs, versions
from tiresias.protocol.files import remove_flat
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import opportunistic, registered_ranks
from tiresias.wrappers.job import Job


class ControlChannel:
    """The control folder of one run. It may become unavailable and come back during the run."""

    def __init__(self, job: Job) -> None:
        self._job, self._folder = job, job.control
        self._capable = False  # its program registered once, in this run or an earlier one
        self._refused = False  # for its version of the protocol; the log has it
        self._began, self._reached = time.time(), -1
        self._end: float | None = None  # of the run by its time limit; None: not known
        self._published: tuple[str, int, str] | None = None

    def is_away(self) -> bool:
        """Whether the folder is unavailable: then it is unknown whether the program can save."""
        folder = self._folder
        return folder is not None and (not folder.is_dir() or control.is_anothers(folder, self._job.submission))

    def begin(self) -> None:
        """Remove the files of an earlier run of the script, except that it could save and how far it came."""
        if self._folder is None:
            return
        self._capable = self.is_capable()
        self._reached = control.integer(control.read(self._folder / control.PROGRAM, os.getuid()).get("at"))
        with suppress(OSError):
            for path in (*self._folder.iterdir(), *(self._folder / control.RANKS).iterdir()):
                if path.name not in control.KEPT:
                    remove_flat(path)

    # receiving

    def run_before(self) -> dict[str, object]:
        """Return the last report of a supervisor, {} without one. At the begin of a run it is the previous run's."""
        return control.read(self._folder / control.SUPERVISOR, os.getuid()) if self._folder else {}

    def last_program(self) -> dict[str, object]:
        """Return the last report of the program in this run or the previous one."""
        return control.read(self._folder / control.PROGRAM, os.getuid()) if self._folder else {}

    def is_capable(self) -> bool:
        """A script whose program never did gets the signal as from sbatch; one still on its way there finds the stop file."""
        if self._folder is None:
            return False
        report = control.read(self._folder / control.PROGRAM, os.getuid())
        if self._refuses(report):
            return False
        return bool(self._capable or report or registered_ranks.names(self._folder / control.RANKS))

    def program(self) -> dict[str, object]:
        """Return the program's report in this run, {} without one."""
        if self._folder is None or self.is_away():
            return {}
        report = control.read(self._folder / control.PROGRAM, os.getuid())
        return report if report.get("restart") == self._job.restart and not self._refuses(report) else {}

    def _refuses(self, report: dict[str, object]) -> bool:
        """Whether the program, in this run, speaks no version of the protocol that the supervisor speaks.

        Logged once; a program that states nothing but its versions has logged it.
        """
        if not report or report.get("restart") != self._job.restart:
            return False
        name = "slurm-tiresias-checkpoint in the job's environment"
        words = versions.refusal(name, versions.stated(report), "slurm-tiresias where the job was submitted")
        if words and not self._refused and "ready" in report:
            log_line(f"{words}. This job gets no checkpoint signal")
        self._refused = self._refused or bool(words)
        return bool(words)

    def registered(self) -> set[str]:
        """Return the names of the registered processes."""
        return set(registered_ranks.names(self._folder / control.RANKS)) if self._folder else set()

    def staying(self, among: set[str]) -> tuple[int, int]:
        """Count the processes of `among` that have not left: on this node, on others."""
        return registered_ranks.staying(self._folder / control.RANKS, among) if self._folder else (0, 0)

    # sending

    def publish(self, state: str, step: int = -1, why: str = "") -> None:
        """Write the state of this run for the controller, unless a later run of the job reports there."""
        self._published = state, step, why
        start = later_runs.start_time(os.environ)
        if self._folder is None or later_runs.started_later(self.run_before(), start):
            return
        content = {
            "restart": self._job.restart,
            versions.KEY: versions.OWN,
            "state": state,
            "step": step,
            "run_id": self._job.run_id,
            "why": why,
            "began": self._began,
            "reached": self._reached,
            **({} if self._end is None else {"end": self._end if self._end < math.inf else 0}),
            "start": start,
            "script": os.environ.get(environment.SCRIPT, ""),
            "opportunistic": opportunistic.chosen(os.environ),
            "elastic": os.environ.get(environment.ELASTIC, ""),
        }
        try:
            control.write(self._folder, control.SUPERVISOR, content)
        except OSError as error:
            log_line(f"{self._folder}: {error.strerror}: the controller cannot see that this job is {state}")

    def publish_end(self, end: float) -> None:
        """Write the end of this run by its time limit with the published state, where it is another one. inf: no limit."""
        if end != self._end:
            self._end = end
            if self._published:
                self.publish(*self._published)

    def request_save(self, number: int) -> int:
        """Request a checkpoint from the program on all nodes; return the number of processes signalled on this node."""
        if self._folder is None:
            return 0
        try:
            control.stop_file(self._folder, self._job.restart).touch()
        except OSError as error:
            log_line(f"{self._folder}: {error.strerror}: only this node's processes get the checkpoint signal")
        return registered_ranks.send(self._folder / control.RANKS, number)

    def repeat_request(self, number: int) -> None:
        """Repeat a request that could not be written. No signal and no message where it still cannot be written."""
        if self._folder is None or self.is_away():
            return
        stop = control.stop_file(self._folder, self._job.restart)
        with suppress(OSError):
            if not stop.exists():
                stop.touch()
                registered_ranks.send(self._folder / control.RANKS, number)
