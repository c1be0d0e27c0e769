"""A parameter service as its manager reports it: jobs registered, assigned, moving and reverted, made by the manager's own code."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from tiresias.protocol.service_report import VERSION, PublishedServiceJob, ServiceReport
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.assignment.tensor_blocks import blocks_of
from tiresias.services.parameter_service.manager.fleet_state import FleetMember, FleetState, QueuedAggregator
from tiresias.services.parameter_service.manager.job_admission import JobAdmission
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.manager_report import ReportMaker
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.use_limits import UNLIMITED_USE

NOW = 2_000_000_000.0
ALICE, BOB, CAROL = 4_001, 4_002, 4_003  # no users of a test machine
BUDGET = 8
KEY = bytes(range(32))
SIZES = {
    "vgg19": {"fc6": 102_760_448, "fc7": 16_777_216, "fc8": 4_096_000, "conv5": 2_359_296},
    "alexnet": {"fc6": 37_748_736, "fc7": 16_777_216, "fc8": 4_096_000, "conv1": 34_848},
    "lm": {"embedding": 13_311_600, "rnn": 20_000_000},
}


class ExampleService:
    """The jobs of three users, with a journal in `folder`.

    Attributes:
        jobs, clusters: As the manager has them.
        queue: The Slurm jobs of its aggregators by number.
        limits: Of each user.
        waiting: The number of jobs that wait for the budget.
    """

    def __init__(self, folder: Path) -> None:
        self._journal = ManagerJournal(folder, 1)
        self.clusters = AggregatorClusters(AssignmentRules(), BUDGET)
        self.jobs = RegisteredJobs(self._journal, self.clusters)
        self.limits, self.waiting = UNLIMITED_USE, 0
        self._assign("vgg19-a", ALICE, "vgg19", 0.40, 0.25)
        self._assign("vgg19-b", ALICE, "vgg19", 0.40, 0.25)
        self._assign("alexnet-1", BOB, "alexnet", 0.20, 0.30)
        for _ in range(100):
            self.jobs.observe("vgg19-a", 0.412)
        for _ in range(100):
            self.jobs.observe("alexnet-1", 0.31)  # it is reverted, so that its tensors are to migrate
        self.jobs.register("lm", CAROL, KEY, 2, 4)
        self.jobs.init("lm", SIZES["lm"])
        self.jobs.register("new", CAROL, KEY, 1, 1)
        self.queue = self._queue()

    def _assign(self, job: str, uid: int, model: str, iteration_s: float, share: float) -> None:
        """Register a job of two servers and report its profile; `share` is the work of its servers in an iteration."""
        self.jobs.register(job, uid, KEY, 2, 4)
        blocks = self.jobs.init(job, SIZES[model])
        self.jobs.profiled(job, iteration_s, dict.fromkeys(blocks, 2 * share * iteration_s / len(blocks)))
        for (name, block), (_, to) in self.jobs.moves().items():
            self.jobs.migrated(name, [block], to)

    def _queue(self) -> dict[int, QueuedAggregator]:
        """Give each aggregator a Slurm job; the last two are not submitted, the one before waits, and one ends."""
        found = {}
        ending = [number for number, each in self._journal.members().items() if each.state is FleetState.CANCELLING]
        for number in ending[1:]:
            self._journal.remove_member(number)
        numbers = [number for number, each in self._journal.members().items() if each.state is FleetState.REQUESTED]
        for at, number in enumerate(numbers[:-2]):
            self._journal.put_member(FleetMember(number, FleetState.SUBMITTED, 2100 + number))
            runs = at < len(numbers) - 3
            found[number] = QueuedAggregator(2100 + number, number, runs, f"cpu{at:02}" if runs else "")
        return found

    def shown(self, now: float = NOW) -> tuple[ServiceReport, list[PublishedServiceJob]]:
        """Return the report, and all jobs."""
        admission = JobAdmission(self.jobs, self.clusters, self._journal, self.limits)
        parts = (self.jobs, self.clusters, self._journal.members(), self.queue, self._bytes_on)
        maker = ReportMaker("ps1", *parts, {}, admission.aggregators_of_jobs())
        jobs = maker.shown_jobs()
        report: ServiceReport = {
            "version": VERSION, "time": now - 2.0, "manager": "ps1", "host": "ctl1", "epoch": 3, "uid": os.geteuid(),
            "partition": "cpu", "qos": "", "account": "service", "budget": BUDGET, "problem": "",
            "limits": admission.shown_limits(),
            "aggregators": maker.shown_aggregators(), "totals": maker.totals(jobs, self.waiting),
        }  # fmt: skip
        return report, jobs

    def _bytes_on(self, number: int) -> dict[str, int] | None:
        """Each running aggregator has the float32 tensors that are assigned to it."""
        if number not in self.queue or not self.queue[number].is_running:
            return None
        load = self.clusters.loads.get(number)
        return {job: 4 * self._parameters(job, part.tensors) for job, part in load.parts.items()} if load else {}

    def _parameters(self, job: str, held: Collection[str]) -> int:
        content = self.jobs.rows[job].content
        return sum(each.size for each in blocks_of(content["sizes"], content["servers"]) if each.name in held)

    def close(self) -> None:
        self._journal.close()
