"""The rehearsal: run, preempt, resume, and a finding for each requirement.

It follows the preemption contract with the rights of the job's owner: checkpoint signal to the batch shell, wait until the
supervisor reports that a checkpoint verifies, requeue. A missing requirement ends the rehearsal where no further step is
possible.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tiresias.protocol.control import JobReport
from tiresias.protocol.elastic_sizes import FIXED
from tiresias.sandbox.rehearse.other_size import other_size, ranks_differ
from tiresias.sandbox.rehearse.own_job import POLL_INTERVAL_S, JobRefused, OwnJob
from tiresias.sandbox.rehearse.requirements import RehearsalFinding, RehearsalOptions
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.wrappers.images import option

REQUEUE_TIMEOUT_S = 120.0  # for Slurm's clean-up after a requeue: KillWait and more
RANKS_TIMEOUT_S = 10.0  # from the first step of a run until all its ranks have registered
LOG_TAIL_LINES = 6  # shown when a run failed
TAIL_BYTES = 4000

Report = Callable[[str], None]


@dataclass
class Rehearsal:
    """One rehearsal of a script."""

    words: Sequence[str]  # sbatch's options and the script
    options: RehearsalOptions
    report: Report
    findings: list[RehearsalFinding] = field(default_factory=list)
    cannot_save: bool = False  # the program ran and never reported that it can save
    seconds: dict[str, float] = field(default_factory=dict)  # save, pause, restore

    def run(self) -> bool:
        """Run the rehearsal and return whether all requirements are met. The job is cancelled at the end if it has not
        ended.
        """
        self.job = OwnJob(self.words)
        self.report(f"submitted job {self.job.id}")
        try:
            if self._wrapped() and self._trains(0) and self._saves() and self._leaves() and self._resumes():
                self._compares() if self.options.compare else self._goes_on()
        finally:
            self.job.cancel()
        return all(one.fine for one in self.findings)

    def document(self) -> dict[str, Any]:
        """Return the result for --json."""
        return {"job": self.job.id, "seconds": self.seconds, "findings": [asdict(one) for one in self.findings]}

    # the steps of the rehearsal

    def _wrapped(self) -> bool:
        return not self.job.left_alone or self._missing(
            f"tsbatch cannot wrap this script: {self.job.words}", "see above"
        )

    def _trains(self, run: int) -> bool:
        """Wait for the first step of this run; in the first run, train for options.after seconds."""
        if not self._until(lambda: self._is(run, "RUNNING") or self._over(), self.options.queue):
            return self._missing(
                f"run {run} did not start within {self.options.queue:g} s: {self._reason()}", "request less"
            )
        self.report(f"run {run} has started")
        log = self.job.files().get("StdOut", Path("/nonexistent"))
        self._until(
            lambda: self._report_of(run).ready or bool(self._refusal(run, log)) or self._over(), self.options.startup
        )
        if not self._report_of(run).ready:
            return self._never_ready(run, log)
        if run:
            return True
        self.report(f"the program trains; it is preempted in {self.options.after:g} s")
        self._until(self._over, self.options.after)
        return not self._over() or self._missing(
            f"the job ended before {self.options.after:g} s of training",
            "rehearse with more steps or a shorter --after",
        )

    def _refusal(self, run: int, log: Path) -> str:
        """Return why this job would never be preempted, as the controller or, in the job's log, the supervisor reports it."""
        if refused := self._report_of(run).refused:
            return f"{refused}: install the same release on both sides"
        return _tail(log).partition(f"tiresias: {option.NOT_PREEMPTED}")[2].partition("\n")[0]

    def _never_ready(self, run: int, log: Path) -> bool:
        if refusal := self._refusal(run, log):
            why, _, advice = refusal.rpartition(": ")
            return self._missing(f"it would never be preempted: {why}", advice)
        self.cannot_save = not self._over() or (not run and self._ended_well())
        if not self._over():
            return self._missing(
                f"the program did not report within {self.options.startup:g} s that it can save, so it would never be preempted",
                "make a Checkpointer.from_env() and call should_stop(step) at every step",
            )
        if not run and self._ended_well():
            return self._missing(
                "the script ended without a call of should_stop, so its job could not be preempted",
                "make a Checkpointer.from_env() and call should_stop(step) at every step",
            )
        if run:
            return self._missing(f"restoring failed: run {run} {self._end()} before its first step", self._tail())
        return self._missing(f"the script {self._end()} before its first step", self._tail())

    def _saves(self) -> bool:
        """Send the checkpoint signal and wait for the checkpoint."""
        stated = self._report_of(0).elastic
        self._sizes = "" if stated == FIXED else stated
        if not self._uses_its_size(0):
            return False
        job = self.job.record(fresh=True)
        self._nodes = [share.node for share in job.shares] if job else []
        began = time.monotonic()
        self.job.signal()
        self.report("sent the checkpoint signal")
        self._until(lambda: self._report_of(0).state == "parked" or self._over(), self.options.deadline)
        report = self._report_of(0)
        if report.state == "parked":
            self._step, self.seconds["save"] = report.step, report.save or 0.0
            self.seconds["pause"] = round(time.monotonic() - began, 3)
            return self._fine(f"saved step {report.step} and exited {self.seconds['pause']:.1f} s after the signal")
        return self._does_not_save()

    def _does_not_save(self) -> bool:
        folder, deadline = self.job.checkpoints, self.options.deadline
        if not self._over():
            return self._missing(
                f"no checkpoint within {deadline:g} s of the signal: the program continues, or its save takes longer",
                "where should_stop(step) is True: save(step, state), then exit_for_requeue(); or a longer --deadline",
            )
        job = self.job.record(fresh=True)
        if job and job.exit_code == 99:
            return self._missing(
                f"the program exited with code 99, but no checkpoint in {folder} verifies", "call save() first"
            )
        return self._missing(
            f"after the checkpoint signal the job {self._end()}, not with 99",
            "after save() call exit_for_requeue()\n" + self._tail(),
        )

    def _leaves(self) -> bool:
        """Requeue the job as the controller does; the next run uses other nodes where some are idle."""
        self._log = self.job.files().get("StdOut", Path("/nonexistent"))
        self._before = _size_and_hash(self._log)
        try:
            self.job.requeue()
        except JobRefused as error:
            return self._missing(
                f"Slurm does not requeue the job: {error}", "submit without --no-requeue, as a batch job"
            )
        if not self._until(lambda: self._is(1, "PENDING") or self._is(1, "RUNNING"), REQUEUE_TIMEOUT_S):
            return self._missing(
                f"the job was not queued again within {REQUEUE_TIMEOUT_S:g} s",
                "check for processes that ignore SIGTERM",
            )
        job, self._elsewhere, self._gpus = self.job.record(fresh=True), False, 0
        if job and job.state == "PENDING" and self._sizes:
            return self._changes_its_size(job)
        self._elsewhere = bool(job and job.state == "PENDING" and self.job.elsewhere(job, self._nodes))
        where = "on other nodes" if self._elsewhere else "on any free nodes"
        self.report(f"requeued; the job starts again {where}")
        return True

    # elastic jobs

    def _changes_its_size(self, job: SlurmJob) -> bool:
        """Let the requeued job start with another number of GPUs, as the controller does."""
        found = other_size(job, self._sizes)
        if not found.gpus:
            return self._not_elastic(found.why, "other sizes, or another request")
        try:
            self.job.change(found.change)
        except JobRefused as error:
            return self._not_elastic(f"Slurm does not accept it with {found.gpus} GPUs: {error}", "other sizes")
        self._gpus = found.gpus
        self.report(f"requeued; the job starts again with {found.gpus} GPUs in place of {job.gpus}")
        return True

    def _uses_its_size(self, run: int) -> bool:
        job = self.job.record(fresh=True)
        if not self._sizes or job is None or self._report_of(run).alone:
            return True
        self._until(lambda: not ranks_differ(self.job.control_root, job), RANKS_TIMEOUT_S)
        if words := ranks_differ(self.job.control_root, job):
            return self._not_elastic(
                f"the program ignores the number of GPUs: {words}", "start as many ranks as SLURM_NTASKS"
            )
        return self._fine(f"elastic: run {run} used {job.gpus} GPUs")

    def _not_elastic(self, why: str, advice: str) -> bool:
        return self._missing(f"not elastic: {why}", f"{advice}; or submit it without --elastic")

    def _resumes(self) -> bool:
        if not self._trains(1):
            if self._gpus:
                self._not_elastic(f"it does not resume with {self._gpus} GPUs", "restore on any number of ranks")
            return False
        report = self._report_of(1)
        self.seconds["restore"] = round(report.restore or 0.0, 3)
        step, where = self._step, " on other nodes" if self._elsewhere else ""
        if report.resumed <= 0 < step:
            return self._missing(
                f"run 1 started from the beginning, though step {step} was saved",
                "call restore() before the loop, and continue from found.step with found.state",
            )
        if report.resumed != step:
            return self._missing(
                f"run 1 resumed from step {report.resumed}, not from {step}", "look for 'set aside' in the log"
            )
        if report.at < step:
            return self._missing(
                f"run 1 restored step {step}, but its loop began at step {report.at}", "begin the loop at found.step"
            )
        resumed = self._fine(f"resumed from step {step}{where}, {self.seconds['restore']:.1f} s after its start")
        return resumed and self._uses_its_size(1)

    def _goes_on(self) -> None:
        self._until(self._over, min(self.options.after, 10.0))
        job = self.job.record(fresh=True)
        if self._over() and (job is None or job.state != "COMPLETED"):
            self._missing(f"after its resumption the job {self._end()}", self._tail())
            return
        self._fine("training continues")
        self._keeps_its_log()

    def _keeps_its_log(self) -> None:
        size, digest = self._before
        if _size_and_hash(self._log, size) == (size, digest):
            self._fine(f"the log {self._log} was appended to")
        else:
            self._missing(
                f"lines of the first run are gone from {self._log}", "no --open-mode=truncate, no > in the script"
            )

    # compare

    def _compares(self) -> None:
        """Run to the end, and once more without a preemption: the files must be identical."""
        self.report("the job runs to its end, then once more undisturbed")
        preempted = self._results()
        first, self.job = self.job, OwnJob(self.words)
        undisturbed = self._results() if preempted else {}
        for name in self.options.compare:
            if name not in preempted or name not in undisturbed:
                self._missing(f"{name} was not written", f"jobs {first.id} and {self.job.id}: {self._end()}")
            elif preempted[name] == undisturbed[name]:
                self._fine(f"{name} is identical to that of an undisturbed run")
            else:
                self._missing(
                    f"{name} differs from that of an undisturbed run",
                    "save everything that the next step depends on: optimizer, schedule, random states, position in the data",
                )
        self._keeps_its_log()

    def _results(self) -> dict[str, tuple[int, str]]:
        """Return size and hash of each file after the job has completed."""
        self._until(self._over, self.options.queue)
        job, folder = self.job.record(fresh=True), self.job.files().get("WorkDir", Path.cwd())
        if not self._over() or (job and job.state != "COMPLETED"):
            return {}
        return {name: _size_and_hash(folder / name) for name in self.options.compare if (folder / name).is_file()}

    # state of the job

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL_S)
        return True

    def _report_of(self, run: int) -> JobReport:
        found = self.job.report()
        return found if found.restart == run else JobReport()

    def _is(self, run: int, state: str) -> bool:
        job = self.job.record()
        return job is not None and (job.state, job.restarts, job.completing) == (state, run, False)

    def _over(self) -> bool:
        job = self.job.record()
        return job is None or (job.state not in ("PENDING", "RUNNING", "SUSPENDED") and not job.completing)

    def _reason(self) -> str:
        job = self.job.record(fresh=True)
        return f"Slurm's reason: {job.reason}" if job else "the job is no longer known to Slurm"

    def _ended_well(self) -> bool:
        job = self.job.record(fresh=True)
        return job is not None and job.state == "COMPLETED"

    def _end(self) -> str:
        job: SlurmJob | None = self.job.record(fresh=True)
        return f"ended as {job.state} with exit code {job.exit_code}" if job else "ended"

    def _tail(self) -> str:
        """Return the end of the job's log, which contains the reason."""
        lines = _tail(self.job.files().get("StdOut", Path("/nonexistent"))).splitlines()
        return "\n".join(["the end of the log:", *(f"  {line}" for line in lines[-LOG_TAIL_LINES:])])

    # findings

    def _fine(self, what: str) -> bool:
        self.findings.append(RehearsalFinding(True, what))
        return True

    def _missing(self, what: str, advice: str) -> bool:
        self.findings.append(RehearsalFinding(False, what, advice))
        return False


def _tail(log: Path) -> str:
    try:
        return log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
    except OSError:
        return ""


def _size_and_hash(path: Path, size: int | None = None) -> tuple[int, str]:
    """Return size and hash of the first `size` bytes, of all by default; (-1, "") if the file is missing."""
    digest, left = hashlib.sha256(), -1 if size is None else size
    try:
        with path.open("rb") as file:
            total = 0
            while left and (part := file.read(1 << 20 if left < 0 else min(left, 1 << 20))):
                digest.update(part)
                total += len(part)
                left -= len(part) if left > 0 else 0
    except OSError:
        return -1, ""
    return total, digest.hexdigest()
