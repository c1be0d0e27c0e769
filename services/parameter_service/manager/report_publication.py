"""The manager's report, at most once a second, and in less than a twentieth of the manager's time."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tiresias.durable.leadership import Leadership
from tiresias.errors import Unavailable, one_line
from tiresias.protocol.job_log import log_line
from tiresias.protocol.service_report import VERSION
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.manager.aggregator_drains import AggregatorDrains
from tiresias.services.parameter_service.manager.fleet_state import QueuedAggregator
from tiresias.services.parameter_service.manager.job_admission import JobAdmission
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.manager_report import ReportMaker
from tiresias.services.parameter_service.manager.manager_settings import ManagerSettings
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.report_folder import ReportFolder

REPORT_PAUSE_S = 1.0
REPORT_REST_FACTOR = 20  # the pause after a report is at least this multiple of its time


class ReportPublication:
    """Publishes the report of one term of a manager.

    Args:
        settings: Its configuration, with a folder of the report.
        leadership: Its lead.
        journal, jobs, clusters, admission, drains: What is reported.
        bytes_on: Returns the bytes of each job's tensors on an aggregator, None where they are not known.

    Raises:
        UsageError: There is no such group.
        OSError: The folder cannot be created.
    """

    def __init__(
        self,
        settings: ManagerSettings,
        leadership: Leadership,
        journal: ManagerJournal,
        jobs: RegisteredJobs,
        clusters: AggregatorClusters,
        admission: JobAdmission,
        bytes_on: Callable[[int], dict[str, int] | None],
        drains: AggregatorDrains,
    ) -> None:
        self._settings, self._leadership, self._journal = settings, leadership, journal
        self._jobs, self._clusters, self._admission, self._bytes_on = jobs, clusters, admission, bytes_on
        self._drains = drains
        self._folder = ReportFolder(Path(settings.report), settings.report_group)
        self._sizes: dict[str, tuple[Mapping[str, int], dict[str, int]]] = {}
        self._next_s = 0.0

    def publish_if_due(self, queue: Collection[QueuedAggregator], problem: str) -> None:
        """Publish the report.

        Args:
            queue: The Slurm jobs of the aggregators.
            problem: Why Slurm did not answer last time; "": it did.
        """
        began = time.monotonic()
        if began < self._next_s:
            return
        try:
            self._leadership.check()
            self._write({each.number: each for each in queue}, problem)
        except (OSError, Unavailable) as error:
            log_line(f"parameter service: the report: {one_line(error)}")
        now = time.monotonic()
        self._next_s = now + max(REPORT_PAUSE_S, REPORT_REST_FACTOR * (now - began))

    def _write(self, queue: Mapping[int, QueuedAggregator], problem: str) -> None:
        settings, admission = self._settings, self._admission
        maker = ReportMaker(
            settings.manager,
            self._jobs,
            self._clusters,
            self._journal.members(),
            queue,
            self._bytes_on,
            self._sizes,
            admission.aggregators_of_jobs(),
            self._drains.numbers,
            self._drains.parked,
        )
        jobs = maker.shown_jobs()
        self._folder.write({
            "version": VERSION, "time": time.time(), "manager": settings.manager, "host": socket.gethostname(),
            "epoch": self._leadership.epoch, "uid": os.geteuid(), "partition": settings.partition, "qos": settings.qos,
            "account": settings.account, "budget": settings.budget, "problem": problem, "limits": admission.shown_limits(),
            "aggregators": maker.shown_aggregators(), "totals": maker.totals(jobs, admission.waiting(time.monotonic())),
        }, jobs)  # fmt: skip
