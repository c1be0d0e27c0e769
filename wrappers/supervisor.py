"""The in-job supervisor: the batch script of tsbatch ends in it, and it runs the user's script.

It requests a save from the program at the checkpoint signal or near the time limit, verifies the checkpoint, and waits for the
requeue. Any other signal goes to the user's script; the exit code or signal of the script is that of the job. A problem of the
supervisor must never end a job: without control folder or checkpoint folder the script simply runs. A job has one supervisor, on
its first node.

Its states, each in supervisor.json (protocol/control.py):

    running --checkpoint signal, or the time limit, and the program can save--> saving --it left with a checkpoint--> parked
    saving --an image cannot be dumped--> running
    parked --SIGTERM (requeue)--> exit 99             parked --PARK_TIMEOUT: no requeue came--> running, the script from its top
    running, saving --the script ended, or ended with a final exit code--> ended, with its exit code or signal

A job that parked for its time limit, or shortly before it, requests the requeue from Slurm itself when none comes. A job submitted
with --no-requeue ends once it has saved for its time limit: waiting would only hold its GPUs.
It starts with every job, perhaps sixty at once: it imports little, and the verification only when needed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tiresias.protocol import control, environment
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import exit_status, inserted, newest_checkpoint, opportunistic, run_messages, time_limit
from tiresias.wrappers import job as jobs
from tiresias.wrappers.control_channel import ControlChannel
from tiresias.wrappers.images import option
from tiresias.wrappers.limit_watch import LimitWatch
from tiresias.wrappers.parking import Parking, timeout_from
from tiresias.wrappers.remote_memory_notes import RemoteMemoryNotes
from tiresias.wrappers.requested_save import RequestedSave, kill_run
from tiresias.wrappers.user_script import UserScript, extract

if TYPE_CHECKING:
    from tiresias.wrappers.following import Following
    from tiresias.wrappers.gpu_activity.activity_watch import ActivityWatch
    from tiresias.wrappers.outside_save import OutsideSave

POLL_S = 0.1  # between polls of a program that is saving
IDLE_S = 3600.0  # between polls when nothing is expected
TOGETHER_S = 1.0  # Slurm ends a job with SIGCONT and SIGTERM, to every process of it
UNTOUCHABLE = {signal.SIGKILL, signal.SIGSTOP}
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
LIMIT_SIGNAL = signal.Signals[f"SIG{control.LIMIT_SIGNAL}"]
WATCHED = (
    signal.valid_signals() - UNTOUCHABLE - FAULTS - {signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGPIPE}
)


class Supervisor:
    """Runs the user's script for one job, over all its runs within one allocation."""

    def __init__(self, job: jobs.Job, script: UserScript, arguments: list[str], mask: set[int]) -> None:
        self.job, self._channel = job, ControlChannel(job)
        self._command = [*script.command, *arguments]
        self._mask = mask  # the signals that were blocked at the start
        self._signal = getattr(signal, f"SIG{job.signal_name}", signal.SIGUSR2)
        self._child = 0
        self._save: RequestedSave | None = None
        self._terminated = False
        self._why = ""  # of the save: "limit", or "" for a preemption
        self._before = -1  # the newest checkpoint when the save was requested
        self._continued = -TOGETHER_S
        self._limit = LimitWatch(self._channel, os.environ)
        self._final = exit_status.final_codes(os.environ)
        self._outside = _outside_save(job, self._channel, script)
        self._following, self._activity = _following(job), _activity(job)
        self._memory = RemoteMemoryNotes(job, os.environ)

    def run(self) -> int:
        """Run the script until the job ends; return its status (exit_status.py)."""
        self._memory.begin()
        try:
            return self._runs()
        finally:
            self._memory.end()
            if self._outside:
                self._outside.close()

    def _runs(self) -> int:
        self._report_previous_run()
        while True:
            self._start()
            code = self._attend()
            self._limit.stop()
            for each in filter(None, (self._following, self._activity)):
                each.end()
            step = self._saved(code)
            if step is None and self._outside and self._outside.stays:
                self._has_failed_to_save()
                continue
            if step is None:
                return self._ended(code)
            if not self._park(step):
                return control.EXIT_REQUEUE

    def _report_previous_run(self) -> None:
        before = self._channel.run_before()
        restart = control.integer(before.get("restart"))
        if not 0 <= restart < self.job.restart:
            return
        if before.get("state") == "parked" and before.get("why") == "limit":
            log_line(
                f"run {self.job.restart} begins with a new time limit; run {restart} saved before its own was over"
            )
        if before.get("state") in ("running", "saving"):
            log_line(run_messages.cut_off(self.job.restart, restart, opportunistic.chosen(os.environ)))

    def _ended(self, code: int) -> int:
        capable = self._channel.is_capable()
        if code and capable:
            words = run_messages.ended(code, self._terminated, code in self._final)
            log_line(f"run {self.job.restart} ended with {words}; {self._listed()}")
        if code == 0 or capable:
            self._note(capable, control.integer(self._channel.program().get("step")))
        self._channel.publish("ended", why=self._why)
        return code

    def _note(self, registered: bool, step: int) -> None:
        """Record the result for the owner's next job of this script. A job that failed before its program registered has none."""
        from tiresias.wrappers import previous_job  # here: at an end only

        if self.job.control:
            shown = previous_job.PreviousJob(self.job.id, registered, step)
            previous_job.note(self.job.control, os.environ.get(environment.SCRIPT, ""), shown)

    # the user's script

    def _start(self) -> None:
        self._save, self._why = None, ""
        self._channel.begin()
        env = self.job.child_env(os.environ)
        if self._outside:
            self._outside.begin()
            env = self._outside.child_env(env)
        command = self._outside.command(self._command) if self._outside else self._command
        self._channel.publish("running")
        self._child = os.posix_spawnp(
            command[0],
            command,
            env,
            setpgroup=0,
            setsigmask=self._mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
        )
        self._limit.begin()
        if self._following:
            self._following.begin()
        if self._activity:
            self._activity.schedule()

    def _attend(self) -> int:
        """Wait for the script's end and return its status (exit_status.py). It stays a zombie: its group keeps its number."""
        while True:
            if received := signal.sigtimedwait(WATCHED, self._pause()):
                self._received(received.si_signo)
            if ended := os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return exit_status.status(ended)
            if self._activity:
                self._activity.poll()
            self._memory.poll()
            if self._save:
                self._save.poll()
                self._drop_failed_save()
            else:
                self._poll_limit()

    def _pause(self) -> float:
        if self._save:
            return POLL_S
        watch = self._activity.wait() if self._activity else IDLE_S
        return min(IDLE_S, watch, self._memory.wait(), self._limit.wait())

    def _received(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGCONT:
            self._continued = time.monotonic()
        if number == signal.SIGTERM:
            self._terminated = True
        if number == LIMIT_SIGNAL:
            self._limit.request()
        if number == self._signal and self._channel.is_away():
            log_line("preemption requested, but the control folder is unavailable: the script continues")
        elif number == self._signal and (self._save or self._channel.is_capable()):
            self._request_save()
        elif not self._whole_job_got(number):
            os.kill(self._child, number)

    def _whole_job_got(self, number: int) -> bool:
        """Whether Slurm sent the signal to all processes, such as SIGCONT and SIGTERM at a job's end: the script got it too."""
        if number == signal.SIGCONT:
            return True
        pending = signal.SIGCONT in signal.sigpending()
        return number == signal.SIGTERM and (pending or time.monotonic() - self._continued < TOGETHER_S)

    def _poll_limit(self) -> None:
        self._limit.poll()
        if not self._terminated and self._limit.is_near():
            self._request_save("limit")

    # saving

    def _request_save(self, why: str = "") -> None:
        if self._save:
            return
        if not self._outside and self._channel.program() and not self._channel.registered():
            if why:
                self._limit.give_up()
            log_line("checkpoint requested, but the program has ended: the script continues")
            return
        self._terminated, self._why = False, why
        self._before = control.integer(self._channel.program().get("step"))
        self._channel.publish("saving", why=why)
        late_in = self._limit.lead() / 2 if why else time_limit.save_deadline(os.environ)
        end = self._limit.end if why else None
        self._save = RequestedSave(self.job, self._channel, self._outside, self._child, self._signal, late_in, end)
        reason = "the time limit is near" if why else "preemption requested"
        log_line(f"{reason}: {self._save.request()}")

    def _drop_failed_save(self) -> None:
        if self._save and self._save.has_failed():
            self._has_failed_to_save()
            self._save, self._why = None, ""
            self._channel.publish("running")

    def _has_failed_to_save(self) -> None:
        if self._why:
            self._limit.give_up()

    def _saved(self, code: int) -> int | None:
        """Return the step to resume from when the script ended because of a requested save; None when it ended by itself.

        When the first rank leaves, its launcher may kill the others with any exit code, before rank 0 has reported. A checkpoint
        that is newer than the request is then the evidence. It is also where the control folder is unavailable, and the program's
        report with it: the script may have continued after a program that saved and left.
        """
        if not self._save or self._terminated or code in self._final:
            return None
        if self._outside:
            return self._outside.step_after(code)
        left = code == control.EXIT_REQUEUE or bool(self._channel.program().get("requeue"))
        step = newest_checkpoint.newest(self._checkpoints()) if left or code or self._channel.is_away() else None
        if left and step is None:
            log_line("the program left, but no checkpoint verifies: the job ends here")
        return step if left or (step is not None and step > self._before) else None

    def _listed(self) -> str:
        return self._outside.listed() if self._outside else newest_checkpoint.listed(self._checkpoints())

    def _checkpoints(self) -> Path:
        return Path(str(self._channel.program().get("folder") or self.job.checkpoints))

    # parked

    def _park(self, step: int) -> bool:
        """Wait for the requeue; return whether the script must run again because none came."""
        kill_run(self.job, self._child)
        os.waitpid(self._child, 0)
        self._note(True, step)
        if self._why and os.environ.get(environment.NO_REQUEUE):
            self._channel.publish("ended", step, self._why)
            words = self._outside.ended_words() if self._outside else ""
            log_line(f"run {self.job.restart} {words or run_messages.saved_without_requeue(step, self._checkpoints())}")
            return False
        self._channel.publish("parked", step, self._why)
        limit_words = " before its time limit" if self._why else ""
        what = self._outside.result if self._outside else f"saved step {step}{limit_words}"
        log_line(f"run {self.job.restart} {what} and waits for the requeue")
        timeout, end = timeout_from(os.environ), self._limit.end
        parking = Parking(self.job.id, WATCHED, end)
        ends = bool(self._why) or time.time() + timeout >= end  # by its time limit, while it waits
        if ends:
            timeout = min(timeout, max(0.0, end - time.time()) / 2)
        if parking.requeue_comes(timeout):
            return False
        if ends:
            return not parking.requeue_itself(self._checkpoints())
        where = self._outside.source() if self._outside else f"step {step}"
        log_line(f"no requeue came in {timeout:g} s: the script runs again, from {where}")
        return True


def _outside_save(job: jobs.Job, channel: ControlChannel, script: UserScript) -> OutsideSave | None:
    """Raises OSError for a job that has an image and cannot be restored on this node."""
    if not os.environ.get(environment.CHECKPOINT):
        return None
    if option.is_chosen(os.environ):
        from tiresias.wrappers.images import image_saver  # here: few jobs have the option

        return image_saver.make(job, script.path)
    from tiresias.wrappers import self_saver

    return self_saver.make(job, channel.run_before(), channel.last_program())


def _following(job: jobs.Job) -> Following | None:
    if not os.environ.get(environment.STEPS_FROM):
        return None
    from tiresias.wrappers import following  # here: few jobs have the option

    return following.Following(job, os.environ)


def _activity(job: jobs.Job) -> ActivityWatch | None:
    if job.control is None or not os.environ.get("SLURM_JOB_GPUS", os.environ.get("SLURM_GPUS_ON_NODE")):
        return None
    from tiresias.wrappers.gpu_activity import activity_watch  # here: jobs without GPUs need none

    return activity_watch.ActivityWatch(job, os.environ)


def main() -> None:
    """`supervisor BATCH_SCRIPT [ARGUMENTS]`, in the batch step."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    inserted.adopt(os.environ)
    try:
        script = extract(Path(sys.argv[1]), Path(os.environ.get("TMPDIR") or "/tmp"))
    except (OSError, ValueError) as error:
        log_line(f"the user's script cannot be taken out of the batch script: {error}")
        sys.exit(1)
    os.environ[environment.SCRIPT] = script.kind
    try:
        code = Supervisor(jobs.from_env(os.environ), script, sys.argv[2:], set(mask)).run()
    except OSError as error:
        log_line(f"the user's script cannot be started: {error}")
        code = 126 if error.errno else 1
    script.remove()
    exit_status.exit_as(code)


if __name__ == "__main__":
    main()
