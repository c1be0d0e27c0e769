"""What the supervisor says and hears in the job's control folder (protocol/control.py). Without one nothing: nobody is told."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from tiresias.protocol import control, versions
from tiresias.protocol.files import remove_flat
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import registered_ranks, time_limit
from tiresias.wrappers.job import Job


class ControlChannel:
    """One run's. The folder may go away and come back while it goes on."""

    def __init__(self, job: Job) -> None:
        self._job, self._folder = job, job.control
        self._capable = False  # its program registered once, in this run or an earlier one
        self._refused = False  # for its version of the protocol; the log has it
        self._began, self._reached = time.time(), -1

    def is_away(self) -> bool:
        """Nobody knows then whether the program can save, or has: the checkpoint signal kills a script that has no trap for it."""
        folder = self._folder
        return folder is not None and (not folder.is_dir() or control.is_anothers(folder, self._job.submission))

    def begin(self) -> None:
        """Clear what an earlier run of the script left behind; only that it could save, and how far it came, is remembered."""
        if self._folder is None:
            return
        self._capable = self.is_capable()
        self._reached = control.integer(control.read(self._folder / control.PROGRAM, os.getuid()).get("at"))
        with suppress(OSError):
            for path in (*self._folder.iterdir(), *(self._folder / control.RANKS).iterdir()):
                if path.name not in control.KEPT:
                    remove_flat(path)

    # hearing

    def run_before(self) -> dict[str, object]:
        """What the supervisor of the run before said last."""
        return control.read(self._folder / control.SUPERVISOR, os.getuid()) if self._folder else {}

    def last_program(self) -> dict[str, object]:
        """What the program of this run, or of the run before, reported last."""
        return control.read(self._folder / control.PROGRAM, os.getuid()) if self._folder else {}

    def is_capable(self) -> bool:
        """A script whose program never did gets the signal as from sbatch; one still on its way there finds the stop file."""
        if self._folder is None:
            return False
        said = control.read(self._folder / control.PROGRAM, os.getuid())
        if self._refuses(said):
            return False
        return bool(self._capable or said or registered_ranks.names(self._folder / control.RANKS))

    def program(self) -> dict[str, object]:
        """What the program said in this run."""
        if self._folder is None or self.is_away():
            return {}
        said = control.read(self._folder / control.PROGRAM, os.getuid())
        return said if said.get("restart") == self._job.restart and not self._refuses(said) else {}

    def _refuses(self, said: dict[str, object]) -> bool:
        """Whether the program, in this run, speaks no version of the protocol that the supervisor speaks.

        Logged once; a program that states nothing but its versions has logged it.
        """
        if not said or said.get("restart") != self._job.restart:
            return False
        name = "slurm-tiresias-checkpoint in the job's environment"
        words = versions.refusal(name, versions.stated(said), "slurm-tiresias where the job was submitted")
        if words and not self._refused and "ready" in said:
            log_line(f"{words}. This job is not told to save")
        self._refused = self._refused or bool(words)
        return bool(words)

    def registered(self) -> set[str]:
        return set(registered_ranks.names(self._folder / control.RANKS)) if self._folder else set()

    def staying(self, among: set[str]) -> tuple[int, int]:
        return registered_ranks.staying(self._folder / control.RANKS, among) if self._folder else (0, 0)

    # saying

    def tell(self, state: str, step: int = -1, why: str = "") -> None:
        """The daemon."""
        if self._folder is None:
            return
        content = {
            "restart": self._job.restart, versions.KEY: versions.OWN, "state": state, "step": step,
            "run_id": self._job.run_id, "why": why, "began": self._began, "reached": self._reached,
            "start": time_limit.start_time(os.environ),
        }  # fmt: skip
        try:
            control.write(self._folder, control.SUPERVISOR, content)
        except OSError as error:
            log_line(f"{self._folder}: {error.strerror}: the daemon does not hear that this job is {state}")

    def tell_to_save(self, number: int) -> int:
        """The program, wherever it runs. How many processes here were told by signal."""
        if self._folder is None:
            return 0
        try:
            control.stop_file(self._folder, self._job.restart).touch()
        except OSError as error:
            log_line(f"{self._folder}: {error.strerror}: only this node's processes are told to save")
        return registered_ranks.send(self._folder / control.RANKS, number)

    def tell_again(self, number: int) -> None:
        """Where the folder was away when the program was to be told. Silent, and no signal, where that still cannot be written."""
        if self._folder is None or self.is_away():
            return
        stop = control.stop_file(self._folder, self._job.restart)
        with suppress(OSError):
            if not stop.exists():
                stop.touch()
                registered_ranks.send(self._folder / control.RANKS, number)
