"""The model's cluster: jobs of two nodes of four GPUs with their own clock, owners, administrators and supervisors."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.chaos.model_job import (
    ADMIN,
    CLEAN_UP,
    CONTROLLER,
    GPUS,
    NODES,
    PARK_TIMEOUT,
    REQUEUE_DELAY,
    ModelJob,
    ModelRun,
)
from tiresias.protocol import control
from tiresias.slurm_plugin.backends.interface import NodeShare


class ModelCluster:
    """Jobs, two nodes and their clock, and what users, administrators and nodes do."""

    def __init__(self, control_root: Path) -> None:
        self.now = 1_000_000.0
        self.boot = 0.0
        self.jobs: dict[str, ModelJob] = {}
        self.down: set[str] = set()
        self.before_call: Callable[[str], None] = lambda operation: None  # may raise SlurmUnavailable or Killed
        self.after_call: Callable[[str], None] = lambda operation: None
        self.shown: list[ModelRun] = []  # in the last snapshot
        self.forgotten_requests: list[str] = []  # jobs that got another limit of their nodes back than their owners'
        self._saved: dict[str, ModelJob] = {}
        self._root = control_root

    # -- what users, admins and nodes do ------------------------------------------------------------------------------

    def submit(self, job_id: str, gpus: int, work: float, habit: str, wait: float, account: str = "") -> ModelJob:
        moment = int(self.now)
        job = ModelJob(job_id, gpus, work, habit, moment, account, submit_time=moment, begin_time=moment + wait)
        self.jobs[job_id] = job
        return job

    def cancel(self, job: ModelJob) -> None:
        if job.state == "RUNNING":
            self._end_run(job, "CANCELLED")
        elif job.state == "PENDING":
            job.state, job.end_time = "CANCELLED", int(self.now)

    def user_requeue(self, job: ModelJob) -> None:
        if job.state == "RUNNING":
            self._requeue(job)

    def set_hold(self, job: ModelJob, holder: str) -> None:
        if job.state in ("PENDING", "RUNNING"):
            job.holder = holder

    def lift_hold(self, job: ModelJob, holder: str) -> None:
        """Owners lift their own, admins any."""
        if job.holder == holder or (holder == ADMIN and job.holder):
            job.holder = ""

    def depend(self, job: ModelJob, other: ModelJob) -> None:
        """Owners let a waiting job depend on the end of an earlier one (afterany)."""
        if job.state == "PENDING" and int(other.id) < int(job.id) and not other.over:
            job.after = other.key

    def move(self, job: ModelJob, account: str) -> None:
        """Owners move a waiting job to another account."""
        if job.state == "PENDING":
            job.account = account

    def node_down(self, node: str) -> None:
        self.down.add(node)
        for job in self.jobs.values():
            if job.state == "RUNNING" and any(share.node == node for share in job.shares):
                self._requeue(job)
                job.hides_limit = True

    def purge(self, job: ModelJob) -> None:
        if job.over:
            del self.jobs[job.id]

    # -- time -----------------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            for job in self.jobs.values():
                self._clean_up(job)
                self._work(job, 0.5)
            for job in self.jobs.values():
                self._schedule(job)

    def save_state(self) -> None:
        """What slurmctld shows when it is killed next."""
        self._saved = {job.id: replace(job) for job in self.jobs.values() if job.state == "PENDING"}

    def forget(self, halfway: bool) -> list[str]:
        """slurmctld is killed: what was started but does not run yet is as it was, `halfway` with the pin, which was saved. What an
        administrator held since is free again, and so is what the controller held. A dependency is as it was. Returns the jobs that
        this holds again."""
        found, self.boot = list[str](), self.now
        for job in self.jobs.values():
            job.hides_limit = job.state == "PENDING"
            job.unknown_limit |= job.hides_limit and self.now < job.submit_time
            before = self._saved.get(job.id)
            is_same = before and job.state == "PENDING" and (before.key, before.restarts) == (job.key, job.restarts)
            if before and is_same and job.is_pinned and not job.holder and before.holder == CONTROLLER:
                self._forget_start(job, before, halfway)
                found.append(job.id)
            elif job.is_pinned and job.holder == ADMIN:
                job.holder = ""
            elif before and is_same and not job.is_pinned:
                job.after = before.after
                job.holder = "" if before.holder == "" and job.holder == CONTROLLER else job.holder
        return found

    @staticmethod
    def _forget_start(job: ModelJob, before: ModelJob, halfway: bool) -> None:
        job.holder = CONTROLLER
        if not halfway:
            job.pin, job.only, job.begin_time = before.pin, before.only, before.begin_time

    def step_clock(self, seconds: float) -> None:
        """Set the whole machine's clock: recorded times stay, what is under way takes as long as before."""
        self.now += seconds
        for job in self.jobs.values():
            for moment in ("completing_until", "saving_until", "parked_until"):
                if getattr(job, moment):
                    setattr(job, moment, getattr(job, moment) + seconds)
            for run in job.runs:
                run.stepped = True

    def _clean_up(self, job: ModelJob) -> None:
        if job.completing and self.now >= job.completing_until:
            job.completing_until, job.shares = 0.0, ()
            if job.state == "PENDING":
                job.submit_time, job.begin_time = int(self.now), self.now + REQUEUE_DELAY

    def _work(self, job: ModelJob, seconds: float) -> None:
        if job.state != "RUNNING":
            return
        if job.saving_until and self.now >= job.saving_until:
            job.saving_until, job.parked_until = 0.0, self.now + PARK_TIMEOUT
            self._report(job, "parked")
        if job.parked_until:
            if self.now >= job.parked_until:  # no requeue came: its script runs again
                job.parked_until = 0.0
                self._report(job, "running")
        elif not job.saving_until:
            job.work -= seconds
            if job.work <= 0:
                self._end_run(job, "COMPLETED")

    def _schedule(self, job: ModelJob) -> None:
        if job.state != "PENDING" or job.completing or job.holder:
            return
        if job.after and not any(other.key == job.after and not other.over for other in self.jobs.values()):
            job.after = ""  # of a held job Slurm does not find that out (measured on 26.05)
        if job.after or job.begin_time > self.now:
            return
        shares = self._placement(job)
        if shares:
            job.state, job.shares, job.start_time = "RUNNING", shares, int(self.now)
            job.runs.append(ModelRun(job.restarts, job.start_time))
            job.saving_until = job.parked_until = 0.0
            self._report(job, "running")

    def _placement(self, job: ModelJob) -> tuple[NodeShare, ...]:
        free = self._free()
        nodes = job.pin or job.only or tuple(sorted(free, key=lambda node: free[node]))
        left, shares = job.gpus, []
        for place, node in enumerate(nodes):
            least = len(nodes) - place - 1 if job.pin else 0  # an exact pin uses all of its nodes
            count = min(left - least, free.get(node, 0))
            if count > 0:
                shares.append(NodeShare(node, count, count, count * 100))
                left -= count
        fits = not left and (not job.pin or len(shares) == len(nodes))
        return tuple(shares) if fits else ()

    def _free(self) -> dict[str, int]:
        free = {node: GPUS for node in NODES if node not in self.down}
        for job in self.jobs.values():
            for share in job.shares:
                if share.node in free:
                    free[share.node] -= share.gpus
        assert all(count >= 0 for count in free.values()), "GPUs given twice"
        return free

    def _end_run(self, job: ModelJob, state: str) -> None:
        job.state, job.end_time, job.completing_until = state, int(self.now), self.now + CLEAN_UP
        job.runs[-1].end, job.runs[-1].exact = job.end_time, True
        job.saving_until = job.parked_until = 0.0
        self._report(job, "ended")

    def _requeue(self, job: ModelJob, exact: bool = False) -> None:
        job.runs[-1].end, job.runs[-1].exact = int(self.now), exact
        job.state, job.completing_until = "PENDING", self.now + CLEAN_UP
        job.restarts, job.start_time, job.submit_time = job.restarts + 1, 0, int(self.now)
        job.hides_limit = False
        job.saving_until = job.parked_until = 0.0

    def _report(self, job: ModelJob, state: str) -> None:
        """Write what its supervisor and its program write."""
        folder = control.job_folder(self._root, os.getuid(), job.id)
        folder.mkdir(parents=True, exist_ok=True)
        if job.habit not in ("dumb", "restart"):
            control.write(folder, control.PROGRAM, {"restart": job.restarts, "ready": True, "step": 1, "save": 0.5})
        choice = "restart" if job.choice == "restart" else "yes"
        supervisor = {"restart": job.restarts, "state": state, "step": 1, "opportunistic": choice}
        control.write(folder, control.SUPERVISOR, supervisor)
