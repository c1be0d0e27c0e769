"""A model of Slurm at the edge of the back ends' protocol, with its own clock: for tests that need thousands of lives a minute.

It has the facts about requeue, hold and release (pending, running, completing, a hold for each of owner, administrator and
controller, 121 s before a requeued job is eligible), two nodes of four GPUs, and jobs whose supervisors save or do not. It asserts
what a real Slurm would only suffer from: a pin under a running job, GPUs given twice, another holder's hold that the controller
lifts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.chaos.model_cluster import ModelCluster
from tests.chaos.model_job import ADMIN, CONTROLLER, ENDED, GPUS, NODES, OWNER, ModelJob
from tiresias.slurm_plugin.backends.interface import (
    CommentField,
    Comments,
    JobRefused,
    NoSuchJob,
    RequestChange,
    SlurmJob,
    SlurmLoad,
    SlurmNode,
    SlurmSnapshot,
    SlurmUnavailable,
    StatedGpus,
)
from tiresias.slurm_plugin.backends.memory import Memory
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules


class SlurmModel(ModelCluster):
    """The back end: what the controller reads of the cluster, and its operations."""

    name, why = "commands", ""

    def __init__(self, control_root: Path) -> None:
        super().__init__(control_root)
        self.new_life()

    def new_life(self) -> None:
        """A back end's memory ends with the controller."""
        self._memory, self._records = Memory(), dict[str, SlurmJob]()

    # -- reading ------------- ----------------------------------------------------------------------------------------

    def version(self) -> str:
        return "26.05.0"

    def booted(self) -> float:
        return self.boot

    def topology(self, name: str = "") -> str:
        return ""

    def load(self, uid: int) -> SlurmLoad:
        return SlurmLoad(threads=1, queue=0, database_queue=0, calls=0, seconds=0.0)

    def rules(self) -> SlurmRules:
        return SlurmRules()

    def snapshot(self) -> SlurmSnapshot:
        self.before_call("snapshot")
        self.shown = [job.runs[-1] for job in self.jobs.values() if job.state == "RUNNING"]
        found = tuple(self._memory.fill_each([self._record(job) for job in self.jobs.values()], self.now))
        self.after_call("snapshot")
        return SlurmSnapshot(self.now, found, tuple(self._node(name) for name in NODES))

    def job(self, job_id: str) -> SlurmJob:
        self.before_call("job")
        found = self._memory.fill(self._record(self._find(job_id)), self.now)
        self.after_call("job")
        return found

    def _find(self, job_id: str) -> ModelJob:
        if job_id not in self.jobs:
            raise NoSuchJob(f"job {job_id}: gone")
        return self.jobs[job_id]

    def _record(self, job: ModelJob) -> SlurmJob:
        """Return the same object until the record changes, as the back ends do."""
        found = self._new_record(job)
        if self._records.get(job.id) != found:
            self._records[job.id] = found
        return self._records[job.id]

    def _new_record(self, job: ModelJob) -> SlurmJob:
        free = "Dependency" if job.after else "Resources"
        reason = {"": free, OWNER: "JobHeldUser", ADMIN: "JobHeldAdmin", CONTROLLER: "JobHeldAdmin"}[job.holder]
        running = job.state == "RUNNING"
        return SlurmJob(
            id=job.id, raw_id=int(job.id), array_id=0, het_id=0, name=job.id, user="alice", uid=os.getuid(),
            account=job.account, opportunistic=job.choice,
            partition="gpu", state=job.state, completing=job.completing, reason="None" if running else reason,
            priority=0 if job.holder else 100, restarts=job.restarts, submit_time=job.submit_time,
            begin_time=int(job.begin_time), start_time=0 if job.state == "PENDING" else job.start_time,
            end_time=job.end_time if job.state in ENDED else 0, time_limit=0, gpus=job.gpus, gpu_type="", gpus_per_node=0,
            min_nodes=len(job.pin) or 1, max_nodes=job.shown_limit, cpus=job.gpus, memory_per_node=0,
            memory_per_cpu=100, features="", required_nodes=job.pin, excluded_nodes=job.excluded,
            shares=job.shares if running or job.completing else (), requeue=True, batch=True, reservation="",
            dependency=f"afterany:{job.after}" if job.after else "", exit_code=-1, tasks=job.gpus,
        )  # fmt: skip

    def _node(self, name: str) -> SlurmNode:
        return SlurmNode(
            name=name, state="DOWN" if name in self.down else "IDLE", flags=frozenset(), reason="", gpus=GPUS,
            gpus_allocated=0, gpu_type="", cpus=GPUS, cpus_allocated=0, memory=64000, memory_allocated=0, features=(),
            partitions=("gpu",),
        )  # fmt: skip

    # -- operations -------- ------------------------------------------------------------------------------------------

    def hold(self, job_id: str) -> None:
        self._do("hold", job_id, self._hold)

    def release(self, job_id: str) -> None:
        self._do("release", job_id, self._release)

    def lift(self, job_id: str) -> None:
        self._do("release", job_id, self._release)

    def begin_now(self, job_id: str) -> None:
        self._do("begin_now", job_id, self._begin_now)

    def pin(self, job_id: str, change: RequestChange) -> None:
        self._do("pin", job_id, lambda job: self._pin(job, change))

    def prioritize(self, job_id: str) -> None:
        self._do("prioritize", job_id, self._prioritize)

    def unpin(self, job_id: str, change: RequestChange) -> None:
        self._do("unpin", job_id, lambda job: self._unpin(job, change))

    def signal(self, job_id: str, signal: str) -> None:
        self._do("signal", job_id, self._signal)

    def requeue(self, job_id: str) -> int:
        self._do("requeue", job_id, self._requeue_by_controller)
        return int(self.now)

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.requeue(job_id)

    def stated_gpus(self, job_id: str) -> tuple[StatedGpus, ...]:
        return ()

    def batch_script(self, job_id: str) -> bytes:
        return b""

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        return {}

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        raise AssertionError(f"a comment of {names} though the model shows none")

    def close(self) -> None:
        """Nothing is kept open."""

    def _do(self, name: str, job_id: str, operation: Callable[[ModelJob], None]) -> None:
        self.before_call(name)
        job = self._find(job_id)
        if job.state in ENDED and name != "requeue":
            raise JobRefused(f"job {job_id}: Job/step already completing or completed")
        operation(job)
        self.after_call(name)

    def _hold(self, job: ModelJob) -> None:
        assert job.holder in ("", CONTROLLER), (
            f"job {job.id}: a hold of the controller replaces that of its {job.holder}"
        )
        job.holder = CONTROLLER

    def _release(self, job: ModelJob) -> None:
        assert job.holder in ("", CONTROLLER), f"job {job.id}: the controller lifts the hold of its {job.holder}"
        job.holder = ""
        if job.state == "PENDING" and job.restarts:
            job.begin_time = self.now

    def _begin_now(self, job: ModelJob) -> None:
        assert job.state == "PENDING", f"job {job.id}: a begin time of one that is {job.state}"
        job.begin_time = self.now

    def _pin(self, job: ModelJob, change: RequestChange) -> None:
        assert job.state == "PENDING", f"job {job.id}: a pin under a job that is {job.state}"
        assert not job.completing, f"job {job.id}: started while it is cleaned up"
        job.pin, job.only = change.required or job.pin, change.only or job.only
        job.begin_time = self.now

    def _prioritize(self, job: ModelJob) -> None:
        """The model starts jobs in the order of their ids; priorities are tested with the real Slurm."""
        if job.holder:
            raise JobRefused(f"job {job.id}: Job is held")

    def _unpin(self, job: ModelJob, change: RequestChange) -> None:
        """Slurm itself refuses to change the excluded nodes of a running job: no hold is needed for these alone."""
        if change.required is None and change.nodes is None:
            if job.state != "PENDING":
                raise JobRefused(f"job {job.id}: Job is no longer pending execution")
        else:
            assert job.state == "PENDING", f"job {job.id}: unpinned while it is {job.state}"
            assert job.holder or job.begin_time > self.now, f"job {job.id}: unpinned while it may start"
        if change.nodes is not None and change.nodes[1] != job.max_nodes and not job.unknown_limit:
            self.forgotten_requests.append(f"{job.id}: {change.nodes}, not {job.max_nodes}")
        job.pin = job.pin if change.required is None else change.required
        job.only = job.only if change.excluded is None else ()

    def _signal(self, job: ModelJob) -> None:
        if job.state != "RUNNING":
            raise JobRefused(f"job {job.id}: is not running: nothing to signal")
        if job.habit in ("good", "slow") and not job.saving_until and not job.parked_until:
            job.saving_until = self.now + (1.0 if job.habit == "good" else 30.0)
            self._report(job, "saving")

    def _requeue_by_controller(self, job: ModelJob) -> None:
        if job.state in ENDED:
            return
        if job.state != "RUNNING":
            raise JobRefused(f"job {job.id}: Job is pending execution")
        self._memory.requeuing(job.id, int(self.now))
        self._requeue(job, exact=True)


def unavailable(name: str) -> None:
    """Fail as a back end without an answer."""
    raise SlurmUnavailable(f"{name}: no answer")
