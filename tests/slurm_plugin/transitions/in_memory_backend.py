"""A back end in memory that can be made to fail on cue, which a real Slurm cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tiresias.slurm_plugin.backends.interface import (
    TOP_PRIORITY,
    CommentField,
    Comments,
    NodeShare,
    NoSuchJob,
    RequestChange,
    SlurmJob,
    SlurmLoad,
    SlurmNode,
    SlurmSnapshot,
    StatedGpus,
)
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules


class InMemoryBackend:
    """The records of a few jobs. `fail` makes one operation fail, before or after it takes effect."""

    name, why = "memory", ""

    def __init__(self, job: SlurmJob) -> None:
        self.jobs = {job.id: job}
        self.calls: list[str] = []
        self.signals: list[tuple[str, str]] = []  # job id and signal
        self.failing: dict[
            str, tuple[str, Exception]
        ] = {}  # by operation: ("before" | "after" it takes effect, error); once
        self.starts = True  # a released job runs at once
        self.ends_at_once = True  # a requeued run
        self.boot = 0.0
        self.nodes: tuple[SlurmNode, ...] = ()
        self.changed_by: dict[str, dict[str, object]] = {}  # what else a pin changes, by the kind of the pin
        self._own: dict[str, object] = {}  # the values before those changes

    def fail(self, operation: str, error: Exception, when: str = "before") -> None:
        self.failing[operation] = (when, error)

    def change(self, job_id: str = "1", **changes: object) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], **changes)  # type: ignore[arg-type]

    def _do(self, operation: str, effect: Callable[[], None]) -> None:
        self.calls.append(operation)
        when, error = self.failing.pop(operation, ("", None))
        if error and when == "before":
            raise error
        effect()
        if error:
            raise error

    def version(self) -> str:
        return "26.05.0"

    def booted(self) -> float:
        return self.boot

    def topology(self, name: str = "") -> str:
        return ""

    def rules(self) -> SlurmRules:
        return SlurmRules()

    def snapshot(self) -> SlurmSnapshot:
        return SlurmSnapshot(0.0, tuple(self.jobs.values()), self.nodes)

    def job(self, job_id: str) -> SlurmJob:
        self._do("job", lambda: None)
        if job_id not in self.jobs:
            raise NoSuchJob(f"job {job_id}: gone")
        return self.jobs[job_id]

    def hold(self, job_id: str) -> None:
        self._do("hold", lambda: self.change(job_id, priority=0, reason="JobHeldAdmin"))

    def lift(self, job_id: str) -> None:
        self._do("lift", lambda: self._lift(job_id))

    def _lift(self, job_id: str) -> None:
        self.change(job_id, priority=1, reason="None")
        nodes = self.jobs[job_id].required_nodes
        if self.starts and nodes and self.jobs[job_id].state == "PENDING":
            shares = tuple(NodeShare(node, 4, 4, 400) for node in nodes)
            self.change(job_id, state="RUNNING", reason="None", start_time=1500, shares=shares)

    def release(self, job_id: str) -> None:
        self._do("release", lambda: self.change(job_id, priority=1, reason="None"))

    def begin_now(self, job_id: str) -> None:
        self._do("begin_now", lambda: self.change(job_id, begin_time=0))

    def pin(self, job_id: str, change: RequestChange) -> None:
        self._do("pin", lambda: self._pin(job_id, change))

    def _pin(self, job_id: str, change: RequestChange) -> None:
        way = "required" if change.required else "only"
        for name in self.changed_by.get(way, {}):
            self._own.setdefault(name, getattr(self.jobs[job_id], name))
        self._state_gpus(job_id, change)
        self._size(job_id, change)
        self.change(job_id, required_nodes=change.required or change.only or (), **self.changed_by.get(way, {}))

    def _size(self, job_id: str, change: RequestChange) -> None:
        """A GPU for each task, as with --gpus-per-task=1."""
        if change.tasks is not None and change.cpus is not None:
            self.change(job_id, tasks=change.tasks, cpus=change.cpus, gpus=change.tasks)
        if change.cpus_per_task is not None and self.jobs[job_id].cpus_per_task:  # 22.05 does not show it
            self.change(job_id, cpus_per_task=change.cpus_per_task)

    def _state_gpus(self, job_id: str, change: RequestChange) -> None:
        if change.gpus is not None:
            self.change(job_id, stated_gpus=change.gpus, gpu_type=",".join(one.kind for one in change.gpus))

    def prioritize(self, job_id: str) -> None:
        self._do("prioritize", lambda: self.change(job_id, priority=TOP_PRIORITY))

    def unpin(self, job_id: str, change: RequestChange) -> None:
        self._do("unpin", lambda: self._unpin(job_id, change))

    def _unpin(self, job_id: str, change: RequestChange) -> None:
        if change.nodes:
            self.change(job_id, min_nodes=change.nodes[0], max_nodes=change.nodes[1])
        self._size(job_id, change)
        self._state_gpus(job_id, change)
        if change.excluded is not None:
            self.change(job_id, excluded_nodes=change.excluded)
        self.change(job_id, required_nodes=change.required or (), **self._own)

    def signal(self, job_id: str, signal: str) -> None:
        self._do("signal", lambda: self.signals.append((job_id, signal)))

    def requeue(self, job_id: str) -> int:
        self._do("requeue", lambda: self.requeue_record(job_id))
        return 1499

    def requeue_record(self, job_id: str) -> None:
        job = self.jobs[job_id]
        assert job.state in ("RUNNING", "SUSPENDED"), "a requeue for a job that does not run"
        if not self.ends_at_once:
            self.change(job_id, completing=True)
            return
        self.change(
            job_id, state="PENDING", restarts=job.restarts + 1, shares=(), submit_time=1499, start_time=0, end_time=1499
        )

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.requeue(job_id)

    def load(self, uid: int) -> SlurmLoad:
        return SlurmLoad(0, 0, 0, 0, 0.0)

    def stated_gpus(self, job_id: str) -> tuple[StatedGpus, ...]:
        self._do("stated_gpus", lambda: None)
        return self.jobs[job_id].stated_gpus

    def batch_script(self, job_id: str) -> bytes:
        return b""

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        return {}

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        self.calls.append("set_comment")

    def close(self) -> None:
        self.calls.append("close")
