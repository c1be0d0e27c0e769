"""The supervisor's part for a program that saves by itself (self_saving.py).

It registers the job as one that can save, sends the signal, detects that the program has saved, and reports what changed.

What was saved is not opened: the evidence is that files of the folder changed after the signal, hold something and are no longer
written. A program that ends after the signal is requeued also where nothing changed: it would be requeued so without this, too.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.protocol import control, environment, later_runs, versions
from tiresias.protocol.job_log import log_line
from tiresias.protocol.requeue_request import Requests
from tiresias.wrappers import folder_changes, receivers, requeue_shim, self_saving, time_limit
from tiresias.wrappers.job import Job
from tiresias.wrappers.outside_save import OutsideSave

SCAN_S = 0.5  # between two scans for processes that handle the signal
SCANCEL_TIMEOUT_S = 30.0


class SelfSaver(OutsideSave):
    """Saves of a self-saving program, for all runs of a script in one allocation.

    Attributes:
        saves: Number of successful saves in this job; reports use it as the step.
    """

    def __init__(self, option: self_saving.SelfSaving, job: Job, folder: Path, saves: int) -> None:
        self._option, self._job, self._control, self.saves = option, job, folder, max(saves, 0)
        self._requests = Requests(folder, job.restart)
        self._before: folder_changes.FileStates = {}
        self._signalled: dict[int, receivers.JobProcess] = {}
        self._asked_at = self._scanned_at = 0.0

    def begin(self) -> None:
        """Before the script starts: it counts as able to save from now on."""
        self._signalled, self._before = {}, {}
        for request in (self._requests.asked, self._requests.final):
            request.unlink(missing_ok=True)
        try:
            requeue_shim.install(self._control)
            self._register()
        except OSError as error:
            log_line(f"{self._control}: {error.strerror}: this run cannot be preempted")
        if self._job.restart:
            log_line(f"run {self._job.restart} begins; its program resumes by itself from {self._option.path}")

    def child_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the script's environment, without the option: jobs that the script submits must not inherit it."""
        kept = {name: value for name, value in env.items() if name != environment.CHECKPOINT}
        return kept | {"PATH": requeue_shim.path_with(self._control, env.get("PATH") or os.defpath)}

    def ask(self) -> str:
        """Send the signal; return a message for the log."""
        self._before, self._asked_at = folder_changes.file_states(self._option.path), time.monotonic()
        with suppress(OSError):
            control.stop_file(self._control, self._job.restart).touch()
        if self._scan():
            return f"sent {self._option.number.name} to {len(self._signalled)} processes here"
        return f"{self._option.number.name} is sent once a process of the job handles it"

    def has_left(self) -> bool:
        """Whether the program has saved and waits to be ended, or its processes have ended."""
        if self._requests.asked.exists():
            return True
        if time.monotonic() - self._scanned_at >= SCAN_S:
            self._scan()
        return bool(self._signalled) and not any(map(receivers.is_alive, self._signalled.values()))

    def step_after(self, code: int) -> int | None:
        """The script has ended. The number of saves with which the job is requeued, -1: none; None: it is not requeued."""
        if self._requests.final.exists():
            log_line("the program ended and declined a requeue")
            return None
        if not self._signalled and not self._requests.asked.exists():
            log_line(f"the script ended before a process of it handled {self._option.number.name}")
            return None
        found = folder_changes.since(self._before, self._option.path)
        if code == 0 and not found.files and self._is_late() and not self._requests.asked.exists():
            log_line(
                f"the program went on after {self._option.number.name} and has ended with exit code 0: the job ends"
            )
            return None
        if found.is_save:
            self.saves += 1
            self._register_quietly(save=round(time.monotonic() - self._asked_at, 3))
        self.result = self._words(code, found)
        return self.saves or -1

    def _is_late(self) -> bool:
        """Whether the controller has given up waiting for the save: a program that ends then has ignored the signal."""
        return time.monotonic() - self._asked_at > time_limit.save_deadline(os.environ)

    def late_words(self) -> str:
        """Describe a program that did not save in time."""
        here = sum(map(receivers.is_alive, self._signalled.values()))
        seconds = time.monotonic() - self._asked_at
        return (
            f"{here} processes here have not ended {seconds:.0f} s after {self._option.number.name}; the script goes on"
        )

    def ended_words(self) -> str:
        """Describe a job that saved and must not be requeued."""
        return f"{self.result}. The job ends here: it was submitted with --no-requeue."

    def listed(self) -> str:
        """Describe the place of the program's checkpoints."""
        return f"its program saves by itself in {self._option.path}"

    def source(self) -> str:
        """Describe what the next run starts from."""
        return "what its program saved"

    def close(self) -> None:
        """Nothing of the run is left on the node."""

    # registering

    def _register(self, **measured: float) -> None:
        content = {
            "restart": self._job.restart,
            versions.KEY: versions.OWN,
            "ready": True,
            "step": self.saves or -1,
            "requeue": False,
            "ready_at": time.time(),
            **measured,
        }
        later_runs.write_program(self._control, content, self._job.restart, later_runs.start_time(os.environ))

    def _register_quietly(self, **measured: float) -> None:
        with suppress(OSError):
            self._register(**measured)

    # the signal

    def _scan(self) -> int:
        """Send the signal to processes that handle it and have not got it: once each, as some programs keep a handler for one
        signal only. How many there were."""
        self._scanned_at = time.monotonic()
        marks = {environment.CONTROL: str(self._control), "SLURM_JOB_ID": os.environ.get("SLURM_JOB_ID", "")}
        chosen = receivers.choose(receivers.of_job(marks, self._option.number))
        new = [one for one in chosen if self._signalled.get(one.pid) != one]
        of_steps = [one for one in new if one.in_step] if _nodes() > 1 else []
        if of_steps and not any(one.in_step for one in self._signalled.values()):
            self._signal_all_nodes()
        for one in new:
            self._signalled[one.pid] = one
            if one not in of_steps:
                _send(one, self._option.number)
        return len(new)

    def _signal_all_nodes(self) -> None:
        """To the tasks of all steps; not to the batch script, nor to srun, which would end its tasks."""
        import subprocess  # here: few jobs come to it

        # SLURM_JOB_ID may be a whole array
        command = ["scancel", f"--signal={self._option.number.name[3:]}", self._job.id]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SCANCEL_TIMEOUT_S,
                check=False,
            )
            problem = done.stderr.strip() if done.returncode else ""
        except (OSError, subprocess.SubprocessError) as error:
            problem = str(error)
        if problem:
            log_line(f"the tasks on other nodes have not got {self._option.number.name}: scancel: {problem}")

    # messages

    def _words(self, code: int, found: folder_changes.Changes) -> str:
        folder, number = self._option.path, self._option.number.name
        if found.is_save:
            size = f"{found.size / 2**20:.1f} MiB"
            return f"saved by itself: {len(found.files)} files ({size}) changed in {folder}, contents not verified"
        how = "asked for its requeue" if self._requests.asked.exists() else f"ended with {_status(code)}"
        why = f"is incomplete ({found.incomplete})" if found.incomplete else "did not change"
        return f"{how} after {number}, but {folder} {why}: it goes back to what its program saved before"


def make(job: Job, before: Mapping[str, object], program: Mapping[str, object]) -> SelfSaver | None:
    """Return the self saver of a job, None without the option.

    Args:
        job: This run.
        before: Last report of the supervisor in the previous run.
        program: Last report of the program in the previous run.
    """
    try:
        option = self_saving.from_env(os.environ)
    except UsageError as error:
        log_line(f"{error}; the script runs, and is not preempted")
        return None
    if option is None or job.control is None:
        return None
    return SelfSaver(
        option, job, job.control, max(control.integer(before.get("step")), control.integer(program.get("step")))
    )


def _send(process: receivers.JobProcess, number: int) -> None:
    with suppress(OSError):
        handle = os.pidfd_open(process.pid)  # from here on the number cannot come to mean another process
        try:
            if receivers.is_alive(process):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _status(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _nodes() -> int:
    text = os.environ.get("SLURM_JOB_NUM_NODES", "1")
    return int(text) if text.isascii() and text.isdigit() else 1
