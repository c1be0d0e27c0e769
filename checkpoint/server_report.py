"""The report of a parameter server, from which the controller finds servers that are slower than the others of their job."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from tiresias.checkpoint.own_work import OwnWork
from tiresias.checkpoint.this_run import ThisRun
from tiresias.protocol import control, rank_files
from tiresias.protocol.files import own_folder
from tiresias.protocol.process_identity import own_name


class ServerReport:
    """Reports once a minute how long a server's own work of a step takes, without what it waits for the workers.

    A server makes no `Checkpointer`: it is no rank, gets no checkpoint signal and saves nothing. Its loop::

        report = ServerReport.from_env()
        while True:
            with report.exchange():
                receive_gradients()
            update_parameters()
            with report.exchange():
                send_parameters()
            report.stepped()

    Args:
        folder: The job's control folder; None: nothing is reported.
        restart: Slurm's restart count of this run.
        submission: The number of the job's submission, which its control folder carries.
    """

    def __init__(self, folder: Path | None, restart: int = 0, submission: str = "") -> None:
        self._folder, self._restart, self._submission = folder, restart, submission
        self._work, self._steps = OwnWork(), 0
        if folder is not None:
            atexit.register(self._withdraw, os.getpid())

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> ServerReport:
        """Create a report from the environment that the job's supervisor set up; outside of a managed job it reports nothing."""
        run = ThisRun.from_env(env)
        return cls(run.control, run.restart, run.submission)

    def exchange(self) -> contextlib.AbstractContextManager[None]:
        """Mark the part of a step in which the server waits for the workers, and receives from them or sends to them."""
        return self._work.exchange()

    def report_every(self, seconds: float) -> None:
        """Set the time between two reports to 60 times as long, as Checkpointer.report_every; 1 s without it."""
        self._work.interval = rank_files.WORK_S * seconds

    def stepped(self) -> None:
        """Note that a step is done. Call it after each step."""
        self._steps += 1
        if self._work.measured(self._steps) and self._folder is not None:
            with contextlib.suppress(OSError):  # the folder is away: the next report may reach it
                self._write(self._folder)

    def _write(self, folder: Path) -> None:
        if not control.is_anothers(folder, self._submission):
            own_folder(folder / control.SERVERS, 0o755)
            control.write(folder / control.SERVERS, own_name(), {"restart": self._restart, **self._work.report()})

    def _withdraw(self, pid: int) -> None:
        """Remove the report of a server that ends. Not in a forked process, whose report it is not."""
        if self._folder is not None and pid == os.getpid():
            with contextlib.suppress(OSError):
                (self._folder / control.SERVERS / own_name()).unlink()
