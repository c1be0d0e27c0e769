"""The in-job supervisor: the batch script that tsbatch makes ends in it, and it runs the user's script.

It has the program save and leave when the checkpoint signal comes or the time limit is near, verifies what was saved, and waits for
the requeue. Any other signal goes to the user's script; how that ends, by exit code or signal, is how the job ends. Nothing here
may cost the user a job: without control folder or checkpoint folder the script simply runs. There is one supervisor a job, on its
first node.

A state at a time, all in supervisor.json (protocol/control.py):

    running --checkpoint signal, or the time limit, and the program can save--> saving --it left with a checkpoint--> parked
    parked --SIGTERM (requeue)--> exit 99             parked --PARK_TIMEOUT: no requeue came--> running, the script from its top
    running, saving --the script ended, or ended with a final exit code--> ended, with its exit code or signal

A job that parked for its time limit, or shortly before it, asks Slurm itself for the requeue when nobody else does. One that was
submitted with --no-requeue ends once it has saved for its time limit: it would hold its GPUs for nothing.
It starts at every job's start, perhaps sixty at once: it imports little, and what it needs for the verification only then.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tiresias.protocol import control
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import exit_status, inserted, job_processes, newest_checkpoint, run_messages, time_limit
from tiresias.wrappers import job as jobs
from tiresias.wrappers.control_channel import ControlChannel
from tiresias.wrappers.user_script import UserScript, extract

if TYPE_CHECKING:
    from tiresias.wrappers.self_saver import SelfSaver

LOOK = 0.1  # seconds between looks at a program that is saving
GRACE = 1.0  # seconds for the script to end once the program has said that it saved and leaves
CLEAN_UP = 5.0  # seconds for the script's own traps, before what is left of it is killed
STRAGGLERS = 30.0  # seconds for programs on other nodes that have not said that they left
REQUEUE_AGAIN = 5.0  # seconds between two tries of a job to have itself requeued
PARK_TIMEOUT = 90.0  # seconds from a commit to the requeue; TIRESIAS_PARK_TIMEOUT
LIMIT_LOOK = 60.0  # seconds between looks at what a save takes, where there is a time limit
IDLE = 3600.0  # seconds between looks when nothing is expected
TOGETHER = 1.0  # seconds: Slurm ends a job with SIGCONT and SIGTERM, to every process of it
UNTOUCHABLE = {signal.SIGKILL, signal.SIGSTOP}
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
WATCHED = (
    signal.valid_signals() - UNTOUCHABLE - FAULTS - {signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGPIPE}
)


class Supervisor:
    def __init__(self, job: jobs.Job, script: UserScript, arguments: list[str], mask: set[int]) -> None:
        self.job, self._exchange = job, ControlChannel(job)
        self._command = [*script.command, *arguments]
        self._mask = mask  # the signals that were blocked before ours
        self._signal = getattr(signal, f"SIG{job.signal_name}", signal.SIGUSR2)
        self._child = 0
        self._saving = self._terminated = False
        self._why = ""  # of the save: "limit" or, when somebody asked for it, ""
        self._before = -1  # the newest checkpoint when the save was asked for
        self._continued = -TOGETHER
        # when the program was seen to have saved and left, when the rest was told to end
        self._left = self._ending = 0.0
        self._leaving: set[str] = set()  # who was registered then
        self._began = time.time()
        self._end = time_limit.end_time(os.environ)
        self._late_at = float("inf")  # when a save that is not over is reported
        self._final = exit_status.final_codes(os.environ)
        self._self_saver = _self_saver(job, self._exchange)

    def run(self) -> int:
        """The job's status (exit_status.py)."""
        self._tell_of_the_run_before()
        while True:
            self._start()
            code = self._attend()
            step = self._saved(code)
            if step is None:
                return self._ended(code)
            if not self._park(step):
                return control.EXIT_REQUEUE

    def _tell_of_the_run_before(self) -> None:
        before = self._exchange.run_before()
        restart = control.integer(before.get("restart"))
        if not 0 <= restart < self.job.restart:
            return
        if before.get("state") == "parked" and before.get("why") == "limit":
            log_line(
                f"run {self.job.restart} begins with a new time limit; run {restart} saved before its own was over"
            )
        if before.get("state") in ("running", "saving"):
            log_line(
                f"run {self.job.restart} begins; run {restart} was cut off before it could save (node failure, requeue)"
            )

    def _ended(self, code: int) -> int:
        capable = self._exchange.is_capable()
        if code and capable:
            words = run_messages.words(code, self._terminated, code in self._final)
            log_line(f"run {self.job.restart} ended with {words}; {self._listed()}")
        if code == 0 or capable:
            self._note(capable, control.integer(self._exchange.program().get("step")))
        self._exchange.tell("ended", why=self._why)
        return code

    def _note(self, registered: bool, step: int) -> None:
        """For the owner of the next job of this script. One that failed before its program could register shows nothing."""
        from tiresias.wrappers import previous_job  # here: at an end only

        if self.job.control:
            shown = previous_job.PreviousJob(self.job.id, registered, step)
            previous_job.note(self.job.control, os.environ.get("TIRESIAS_SCRIPT", ""), shown)

    # the user's script

    def _start(self) -> None:
        self._saving, self._why, self._left, self._ending = False, "", 0.0, 0.0
        self._exchange.begin()
        env = self.job.child_env(os.environ)
        if self._self_saver:
            self._self_saver.begin()
            env = self._self_saver.child_env(env)
        self._exchange.tell("running")
        self._child = os.posix_spawn(
            self._command[0], self._command, env, setpgroup=0, setsigmask=self._mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
        )  # fmt: skip

    def _attend(self) -> int:
        """Look after the script until it ends; its status (exit_status.py). A zombie then: its group keeps its number."""
        while True:
            if received := signal.sigtimedwait(WATCHED, self._pause()):
                self._received(received.si_signo)
            if ended := os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return exit_status.status(ended)
            if self._saving:
                self._hurry()
            elif self._limit_is_near():
                self._save("limit")

    def _pause(self) -> float:
        if self._saving:
            return LOOK
        if self._end == float("inf"):
            return IDLE
        return min(LIMIT_LOOK, max(1.0, self._end - self._lead() - time.time()))

    def _received(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGCONT:
            self._continued = time.monotonic()
        if number == signal.SIGTERM:
            self._terminated = True
        if number == self._signal and self._exchange.is_away():
            log_line("asked to make room, but its control folder is away: the script goes on")
        elif number == self._signal and (self._saving or self._exchange.is_capable()):
            self._save()
        elif not self._whole_job_got(number):
            os.kill(self._child, number)

    def _whole_job_got(self, number: int) -> bool:
        """Slurm ends a job by SIGCONT and SIGTERM to all its processes: the script has had its own, and a second one may hurt."""
        if number == signal.SIGCONT:
            return True
        pending = signal.SIGCONT in signal.sigpending()
        return number == signal.SIGTERM and (pending or time.monotonic() - self._continued < TOGETHER)

    # the time limit

    def _limit_is_near(self) -> bool:
        """Near enough to save for it. A program that never registered is left alone, as without us."""
        return (
            time.time() >= self._end - self._lead()
            and bool(self._exchange.program().get("ready"))
            and not self._terminated
        )

    def _lead(self) -> float:
        save = self._exchange.program().get("save")
        known = float(save) if isinstance(save, (int, float)) and 0 <= save <= control.LONGEST else None
        return time_limit.lead(self._end - self._began, known)

    # saving

    def _save(self, why: str = "") -> None:
        if self._saving:
            return
        if not self._self_saver and self._exchange.program() and not self._exchange.registered():
            self._end = float("inf") if why else self._end  # once is enough
            log_line("told to save, but the program has ended: the script goes on")
            return
        self._saving, self._terminated, self._why = True, False, why
        self._before = control.integer(self._exchange.program().get("step"))
        self._exchange.tell("saving", why=why)
        self._late_at = time.monotonic() + (self._lead() / 2 if why else time_limit.save_deadline(os.environ))
        reason = "the time limit is near" if why else "asked to make room"
        if self._self_saver:
            log_line(f"{reason}: {self._self_saver.ask()}")
            return
        told = self._exchange.tell_to_save(self._signal)
        log_line(f"{reason}: told the program to save ({told} processes here)")

    def _hurry(self) -> None:
        """A program that saved has ended its job's run: what the script still does after it would be done again.

        The script gets SIGTERM, for its traps. (srun kills its tasks on SIGTERM: not before every program has left.)
        """
        now = time.monotonic()
        if not self._left:
            self._see_it_leave(now)
        elif self._ending:
            if now - self._ending > CLEAN_UP:
                self._kill_all()
        elif now - self._left > GRACE and not self._others_are_saving(now - self._left):
            log_line("the program saved and left; ending the rest of the script")
            self._ending = now
            os.killpg(self._child, signal.SIGTERM)

    def _see_it_leave(self, now: float) -> None:
        if self._has_left():
            self._left, self._leaving = now, self._exchange.registered()
        elif now > self._late_at:
            self._late_at = float("inf")
            log_line(self._late_words())

    def _has_left(self) -> bool:
        if self._self_saver:
            return self._self_saver.has_left()
        self._exchange.tell_again(self._signal)
        return bool(self._exchange.program().get("requeue"))

    def _late_words(self) -> str:
        if self._self_saver:
            return self._self_saver.late_words()
        here, elsewhere = self._exchange.staying(self._exchange.registered())
        step = control.integer(self._exchange.program().get("step"))
        return run_messages.late_words(here, elsewhere, step, self._end - time.time() if self._why else None)

    def _others_are_saving(self, waited: float) -> bool:
        """Programs that were there when the first one left; not the workers that a launcher starts in the place of those."""
        here, elsewhere = self._exchange.staying(self._leaving)
        return here > 0 or (elsewhere > 0 and waited < STRAGGLERS)

    def _saved(self, code: int) -> int | None:
        """The step to resume from, when the script ended because it was told to save; None: it ended for reasons of its own.

        The first rank that leaves may have its launcher kill the others, before rank 0 could say anything and with whatever exit
        code: then a checkpoint that was not there before says it. So it does where the control folder is away, and with it what
        the program said: the script may have gone on after a program that saved and left.
        """
        if not self._saving or self._terminated or code in self._final:
            return None
        if self._self_saver:
            return self._self_saver.step_after(code)
        left = code == control.EXIT_REQUEUE or bool(self._exchange.program().get("requeue"))
        step = newest_checkpoint.newest(self._checkpoints()) if left or code or self._exchange.is_away() else None
        if left and step is None:
            log_line("the program left, but no checkpoint verifies: the job ends here")
        return step if left or (step is not None and step > self._before) else None

    def _listed(self) -> str:
        return self._self_saver.listed() if self._self_saver else newest_checkpoint.listed(self._checkpoints())

    def _checkpoints(self) -> Path:
        return Path(str(self._exchange.program().get("folder") or self.job.checkpoints))

    # parked

    def _park(self, step: int) -> bool:
        """Wait for the requeue. False: it came. True: it did not, so the script is to run again."""
        self._kill_all()
        os.waitpid(self._child, 0)
        self._note(True, step)
        if self._why and os.environ.get("TIRESIAS_NO_REQUEUE"):
            self._exchange.tell("ended", step, self._why)
            words = self._self_saver.ended_words() if self._self_saver else ""
            log_line(f"run {self.job.restart} {words or run_messages.saved_without_requeue(step, self._checkpoints())}")
            return False
        self._exchange.tell("parked", step, self._why)
        limit_words = " before its time limit" if self._why else ""
        what = self._self_saver.said if self._self_saver else f"saved step {step}{limit_words}"
        log_line(f"run {self.job.restart} {what} and waits for the requeue")
        timeout = _seconds(os.environ.get("TIRESIAS_PARK_TIMEOUT"))
        ends = bool(self._why) or time.time() + timeout >= self._end  # by its time limit, while it waits
        if ends:
            timeout = min(timeout, max(0.0, self._end - time.time()) / 2)
        if self._requeue_comes(timeout):
            return False
        if ends:
            return not self._requeue_it()
        where = "what its program saved" if self._self_saver else f"step {step}"
        log_line(f"no requeue came in {timeout:g} s: the script runs again, from {where}")
        return True

    def _requeue_comes(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            received = signal.sigtimedwait(WATCHED, remaining)
            if received and received.si_signo == signal.SIGTERM:
                return True
        return False

    def _requeue_it(self) -> bool:
        """Of a job at its time limit: True when its end came, as it comes in any case.

        A slurmctld that is away ends no job; once it is back there are seconds until it sees that this one is over its limit.
        """
        told, end = "", time.monotonic() + max(0.0, self._end - time.time()) + IDLE
        while problem := time_limit.requeue(os.environ.get("SLURM_JOB_ID", "")):
            if time_limit.is_refused(problem):
                log_line(f"{run_messages.ends_here(self._checkpoints())} Slurm does not requeue it: {problem}")
                return True
            if problem != told:
                log_line(f"nobody requeued this job, and it cannot do so itself: {problem}; trying again")
            told = problem
            if self._requeue_comes(REQUEUE_AGAIN):
                return True
            if time.monotonic() > end:
                return False
        log_line("requeued by itself")
        return self._requeue_comes(end - time.monotonic())

    def _kill_all(self) -> None:
        """What the script left behind would hold its GPU through the requeue."""
        os.killpg(self._child, signal.SIGKILL)
        marks = {"TIRESIAS_CONTROL": str(self.job.control), "SLURM_JOB_ID": os.environ.get("SLURM_JOB_ID", "")}
        if left := job_processes.kill_all(marks):
            log_line(f"killed what was left of the run: {left} processes here")


def _self_saver(job: jobs.Job, exchange: ControlChannel) -> SelfSaver | None:
    if not os.environ.get("TIRESIAS_CHECKPOINT"):
        return None
    from tiresias.wrappers import self_saver  # here: few jobs have the option

    return self_saver.make(job, exchange.run_before(), exchange.last_program())


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text)) if text else PARK_TIMEOUT
    except ValueError:
        return PARK_TIMEOUT


def main() -> None:
    """`supervisor BATCH_SCRIPT [ARGUMENTS]`, in the batch step."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    inserted.adopt(os.environ)
    try:
        script = extract(Path(sys.argv[1]), Path(os.environ.get("TMPDIR") or "/tmp"))
    except (OSError, ValueError) as error:
        log_line(f"the user's script cannot be taken out of the batch script: {error}")
        sys.exit(1)
    os.environ["TIRESIAS_SCRIPT"] = script.kind
    try:
        code = Supervisor(jobs.from_env(os.environ), script, sys.argv[2:], set(mask)).run()
    except OSError as error:
        log_line(f"the user's script cannot be started: {error}")
        code = 126 if error.errno else 1
    script.remove()
    exit_status.exit_as(code)


if __name__ == "__main__":
    main()
