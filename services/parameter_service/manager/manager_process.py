"""The manager as a process: it waits for the lead, opens the journal, serves agents and keeps the aggregators.

Training goes on without it: agents exchange tensors with aggregators directly. A manager that was killed is replaced by its
standby, or by itself when it is started again, and goes on from the journal.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tiresias.durable.leadership import Leadership
from tiresias.errors import Unavailable, one_line
from tiresias.protocol.job_log import log_line
from tiresias.protocol.service_report import VERSION
from tiresias.services.parameter_service.aggregator.aggregator_settings import read_service_key
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.manager.agent_requests_of_manager import ManagerRequests
from tiresias.services.parameter_service.manager.aggregator_calls import AggregatorCalls
from tiresias.services.parameter_service.manager.aggregator_jobs import AggregatorJobs
from tiresias.services.parameter_service.manager.fleet_keeper import FleetKeeper
from tiresias.services.parameter_service.manager.job_activity import JobActivity
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.manager_report import ReportMaker
from tiresias.services.parameter_service.manager.manager_settings import ManagerSettings
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.registration_port import LoopCall, Registration, RegistrationPort
from tiresias.services.parameter_service.manager.report_folder import ReportFolder
from tiresias.services.parameter_service.manager.tensor_mover import TensorMover
from tiresias.services.wire.channel import address_of
from tiresias.services.wire.server_loop import ServerLoop, listening

MAX_ANNOUNCEMENT_BYTES = 4096
REPORT_PAUSE_S = 1.0
REPORT_REST_FACTOR = 20  # the pause after a report is at least this multiple of its time


class ManagerProcess:
    """The manager of one service.

    Args:
        settings: Its configuration.
    """

    def __init__(self, settings: ManagerSettings) -> None:
        self._settings = settings
        self._leadership = Leadership(settings.state / "lead", settings.lease_s)
        self._stopping = False
        self._loop: ServerLoop | None = None
        self._next_poll = self._next_report = 0.0
        self._report_folder = ReportFolder(Path(settings.report), settings.report_group) if settings.report else None
        self._problem = ""  # why Slurm did not answer last time
        self._sizes: dict[str, tuple[Mapping[str, int], dict[str, int]]] = {}

    def stop(self) -> None:
        """End `run`; a signal handler may call it."""
        self._stopping = True
        if self._loop:
            self._loop.stop()

    def run(self) -> None:
        """Wait for the lead and serve until `stop`.

        Raises:
            Superseded: Another manager leads by now.
            StateError: The journal cannot be used.
        """
        while not self._stopping and not self._leadership.take():
            self._leadership.announce_standby()
            time.sleep(self._leadership.pause)
        try:
            if not self._stopping:
                self._lead()
        finally:
            self._leadership.step_down()

    def _lead(self) -> None:
        settings = self._settings
        journal = ManagerJournal(settings.state, self._leadership.epoch)
        try:
            self._journal = journal
            self._clusters = AggregatorClusters(AssignmentRules(), settings.budget, period_s=settings.period_s)
            self._jobs = RegisteredJobs(journal, self._clusters)
            self._keeper = FleetKeeper(journal, _slurm_jobs(settings), settings.budget, self._leadership.check)
            calls, memory_bytes = (
                AggregatorCalls(read_service_key(settings.service_key_file)),
                settings.job_memory_mib << 20,
            )
            self._mover = TensorMover(self._jobs, calls, self._addresses, memory_bytes)
            self._activity = JobActivity(settings.silence_s)
            with _socket_of(settings.listen) as agents, _socket_of(settings.registration) as registrations:
                requests = ManagerRequests(
                    self._jobs, self._mover.address_of, self._mover.measured_work, self._note_active
                )
                loop = self._loop = ServerLoop(requests, agents)
                loop.every_tick(self._tick)
                if self._report_folder:
                    loop.every_tick(self._report)
                RegistrationPort(registrations, self._register).start()
                self._publish(agents, registrations)
                if not self._stopping:
                    loop.run()
        finally:
            journal.close()

    def _register(self, found: Registration) -> None:
        """Register in the thread of the loop, whose journal it is."""
        assert self._loop is not None
        LoopCall(self._loop.call).run(lambda: self._jobs.register(*found))

    def _tick(self) -> None:
        now = time.monotonic()
        if now < self._next_poll:
            return
        self._next_poll = now + self._settings.poll_s
        self._leadership.renew()
        self._jobs.scale(now)
        try:
            self._keeper.step()
            self._problem = ""
        except Unavailable as error:
            self._problem = one_line(error)
            log_line(f"parameter service: {self._problem}; trying again")
        self._mover.step()
        self._remove_silent(now)

    def _note_active(self, job: str) -> None:
        self._activity.active(job, time.monotonic())

    def _remove_silent(self, now: float) -> None:
        """Remove the jobs whose programs have ended without EndJob."""
        updates = {job: self._mover.updates_of(job) for job in self._jobs.numbers_of_jobs()}
        for job in self._activity.silent(updates, now):
            log_line(
                f"parameter service: job {job} is removed: no message and no update for {self._settings.silence_s:g} s"
            )
            self._jobs.end(job)

    def _report(self) -> None:
        """Publish what the manager does, at most once a second, and in less than a twentieth of its time."""
        began = time.monotonic()
        if began < self._next_report or not self._report_folder:
            return
        queue = {each.number: each for each in self._keeper.queue}
        maker = ReportMaker(
            self._settings.manager,
            self._jobs,
            self._clusters,
            self._journal.members(),
            queue,
            self._mover.bytes_on,
            self._sizes,
        )
        jobs, settings = maker.shown_jobs(), self._settings
        try:
            self._leadership.check()
            self._report_folder.write({
                "version": VERSION, "time": time.time(), "manager": settings.manager, "host": socket.gethostname(),
                "epoch": self._leadership.epoch, "uid": os.geteuid(), "partition": settings.partition, "qos": settings.qos,
                "account": settings.account, "budget": settings.budget, "problem": self._problem,
                "aggregators": maker.shown_aggregators(), "totals": maker.totals(jobs),
            }, jobs)  # fmt: skip
        except (OSError, Unavailable) as error:
            log_line(f"parameter service: the report: {one_line(error)}")
        now = time.monotonic()
        self._next_report = now + max(REPORT_PAUSE_S, REPORT_REST_FACTOR * (now - began))

    def _addresses(self) -> dict[int, str]:
        """Return what the aggregators have announced whose Slurm jobs run."""
        running = (each.number for each in self._keeper.queue if each.is_running)
        found = {number: announced_address(self._settings.announce / f"{number}.json") for number in running}
        return {number: address for number, address in found.items() if address}

    def _publish(self, agents: socket.socket, registrations: socket.socket) -> None:
        address, registration = (
            _named(self._settings.listen, agents),
            _named(self._settings.registration, registrations),
        )
        content = {"address": address, "registration": registration, "uid": os.geteuid(), "pid": os.getpid()}
        temporary = self._settings.publish.with_suffix(".tmp")
        temporary.write_text(json.dumps(content))
        temporary.chmod(0o644)
        temporary.replace(self._settings.publish)


def announced_address(file: Path) -> str:
    """Return the address in an aggregator's announcement, "" where there is none."""
    try:
        with file.open("rb") as opened:
            content = json.loads(opened.read(MAX_ANNOUNCEMENT_BYTES))
        address = content["address"]
        address_of(address)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""
    return str(address)


def _slurm_jobs(settings: ManagerSettings) -> AggregatorJobs:
    chosen = (settings.partition, settings.qos, settings.account, settings.cpus, settings.memory_mib)
    return AggregatorJobs(settings.manager, settings.script, *chosen)


def _socket_of(text: str) -> socket.socket:
    host, _, port = text.rpartition(":")
    return listening(host.strip("[]"), int(port))


def _named(text: str, server: socket.socket) -> str:
    """Return the configured host with the port that is in use."""
    return f"{text.rpartition(':')[0]}:{server.getsockname()[1]}"
