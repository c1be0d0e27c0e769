"""The process: a data thread for agents, a service thread for the manager and other aggregators, a migration thread."""

from __future__ import annotations

import fcntl
import math
import os
import resource
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.aggregator.agent_requests import AgentRequests
from tiresias.services.parameter_service.aggregator.aggregator_settings import AggregatorSettings
from tiresias.services.parameter_service.aggregator.aggregator_statistics import job_statistics
from tiresias.services.parameter_service.aggregator.cycle_slots import JobSlots
from tiresias.services.parameter_service.aggregator.execution_order import ExecutionOrder
from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob, JobEvents, replace_privately
from tiresias.services.parameter_service.aggregator.master_copy import MasterCopy
from tiresias.services.parameter_service.aggregator.migrations import Migrations
from tiresias.services.parameter_service.aggregator.optimizer_kernels import optimizer_kernels
from tiresias.services.parameter_service.aggregator.service_requests import ServiceRequests
from tiresias.services.parameter_service.messages.aggregator_messages import (
    AdoptJob,
    DrainAggregator,
    MigrateTensor,
    PlanCycle,
    WorkerDone,
)
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.peer_identity import JOB_NAME, PeerIdentity, service_identity
from tiresias.services.wire.server_loop import ServerLoop, listening
from tiresias.services.wire.shuffled_payload import COMPRESSIONS


class Aggregator:
    """An aggregator with its threads; the handler of the data loop.

    Args:
        settings: Its configuration.

    Attributes:
        address: Where it listens, as host:port.

    Raises:
        UsageError: Another process uses the state folder.
    """

    def __init__(self, settings: AggregatorSettings) -> None:
        self._settings = settings
        self._lock = _locked(settings.state)
        self._jobs: dict[str, HostedJob] = {}
        self._draining = False
        server = listening(settings.host, settings.port)
        self.address = f"{settings.host}:{server.getsockname()[1]}"
        self._loop = ServerLoop(self, server, settings.stall_timeout_s)
        self._loop.protect = settings.protect
        self._order = self._loop.order = ExecutionOrder(self._jobs.get)
        self._agents = AgentRequests(self.free_bytes, lambda: self._draining)
        self._service = ServiceRequests(self, self._loop)
        self._service.loop = ServerLoop(self._service, None, settings.stall_timeout_s)
        identity = service_identity(f"aggregator-{os.getpid()}")
        self._migrations = Migrations(identity, settings.service_key, self._loop, self._service.report)
        kernels = optimizer_kernels(settings.fused)  # of all jobs: one thread updates
        self._events = JobEvents(
            self._migrations.left, self._all_pushed, self._migrations.admits, self._idle, self._busy, kernels
        )
        self._load()
        self._loop.every_tick(self._tick)

    def _load(self) -> None:
        for file in sorted((self._settings.state / "jobs").glob("*/job.json")):
            try:
                job = HostedJob.opened(file.parent, self._events)
            except TiresiasError as error:
                log_line(f"parameter service: {error}")
                continue
            self._jobs[job.settings.job] = job
            for copy in job.load():
                self._migrations.resume(job, copy)

    def run(self) -> None:
        """Serve until stop()."""
        threads = [threading.Thread(target=run) for run in (self._service.loop.run, self._migrations.run)]
        for thread in threads:
            thread.start()
        if self._settings.announce:
            replace_privately(self._settings.announce, {"address": self.address, "pid": os.getpid()})
        try:
            self._loop.run()
        finally:
            self._service.loop.stop()
            self._migrations.stop()
            for thread in threads:
                thread.join()

    def stop(self) -> None:
        """End run(); a signal handler may call it."""
        self._loop.stop()

    # -- the handler of the data loop ---------------------------------------------------------------------------------------------

    def key_of(self, identity: PeerIdentity) -> bytes | None:
        """Return the key of a job or of the service."""
        if not identity.job:
            return self._settings.service_key
        job = self._jobs.get(identity.job)
        return job.key if job else None

    def joined(self, connection: Connection) -> None:
        """Hand a part of the service over; an agent's new connection replaces the one before."""
        assert connection.identity is not None
        if not connection.identity.job:
            self._loop.hand_over(connection, self._service.loop)
            return
        job = self.job(connection.identity.job)
        before = job.connections.get(connection.identity.rank)
        job.connections[connection.identity.rank] = connection
        job.lost.joined(connection.identity)
        connection.drained = job.open_window_if_idle
        if before is not None:
            self._loop.close(before)

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        """Return the memory for an agent's payload."""
        return self._agents.place(self._job_of(connection), connection, content, payload_bytes)

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        """Carry out an agent's request."""
        self._agents.received(self._job_of(connection), connection, content, payload)

    def closed(self, connection: Connection) -> None:
        """Forget what a connection waits for."""
        assert connection.identity is not None
        self._agents.forget(connection)
        job = self._jobs.get(connection.identity.job)
        if job is None:
            return
        if job.connections.get(connection.identity.rank) is connection:
            del job.connections[connection.identity.rank]
            job.lost.left(connection.identity, self._loop.now())
        for copy in job.all_copies():
            copy.forget(connection)

    def _job_of(self, connection: Connection) -> HostedJob:
        assert connection.identity is not None
        return self.job(connection.identity.job)

    def _tick(self) -> None:
        now, bound_s = self._loop.now(), self._settings.lost_rank_s
        for job in self._jobs.values():
            lost = job.lost.for_longer_than(bound_s, now)
            for copy in job.all_copies():
                copy.refuse_late(now, lost, bound_s)

    def _busy(self, job: HostedJob) -> None:
        self._order.slots.began(job.settings.job, self._loop.now())

    def _idle(self, job: HostedJob) -> None:
        self._order.slots.ended(job.settings.job)
        self._migrations.idle(job)

    def _all_pushed(self, job: HostedJob, copy: MasterCopy) -> None:
        self._service.report(WorkerDone(job.settings.job, copy.name, copy.file.epoch))

    # -- what the service changes -------------------------------------------------------------------------------------------

    def job(self, name: str) -> HostedJob:
        """Return a job.

        Raises:
            UsageError: It is not on this aggregator.
        """
        if name not in self._jobs:
            raise UsageError(f"job {name[:64]} is not on this aggregator")
        return self._jobs[name]

    def adopt(self, settings: AdoptJob) -> None:
        """Take a job, or new settings of one that is here.

        Raises:
            UsageError: Settings that are not supported.
        """
        _check_settings(settings)
        job = self._jobs.get(settings.job)
        if job is None:
            job = HostedJob(self._settings.state / "jobs" / settings.job, settings, self._events)
        elif replace(settings, memory_bytes=0) != replace(job.settings, memory_bytes=0):
            raise UsageError(f"job {settings.job} is on this aggregator with other settings; drop it first")
        job.settings = settings
        job.store()
        self._jobs[settings.job] = job

    def drop(self, name: str) -> None:
        """Remove a job."""
        if job := self._jobs.pop(name, None):
            for connection in list(job.connections.values()):
                self._loop.close(connection, f"job {name} was removed from this aggregator")
            job.remove()
            self._order.forget(name)

    def plan_cycle(self, content: PlanCycle) -> None:
        """Take another execution cycle.

        Raises:
            UsageError: Numbers that are not allowed.
        """
        found = (content.cycle_s, *content.runs.values(), *content.work_s.values())
        if not all(0 <= each < math.inf for each in found) or content.runs.keys() != content.work_s.keys():
            raise UsageError("a cycle has a length, and runs and work of each job, all finite and 0 or more")
        slots = {job: JobSlots(max(int(runs), 1), content.work_s[job]) for job, runs in content.runs.items()}
        if (content.cycle_s, slots) != (self._order.slots.cycle_s, self._order.slots.slots):
            self._order.slots.plan(content.cycle_s, slots, self._loop.now())

    def migrate(self, content: MigrateTensor) -> None:
        """Begin a migration.

        Raises:
            UsageError: No such tensor, or it moves elsewhere already.
        """
        job = self.job(content.job)
        moved = job.moved.get(content.tensor)
        if moved is not None and moved.address == content.to:
            return  # done before
        if content.tensor not in job.tensors:
            raise UsageError(f"job {content.job} has no tensor {content.tensor[:200]} on this aggregator")
        if content.to == self.address:
            raise UsageError(f"tensor {content.tensor} is on {content.to} already")
        self._migrations.plan(job, job.tensors[content.tensor], content)

    def drain(self, content: DrainAggregator) -> None:
        """Begin the migration of every tensor; new ones are refused."""
        self._draining = True
        for job in self._jobs.values():
            for name in list(job.tensors):
                within_s = content.within_s
                self.migrate(MigrateTensor(job.settings.job, name, content.to, within_s, paced_s=within_s))

    def free_bytes(self) -> int:
        """Return the memory of this aggregator's bound that no tensor uses."""
        return self._settings.memory_bytes - sum(job.memory_bytes for job in self._jobs.values())

    def statistics(self) -> dict[str, Any]:
        """Return the statistics: aggregator_statistics.py."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "pid": os.getpid(),
            "address": self.address,
            "draining": self._draining,
            "cycle_s": self._order.slots.cycle_s,
            "slots": {job: list(each) for job, each in self._order.slots.slots.items()},
            "cpu_s": used.ru_utime + used.ru_stime,
            "memory_bytes": self._settings.memory_bytes,
            "free_bytes": self.free_bytes(),
            "jobs": {name: job_statistics(job) for name, job in self._jobs.items()},
        }


def _locked(state: Path) -> int:
    """Return the descriptor of a lock that ends with the process: one process alone is the master of what is in a folder."""
    (state / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UsageError(f"{state}: another aggregator uses this folder") from error
    return handle


def _check_settings(settings: AdoptJob) -> None:
    if not JOB_NAME.fullmatch(settings.job):
        raise UsageError(f"no name of a job: {settings.job[:100]!r}")
    if len(settings.key) != 64 or not all(letter in "0123456789abcdef" for letter in settings.key):
        raise UsageError(f"job {settings.job}: the key has 64 hexadecimal digits")
    if not 0 < settings.workers <= 4096:
        raise UsageError(f"job {settings.job}: {settings.workers} workers; 1 to 4096 are supported")
    if settings.mode not in {"synchronous", "asynchronous"} or settings.on_nan not in {"stop", "skip"}:
        raise UsageError(f"job {settings.job}: mode is synchronous or asynchronous, on_nan is stop or skip")
    if settings.compress not in COMPRESSIONS:
        raise UsageError(f"job {settings.job}: compress is {' or '.join(COMPRESSIONS)}, not {settings.compress[:40]!r}")
