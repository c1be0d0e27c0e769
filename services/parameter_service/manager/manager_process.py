"""The manager as a process: it waits for the lead, opens the journal, serves agents and keeps the aggregators.

Training goes on without it: agents exchange tensors with aggregators directly. A manager that was killed is replaced by its
standby, or by itself when it is started again, and goes on from the journal.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

from tiresias.durable.leadership import Leadership
from tiresias.errors import TiresiasError, Unavailable, one_line
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.manager.agent_requests_of_manager import ManagerRequests
from tiresias.services.parameter_service.manager.aggregator_calls import AggregatorCalls
from tiresias.services.parameter_service.manager.aggregator_drains import AggregatorDrains
from tiresias.services.parameter_service.manager.aggregator_jobs import AggregatorJobs
from tiresias.services.parameter_service.manager.background_calls import BackgroundCalls, CallSequence
from tiresias.services.parameter_service.manager.fleet_keeper import FleetKeeper
from tiresias.services.parameter_service.manager.job_accounts import account_of
from tiresias.services.parameter_service.manager.job_activity import JobActivity
from tiresias.services.parameter_service.manager.job_admission import JobAdmission
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.manager_settings import ManagerSettings
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.registration_port import LoopCall, Registration, RegistrationPort
from tiresias.services.parameter_service.manager.renewed_lead import RenewedLead
from tiresias.services.parameter_service.manager.report_publication import ReportPublication
from tiresias.services.parameter_service.manager.tensor_mover import TensorMover
from tiresias.services.parameter_service.manager.use_limits import UNLIMITED_USE
from tiresias.services.wire.channel import address_of
from tiresias.services.wire.private_files import read_service_key
from tiresias.services.wire.server_loop import ServerLoop, listening

MAX_ANNOUNCEMENT_BYTES = 4096
STOP_WAIT_S = 5.0  # for a call of Slurm that is in progress


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
        self._next_poll = 0.0
        self._publication: ReportPublication | None = None
        self._problem = ""  # why Slurm did not answer last time

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
        try:
            self._await_lead()
            if not self._stopping:
                self._lead()
        finally:
            self._leadership.step_down()

    def _await_lead(self) -> None:
        """Take the lead. A standby whose state folder cannot be reached waits for it; at the start that is an error."""
        waiting = problem = False
        while not self._stopping:
            try:
                if self._leadership.take():
                    return
                self._leadership.announce_standby()
                waiting, problem = True, False
            except Unavailable as error:
                if not waiting:
                    raise
                if not problem:
                    log_line(f"parameter service: standby: {one_line(error)}; waiting")
                problem = True
            time.sleep(self._leadership.pause)

    def _lead(self) -> None:
        settings = self._settings
        lead = self._lead_kept = RenewedLead(self._leadership)
        journal = ManagerJournal(settings.state, self._leadership.epoch)
        try:
            self._journal = journal
            self._clusters = AggregatorClusters(AssignmentRules(), settings.budget, period_s=settings.period_s)
            self._jobs = RegisteredJobs(journal, self._clusters)
            self._slurm = _slurm_jobs(settings)
            self._admission = JobAdmission(self._jobs, self._clusters, journal, settings.per_user, settings.per_account)
            self._keeper = FleetKeeper(journal, self._slurm, settings.budget, lead.check)
            calls, memory_bytes = (
                AggregatorCalls(read_service_key(settings.service_key_file)),
                settings.job_memory_mib << 20,
            )
            self._drains = AggregatorDrains(
                self._jobs, self._clusters, self._slurm, settings.drain_s, settings.watch_s, lead.check
            )
            self._mover = TensorMover(
                self._jobs,
                calls,
                self._addresses,
                memory_bytes,
                self._admission.memory_bound,
                lambda: self._drains.vacated(time.monotonic()),
            )
            self._activity = JobActivity(settings.silence_s)
            with _socket_of(settings.listen) as agents, _socket_of(settings.registration) as registrations:
                requests = ManagerRequests(
                    self._jobs,
                    self._mover.address_of,
                    self._mover.measured_work,
                    self._note_active,
                    self._check_usable,
                    self._admission.check_tensors,
                    self._drains.note_for,
                )
                loop = self._loop = ServerLoop(requests, agents)
                loop.protect = settings.protect
                self._slurm_calls = BackgroundCalls("slurm", loop.call)
                self._aggregator_calls = BackgroundCalls("aggregators", loop.call)
                loop.every_tick(self._tick)
                if settings.report:
                    self._publication = ReportPublication(
                        settings,
                        self._leadership,
                        journal,
                        self._jobs,
                        self._clusters,
                        self._admission,
                        self._mover.bytes_on,
                        self._drains,
                    )
                    loop.every_tick(self._report)
                needs_account = settings.per_account != UNLIMITED_USE
                RegistrationPort(registrations, self._register, *([account_of] if needs_account else [])).start()
                self._publish(agents, registrations)
                if not self._stopping:
                    loop.run()
                self._finish_calls()
        finally:
            journal.close()

    def _finish_calls(self) -> None:
        """Record what Slurm has done by a call that is in progress; one that takes too long is found by its job's name later."""
        self._slurm_calls.finish(STOP_WAIT_S)
        self._slurm.interrupt()

    def _register(self, found: Registration) -> None:
        """Register in the thread of the loop, whose journal it is."""

        def register() -> None:
            self._check_usable()
            self._admission.register(found, time.monotonic())

        assert self._loop is not None
        LoopCall(self._loop.call).run(register)

    def _check_usable(self) -> None:
        """Refuse a request while the lead is in doubt, or the journal lacks a change. Raises Unavailable."""
        self._lead_kept.check_known()
        if self._jobs.failure:
            raise Unavailable("the manager ends: its journal cannot be written")

    def _tick(self) -> None:
        """Begin what is due. Slurm and aggregators are called in the background, so that requests are served meanwhile."""
        now = time.monotonic()
        if self._jobs.failure:
            raise self._jobs.failure
        if not self._lead_kept.renewed(now):
            self._slurm.interrupt()  # whether it was carried out is found out by the next leader
            return
        if now < self._next_poll:
            return
        self._next_poll = now + self._settings.poll_s
        self._jobs.scale(now)
        self._drains.step({each.number: each for each in self._keeper.queue}, self._mover.free_bytes(), now)
        if not self._slurm_calls.busy:
            self._slurm_calls.begin(self._slurm_round(), self._fleet_kept)
        if not self._aggregator_calls.busy:
            self._aggregator_calls.begin(self._mover.round(), self._raise)
        self._remove_silent(now)

    def _slurm_round(self) -> CallSequence:
        yield from self._keeper.round()
        yield from self._drains.round(self._keeper.queue, time.monotonic())

    def _fleet_kept(self, error: TiresiasError | None) -> None:
        self._problem = ""
        if isinstance(error, Unavailable):
            self._problem = one_line(error)
            log_line(f"parameter service: {self._problem}; trying again")
        else:
            self._raise(error)

    @staticmethod
    def _raise(error: TiresiasError | None) -> None:
        if error:
            raise error

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
        assert self._publication is not None
        self._publication.publish_if_due(self._keeper.queue, self._problem)

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
