"""The in-job supervisor: the batch script that tsbatch makes ends in it, and it runs the user's script.

It takes the checkpoint signal, has the program save and leave, verifies what was saved, and waits for the requeue. Any other signal
goes to the user's script, whose exit code becomes the job's. Nothing here may cost the user a job: without control folder or
checkpoint folder the script simply runs. There is one supervisor a job, on its first node.

A state at a time, all in supervisor.json (checkpoint/control.py):

    running --checkpoint signal, and the program can save--> saving --the program left with a checkpoint--> parked
    parked --SIGTERM (requeue)--> exit 99             parked --PARK_TIMEOUT: no requeue came--> running, the script from its top
    running, saving --the script ended--> ended, with its exit code

It starts at every job's start, perhaps sixty at once: it imports little, and what it needs for the verification only then.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from tiresias.checkpoint import control
from tiresias.checkpoint.files import remove_flat
from tiresias.checkpoint.notes import say
from tiresias.wrappers import job as jobs
from tiresias.wrappers import ranks
from tiresias.wrappers.user_script import UserScript, extract

LOOK = 0.1  # seconds between looks at a program that is saving
GRACE = 1.0  # seconds for the script to end once the program has said that it saved and leaves
PARK_TIMEOUT = 90.0  # seconds from a commit to the requeue; TIRESIAS_PARK_TIMEOUT
FULL_VERIFY = 512 << 20  # bytes: larger checkpoints get their sizes checked here, and all hashes when they are restored
TOGETHER = 1.0  # seconds: Slurm ends a job with SIGCONT and SIGTERM, to every process of it
UNTOUCHABLE = {signal.SIGKILL, signal.SIGSTOP}
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
WATCHED = (
    signal.valid_signals() - UNTOUCHABLE - FAULTS - {signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGPIPE}
)


class Supervisor:
    def __init__(self, job: jobs.Job, script: UserScript, arguments: list[str], mask: set[int]) -> None:
        self.job = job
        self._command = [*script.command, *arguments]
        self._mask = mask  # the signals that were blocked before ours
        self._signal = getattr(signal, f"SIG{job.signal_name}", signal.SIGUSR2)
        self._child = 0
        self._saving = self._terminated = False
        self._capable = False  # its program registered once, in this run or an earlier one
        self._continued = -TOGETHER
        self._left = 0.0  # when the program was first seen to have saved and left

    def run(self) -> int:
        """The job's exit code."""
        while True:
            self._start()
            code = self._attend()
            step = self._saved(code)
            if step is None:
                self._tell("ended")
                return code
            if not self._park(step):
                return control.EXIT_REQUEUE

    # the user's script

    def _start(self) -> None:
        self._saving, self._left = False, 0.0
        if self.job.control:
            self._forget(self.job.control)
        self._tell("running")
        self._child = os.posix_spawn(
            self._command[0], self._command, self.job.child_env(os.environ), setpgroup=0, setsigmask=self._mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
        )  # fmt: skip

    def _forget(self, folder: Path) -> None:
        """Clear what an earlier run of the script left behind; only that it could save is remembered."""
        self._capable = self._registered(folder)
        with suppress(OSError):
            for path in (*folder.iterdir(), *(folder / control.RANKS).iterdir()):
                if path.name not in (control.SUPERVISOR, control.RANKS):
                    remove_flat(path)

    def _attend(self) -> int:
        """Look after the script until it ends; its exit code as a shell gives it. A zombie then: its group keeps its number."""
        while True:
            if received := signal.sigtimedwait(WATCHED, LOOK if self._saving else 3600):
                self._received(received.si_signo)
            if ended := os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status
            if self._saving:
                self._hurry()

    def _received(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGCONT:
            self._continued = time.monotonic()
        if number == signal.SIGTERM:
            self._terminated = True
        if number == self._signal and self.job.control and (self._saving or self._registered(self.job.control)):
            self._save(self.job.control)
        elif not self._whole_job_got(number):
            os.kill(self._child, number)

    def _whole_job_got(self, number: int) -> bool:
        """Slurm ends a job by SIGCONT and SIGTERM to all its processes: the script has had its own, and a second one may hurt."""
        if number == signal.SIGCONT:
            return True
        pending = signal.SIGCONT in signal.sigpending()
        return number == signal.SIGTERM and (pending or time.monotonic() - self._continued < TOGETHER)

    # saving

    def _registered(self, folder: Path) -> bool:
        """A script whose program never did gets the signal as from sbatch; one still on its way there finds the stop file."""
        return self._capable or bool(
            control.read(folder / control.PROGRAM, os.getuid()) or ranks.names(folder / control.RANKS)
        )

    def _save(self, folder: Path) -> None:
        if self._saving:
            return
        self._saving, self._terminated = True, False
        self._tell("saving")
        try:
            self._stop_file(folder).touch()
        except OSError as error:
            say(f"{folder}: {error.strerror}: only this node's processes are told to save")
        told = ranks.send(folder / control.RANKS, self._signal)
        say(f"asked to make room: told the program to save ({told} processes here)")

    def _hurry(self) -> None:
        """A program that saved has ended its job's run: what the script still does after it would be done again."""
        if not self._program().get("requeue"):
            return
        self._left = self._left or time.monotonic()
        if time.monotonic() - self._left > GRACE:
            say("the program saved and left; ending the rest of the script")
            self._end_group()

    def _program(self) -> dict[str, object]:
        """What the program said in this run."""
        said = control.read(self.job.control / control.PROGRAM, os.getuid()) if self.job.control else {}
        return said if said.get("restart") == self.job.restart else {}

    def _saved(self, code: int) -> int | None:
        """The step to resume from, when the script ended because it was told to save; None: it ended for reasons of its own."""
        asked = self._saving and not self._terminated
        if not asked or not (code == control.EXIT_REQUEUE or self._program().get("requeue")):
            return None
        step = self._verified()
        if step is None:
            say("the program left, but no checkpoint verifies: the job ends here")
        return step

    def _verified(self) -> int | None:
        from tiresias.checkpoint.store import Store
        from tiresias.errors import TiresiasError

        folder = self._program().get("folder") or self.job.checkpoints
        store = Store(Path(str(folder)))
        try:
            for step in store.steps():
                try:
                    found = store.verify(step, hashes=False)
                    if found.size <= FULL_VERIFY:
                        store.verify(step)
                    return step
                except TiresiasError as error:
                    say(str(error))
        except TiresiasError as error:
            say(str(error))
        return None

    # parked

    def _park(self, step: int) -> bool:
        """Wait for the requeue. False: it came. True: it did not, so the script is to run again."""
        self._end_group()
        os.waitpid(self._child, 0)
        self._tell("parked", step)
        say(f"run {self.job.restart} saved step {step} and waits for the requeue")
        timeout = _seconds(os.environ.get("TIRESIAS_PARK_TIMEOUT"))
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            received = signal.sigtimedwait(WATCHED, remaining)
            if received and received.si_signo == signal.SIGTERM:
                return False
        say(f"no requeue came in {timeout:g} s: the script runs again, from step {step}")
        return True

    def _end_group(self) -> None:
        """What the script left behind would hold its GPU through the requeue."""
        os.killpg(self._child, signal.SIGKILL)

    # telling

    def _tell(self, state: str, step: int = -1) -> None:
        if self.job.control is None:
            return
        content = {"restart": self.job.restart, "state": state, "step": step, "run_id": self.job.run_id}
        try:
            control.write(self.job.control, control.SUPERVISOR, content)
        except OSError as error:
            say(f"{self.job.control}: {error.strerror}: the daemon does not hear that this job is {state}")

    def _stop_file(self, folder: Path) -> Path:
        return control.stop_file(folder, self.job.restart)


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text)) if text else PARK_TIMEOUT
    except ValueError:
        return PARK_TIMEOUT


def main() -> None:
    """`supervisor BATCH_SCRIPT [ARGUMENTS]`, in the batch step."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    try:
        script = extract(Path(sys.argv[1]), Path(os.environ.get("TMPDIR") or "/tmp"))
    except (OSError, ValueError) as error:
        say(f"the user's script cannot be taken out of the batch script: {error}")
        sys.exit(1)
    try:
        code = Supervisor(jobs.from_env(os.environ), script, sys.argv[2:], set(mask)).run()
    except OSError as error:
        say(f"the user's script cannot be started: {error}")
        code = 126 if error.errno else 1
    script.remove()
    os._exit(code)  # nothing is buffered, and the interpreter's own end takes its time


if __name__ == "__main__":
    main()
