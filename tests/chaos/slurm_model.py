"""A model of Slurm at the edge of the back ends' protocol, with its own clock: for tests that need thousands of lives a minute.

It knows what the facts about requeue, hold and release say (pending, running, completing, a hold for each of owner, admin and
us, 121 s before a requeued job is eligible), two nodes of four GPUs, and jobs whose supervisors save or do not. It asserts
what a real Slurm would only suffer from: a pin under a running job, GPUs given twice, a hold of others that we lift.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tiresias.protocol import control
from tiresias.slurm_plugin.backends.interface import (
    CommentField,
    Comments,
    JobRefused,
    NodeShare,
    NoSuchJob,
    RequestChange,
    SlurmJob,
    SlurmLoad,
    SlurmNode,
    SlurmSnapshot,
    SlurmUnavailable,
)
from tiresias.slurm_plugin.backends.memory import Memory
from tiresias.slurm_plugin.backends.rules import SlurmRules

NODES = ("gpu01", "gpu02")
GPUS = 4
REQUEUE_DELAY = 121.0
CLEAN_UP = 1.0  # seconds of COMPLETING
PARK_TIMEOUT = 90.0
ENDED = ("COMPLETED", "CANCELLED")
US, OWNER, ADMIN = "us", "owner", "admin"


class Killed(BaseException):
    """SIGKILL, at whatever call we are."""


@dataclass(slots=True)
class Run:
    """What really happened. seen: a controller had it in a snapshot, in a cycle that nothing cut off. exact: its end is known to
    the second."""

    restart: int
    start: int
    end: int = 0
    seen: bool = False
    exact: bool = False
    stepped: bool = False  # the clock was set meanwhile: its end says nothing


@dataclass(slots=True)
class ModelJob:
    id: str
    gpus: int
    work: float  # seconds of running that are left
    habit: str  # good, slow (saves in 30 s), ignores, or dumb: it never says that it can save
    submitted: int
    state: str = "PENDING"
    completing_until: float = 0.0
    holder: str = ""
    restarts: int = 0
    submit_time: int = 0
    begin_time: float = 0.0
    start_time: int = 0
    end_time: int = 0
    max_nodes: int = 0
    pin: tuple[str, ...] = ()
    shares: tuple[NodeShare, ...] = ()
    saving_until: float = 0.0
    parked_until: float = 0.0
    runs: list[Run] = field(default_factory=list)

    @property
    def completing(self) -> bool:
        return self.completing_until > 0

    @property
    def over(self) -> bool:
        return self.state in ENDED and not self.completing

    @property
    def key(self) -> str:
        return f"{self.id}@{self.submitted}"


class SlurmModel:
    name, why = "commands", ""

    def __init__(self, control_root: Path) -> None:
        self.now = 1_000_000.0
        self.boot = 0.0
        self.jobs: dict[str, ModelJob] = {}
        self.down: set[str] = set()
        self.before_call: Callable[[str], None] = lambda verb: None  # may raise SlurmUnavailable or Killed
        self.after_call: Callable[[str], None] = lambda verb: None
        self.shown: list[Run] = []  # in the last snapshot
        self._saved: dict[str, tuple[str, str, tuple[str, ...], float]] = {}
        self._root = control_root
        self.new_life()

    def new_life(self) -> None:
        """What a back end remembers dies with the controller."""
        self._memory = Memory()

    # -- what users, admins and nodes do ------------------------------------------------------------------------------

    def submit(self, job_id: str, gpus: int, work: float, habit: str, wait: float) -> ModelJob:
        moment = int(self.now)
        job = ModelJob(job_id, gpus, work, habit, moment, submit_time=moment, begin_time=moment + wait)
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

    def node_down(self, node: str) -> None:
        self.down.add(node)
        for job in self.jobs.values():
            if job.state == "RUNNING" and any(share.node == node for share in job.shares):
                self._requeue(job)

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
        self._saved = {
            job.id: (job.key, job.holder, job.pin, job.begin_time)
            for job in self.jobs.values()
            if job.state == "PENDING"
        }

    def forget(self, halfway: bool) -> list[str]:
        """slurmctld is killed: what was started but does not run yet is as it was, `halfway` with the pin, which was saved. What an
        admin held since is free again. The jobs that this changed."""
        found, self.boot = list[str](), self.now
        for job in self.jobs.values():
            key, *before = self._saved.get(job.id, ("", "", (), 0.0))
            if job.state == "PENDING" and job.pin and not job.holder and key == job.key and before[0] == US:
                after = (US, job.pin, job.begin_time)
                job.holder, job.pin, job.begin_time = after if halfway else before  # type: ignore[assignment]
                found.append(job.id)
            elif job.pin and job.holder == ADMIN:
                job.holder = ""
        return found

    def step_clock(self, seconds: float) -> None:
        """Of the whole machine: what was written down stays, what goes on takes as long as before."""
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
            self._tell(job, "parked")
        if job.parked_until:
            if self.now >= job.parked_until:  # no requeue came: its script runs again
                job.parked_until = 0.0
                self._tell(job, "running")
        elif not job.saving_until:
            job.work -= seconds
            if job.work <= 0:
                self._end_run(job, "COMPLETED")

    def _schedule(self, job: ModelJob) -> None:
        waits = job.state == "PENDING" and not job.completing and not job.holder and job.begin_time <= self.now
        if not waits:
            return
        shares = self._seats(job)
        if shares:
            job.state, job.shares, job.start_time = "RUNNING", shares, int(self.now)
            job.runs.append(Run(job.restarts, job.start_time))
            job.saving_until = job.parked_until = 0.0
            self._tell(job, "running")

    def _seats(self, job: ModelJob) -> tuple[NodeShare, ...]:
        free = self._free()
        nodes = job.pin or tuple(sorted(free, key=lambda node: free[node]))
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
        self._tell(job, "ended")

    def _requeue(self, job: ModelJob, exact: bool = False) -> None:
        job.runs[-1].end, job.runs[-1].exact = int(self.now), exact
        job.state, job.completing_until = "PENDING", self.now + CLEAN_UP
        job.restarts, job.start_time, job.submit_time = job.restarts + 1, 0, int(self.now)
        job.saving_until = job.parked_until = 0.0

    def _tell(self, job: ModelJob, state: str) -> None:
        """As its supervisor and its program do."""
        folder = control.job_folder(self._root, os.getuid(), job.id)
        folder.mkdir(parents=True, exist_ok=True)
        if job.habit != "dumb":
            control.write(folder, control.PROGRAM, {"restart": job.restarts, "ready": True, "step": 1, "save": 0.5})
        control.write(folder, control.SUPERVISOR, {"restart": job.restarts, "state": state, "step": 1})

    # -- the protocol: reading ----------------------------------------------------------------------------------------

    def version(self) -> str:
        return "26.05.0"

    def booted(self) -> float:
        return self.boot

    def topology(self) -> str:
        return ""

    def load(self, uid: int) -> SlurmLoad:
        return SlurmLoad(threads=1, queue=0, database_queue=0, calls=0, seconds=0.0)

    def rules(self) -> SlurmRules:
        return SlurmRules()

    def snapshot(self) -> SlurmSnapshot:
        self.before_call("snapshot")
        self.shown = [job.runs[-1] for job in self.jobs.values() if job.state == "RUNNING"]
        found = tuple(self._memory.fill(self._record(job), self.now) for job in self.jobs.values())
        self._memory.keep(self.jobs.keys())
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
        reason = {"": "Resources", OWNER: "JobHeldUser", ADMIN: "JobHeldAdmin", US: "JobHeldAdmin"}[job.holder]
        running = job.state == "RUNNING"
        return SlurmJob(
            id=job.id, raw_id=int(job.id), array_id=0, het_id=0, name=job.id, user="alice", uid=os.getuid(), account="",
            partition="gpu", state=job.state, completing=job.completing, reason="None" if running else reason,
            priority=0 if job.holder else 100, restarts=job.restarts, submit_time=job.submit_time,
            begin_time=int(job.begin_time), start_time=0 if job.state == "PENDING" else job.start_time,
            end_time=job.end_time if job.state in ENDED else 0, time_limit=0, gpus=job.gpus, gpu_type="", gpus_per_node=0,
            min_nodes=len(job.pin) or 1, max_nodes=len(job.pin) or job.max_nodes, cpus=job.gpus, memory_per_node=0,
            memory_per_cpu=100, features="", required_nodes=job.pin, excluded_nodes=(),
            shares=job.shares if running or job.completing else (), requeue=True, batch=True, reservation="",
            dependency="", exit_code=-1, tasks=job.gpus,
        )  # fmt: skip

    def _node(self, name: str) -> SlurmNode:
        return SlurmNode(
            name=name, state="DOWN" if name in self.down else "IDLE", flags=frozenset(), reason="", gpus=GPUS,
            gpus_allocated=0, gpu_type="", cpus=GPUS, cpus_allocated=0, memory=64000, memory_allocated=0, features=(),
            partitions=("gpu",),
        )  # fmt: skip

    # -- the protocol: verbs ------------------------------------------------------------------------------------------

    def hold(self, job_id: str) -> None:
        self._verb("hold", job_id, self._hold)

    def release(self, job_id: str) -> None:
        self._verb("release", job_id, self._release)

    def lift(self, job_id: str) -> None:
        self._verb("release", job_id, self._release)

    def begin_now(self, job_id: str) -> None:
        self._verb("begin_now", job_id, self._begin_now)

    def pin(self, job_id: str, change: RequestChange) -> None:
        self._verb("pin", job_id, lambda job: self._pin(job, change.required or change.only or ()))

    def prioritize(self, job_id: str) -> None:
        self._verb("prioritize", job_id, self._prioritize)

    def unpin(self, job_id: str, change: RequestChange) -> None:
        self._verb("unpin", job_id, lambda job: self._unpin(job, change))

    def signal(self, job_id: str, signal: str) -> None:
        self._verb("signal", job_id, self._signal)

    def requeue(self, job_id: str) -> int:
        self._verb("requeue", job_id, self._requeue_for_us)
        return int(self.now)

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.requeue(job_id)

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        return {}

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        raise AssertionError(f"a comment of {names} though the model shows none")

    def close(self) -> None:
        """Nothing is kept open."""

    def _verb(self, verb: str, job_id: str, deed: Callable[[ModelJob], None]) -> None:
        self.before_call(verb)
        job = self._find(job_id)
        if job.state in ENDED and verb != "requeue":
            raise JobRefused(f"job {job_id}: Job/step already completing or completed")
        deed(job)
        self.after_call(verb)

    def _hold(self, job: ModelJob) -> None:
        assert job.holder in ("", US), f"job {job.id}: our hold in place of that of its {job.holder}"
        job.holder = US

    def _release(self, job: ModelJob) -> None:
        assert job.holder in ("", US), f"job {job.id}: we lift the hold of its {job.holder}"
        job.holder = ""
        if job.state == "PENDING" and job.restarts:
            job.begin_time = self.now

    def _begin_now(self, job: ModelJob) -> None:
        assert job.state == "PENDING", f"job {job.id}: a begin time of one that is {job.state}"
        job.begin_time = self.now

    def _pin(self, job: ModelJob, nodes: Sequence[str]) -> None:
        assert job.state == "PENDING", f"job {job.id}: a pin under a job that is {job.state}"
        assert not job.completing, f"job {job.id}: started while it is cleaned up"
        job.pin = tuple(nodes)
        job.begin_time = self.now

    def _prioritize(self, job: ModelJob) -> None:
        """The model starts jobs in the order of their ids: what comes first is the real Slurm's to show."""
        if job.holder:
            raise JobRefused(f"job {job.id}: Job is held")

    def _unpin(self, job: ModelJob, change: RequestChange) -> None:
        assert job.state == "PENDING", f"job {job.id}: unpinned while it is {job.state}"
        assert job.holder or job.begin_time > self.now, f"job {job.id}: unpinned while it may start"
        assert change.nodes is None or change.nodes[1] == job.max_nodes, f"job {job.id}: its own request was forgotten"
        job.pin = ()

    def _signal(self, job: ModelJob) -> None:
        if job.state != "RUNNING":
            raise JobRefused(f"job {job.id}: is not running: nothing to signal")
        if job.habit in ("good", "slow") and not job.saving_until and not job.parked_until:
            job.saving_until = self.now + (1.0 if job.habit == "good" else 30.0)
            self._tell(job, "saving")

    def _requeue_for_us(self, job: ModelJob) -> None:
        if job.state in ENDED:
            return
        if job.state != "RUNNING":
            raise JobRefused(f"job {job.id}: Job is pending execution")
        self._memory.requeuing(job.id, int(self.now))
        self._requeue(job, exact=True)


def unavailable(verb: str) -> None:
    raise SlurmUnavailable(f"{verb}: no answer")
