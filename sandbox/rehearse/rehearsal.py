"""The rehearsal itself: run, preempt, resume, and a finding for each thing that must hold.

It follows the preemption contract with the rights of the job's owner: checkpoint signal to the batch shell, wait for the
supervisor to say that a checkpoint verifies, requeue. The first finding that is missing ends it where nothing could follow.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tiresias.protocol.control import JobReport
from tiresias.sandbox.rehearse.slurm import LOOK, JobRefused, OwnJob
from tiresias.slurm_plugin.backends.protocol import SlurmJob

CLEAN_UP = 120.0  # seconds for Slurm to clean up after a requeue: KillWait and more
TAIL = 6  # lines of the log that are shown when a run failed

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """fine: it holds. what: in plain words. advice: what to do where it does not."""

    fine: bool
    what: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Wishes:
    """after: seconds of training before the preemption. deadline: seconds for the save. startup: seconds to the first step.
    queue: seconds to wait for nodes. compare: files, in the job's folder, that an undisturbed run must write alike."""

    after: float = 10.0
    deadline: float = 120.0
    startup: float = 300.0
    queue: float = 3600.0
    compare: tuple[str, ...] = ()


@dataclass
class Rehearsal:
    words: Sequence[str]  # sbatch's options and the script
    wishes: Wishes
    say: Say
    findings: list[Finding] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # save, pause, restore

    def run(self) -> bool:
        """Whether all is fine. The job is cancelled at the end where it has not ended."""
        self.job = OwnJob(self.words)
        self.say(f"submitted job {self.job.id}")
        try:
            if self._wrapped() and self._trains(0) and self._saves() and self._leaves() and self._resumes():
                self._compares() if self.wishes.compare else self._goes_on()
        finally:
            self.job.cancel()
        return all(one.fine for one in self.findings)

    def document(self) -> dict[str, Any]:
        return {"job": self.job.id, "seconds": self.seconds, "findings": [asdict(one) for one in self.findings]}

    # the acts

    def _wrapped(self) -> bool:
        return not self.job.left_alone or self._missing(
            f"tsbatch cannot wrap this script: {self.job.words}", "see above"
        )

    def _trains(self, run: int) -> bool:
        """Until the program of this run has made its first step; then, in the first run, for a while more."""
        if not self._until(lambda: self._is(run, "RUNNING") or self._over(), self.wishes.queue):
            return self._missing(
                f"run {run} did not start within {self.wishes.queue:g} s: {self._reason()}", "ask for less"
            )
        self.say(f"run {run} has started")
        self._until(lambda: self._said(run).ready or bool(self._said(run).refused) or self._over(), self.wishes.startup)
        if not self._said(run).ready:
            return self._never_ready(run)
        if run:
            return True
        self.say(f"it trains; in {self.wishes.after:g} s it is preempted")
        self._until(self._over, self.wishes.after)
        return not self._over() or self._missing(
            f"the job ended by itself before {self.wishes.after:g} s of training",
            "rehearse with more steps, or --after less",
        )

    def _never_ready(self, run: int) -> bool:
        if refused := self._said(run).refused:
            return self._missing(f"it would never be preempted: {refused}", "install the same release on both sides")
        if not self._over():
            return self._missing(
                f"the program never said that it can save (in {self.wishes.startup:g} s), so it would never be preempted",
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
        """The checkpoint signal, and what comes of it."""
        job = self.job.record(fresh=True)
        self._nodes = [share.node for share in job.shares] if job else []
        began = time.monotonic()
        self.job.signal()
        self.say("told it to save and leave")
        self._until(lambda: self._said(0).state == "parked" or self._over(), self.wishes.deadline)
        said = self._said(0)
        if said.state == "parked":
            self._step, self.seconds["save"] = said.step, said.save or 0.0
            self.seconds["pause"] = round(time.monotonic() - began, 3)
            return self._fine(f"saved step {said.step} and left {self.seconds['pause']:.1f} s after the signal")
        return self._does_not_save()

    def _does_not_save(self) -> bool:
        folder, deadline = self.job.checkpoints, self.wishes.deadline
        if not self._over():
            return self._missing(
                f"no checkpoint within {deadline:g} s of the signal: the program goes on, or its save takes longer",
                "where should_stop(step) is True: save(step, state), then exit_for_requeue(); or a longer --deadline",
            )
        job = self.job.record(fresh=True)
        if job and job.exit_code == 99:
            return self._missing(
                f"it left with exit code 99, but no checkpoint in {folder} verifies", "call save() before"
            )
        return self._missing(
            f"told to save, it {self._end()}, not with 99", "after save() call exit_for_requeue()\n" + self._tail()
        )

    def _leaves(self) -> bool:
        """Back to the queue, as the controller does it; the next run on other nodes where some are idle."""
        self._log = self.job.files().get("StdOut", Path("/nonexistent"))
        self._before = _size_and_hash(self._log)
        try:
            self.job.requeue()
        except JobRefused as error:
            return self._missing(f"Slurm does not requeue it: {error}", "submit without --no-requeue, as a batch job")
        if not self._until(lambda: self._is(1, "PENDING") or self._is(1, "RUNNING"), CLEAN_UP):
            return self._missing(
                f"it did not come back to the queue within {CLEAN_UP:g} s", "processes that ignore SIGTERM?"
            )
        job = self.job.record(fresh=True)
        self._elsewhere = bool(job and job.state == "PENDING" and self.job.elsewhere(job, self._nodes))
        where = "on other nodes" if self._elsewhere else "wherever there is room"
        self.say(f"requeued; it starts again {where}")
        return True

    def _resumes(self) -> bool:
        if not self._trains(1):
            return False
        said = self._said(1)
        self.seconds["restore"] = round(said.restore or 0.0, 3)
        step, where = self._step, " on other nodes" if self._elsewhere else ""
        if said.resumed <= 0 < step:
            return self._missing(
                f"run 1 started from the beginning, though step {step} was saved",
                "call restore() before the loop, and go on from found.step with found.state",
            )
        if said.resumed != step:
            return self._missing(
                f"run 1 resumed from step {said.resumed}, not from {step}", "look for 'set aside' in the log"
            )
        if said.at < step:
            return self._missing(
                f"run 1 restored step {step}, but its loop began at step {said.at}", "begin the loop at found.step"
            )
        return self._fine(f"resumed from step {step}{where}, {self.seconds['restore']:.1f} s after its start")

    def _goes_on(self) -> None:
        self._until(self._over, min(self.wishes.after, 10.0))
        job = self.job.record(fresh=True)
        if self._over() and (job is None or job.state != "COMPLETED"):
            self._missing(f"after it had resumed, it {self._end()}", self._tail())
            return
        self._fine("trains on")
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
        """To the end, and once more without any disturbance: the files must be the same, byte by byte."""
        self.say("it goes on to its end, then runs once more undisturbed")
        mine = self._results()
        first, self.job = self.job, OwnJob(self.words)
        undisturbed = self._results() if mine else {}
        for name in self.wishes.compare:
            if name not in mine or name not in undisturbed:
                self._missing(f"{name} was not written", f"jobs {first.id} and {self.job.id}: {self._end()}")
            elif mine[name] == undisturbed[name]:
                self._fine(f"{name} is the same, byte by byte, as that of an undisturbed run")
            else:
                self._missing(
                    f"{name} is not the same as that of an undisturbed run",
                    "save all that the next step depends on: optimizer, schedule, random states, position in the data",
                )
        self._keeps_its_log()

    def _results(self) -> dict[str, tuple[int, str]]:
        """Size and hash of each file once the job has ended well."""
        self._until(self._over, self.wishes.queue)
        job, folder = self.job.record(fresh=True), self.job.files().get("WorkDir", Path.cwd())
        if not self._over() or (job and job.state != "COMPLETED"):
            return {}
        return {name: _size_and_hash(folder / name) for name in self.wishes.compare if (folder / name).is_file()}

    # looking

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK)
        return True

    def _said(self, run: int) -> JobReport:
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
        return f"Slurm says {job.reason}" if job else "Slurm has forgotten it"

    def _ended_well(self) -> bool:
        job = self.job.record(fresh=True)
        return job is not None and job.state == "COMPLETED"

    def _end(self) -> str:
        job: SlurmJob | None = self.job.record(fresh=True)
        return f"ended as {job.state} with exit code {job.exit_code}" if job else "ended"

    def _tail(self) -> str:
        """The end of its log, where the reason stands."""
        log = self.job.files().get("StdOut")
        try:
            lines = log.read_bytes()[-4000:].decode(errors="replace").splitlines() if log else []
        except OSError:
            lines = []
        return "\n".join(["the end of its log:", *(f"  {line}" for line in lines[-TAIL:])])

    # finding

    def _fine(self, what: str) -> bool:
        self.findings.append(Finding(True, what))
        return True

    def _missing(self, what: str, advice: str) -> bool:
        self.findings.append(Finding(False, what, advice))
        return False


def _size_and_hash(path: Path, size: int | None = None) -> tuple[int, str]:
    """Of the first `size` bytes, of all by default; (-1, "") where there is no such file."""
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
