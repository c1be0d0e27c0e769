"""What the manager publishes, made from its jobs, its assignment and its aggregators. Pure.

protocol/service_report.py has the format. The cost is O(blocks of all jobs).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tiresias.protocol.service_report import PublishedAggregator, PublishedServiceJob, PublishedServiceTotals
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.tensor_blocks import blocks_of
from tiresias.services.parameter_service.manager.aggregator_jobs import name_of
from tiresias.services.parameter_service.manager.fleet_state import FleetMember, FleetState, QueuedAggregator
from tiresias.services.parameter_service.manager.manager_journal import ClientRow
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs


@dataclass(frozen=True)
class ReportMaker:
    """Makes one report.

    Attributes:
        manager: The manager's id.
        jobs: The registered jobs.
        clusters: Their assignment.
        members: The journaled aggregators.
        queue: The Slurm jobs of the aggregators.
        bytes_on: Returns the bytes of each job's tensors on an aggregator, None where they are not known.
        sizes: By job, the sizes of its tensors and those of its blocks; they are kept from report to report.
        used: The aggregators that each job uses: its share of the work on shared ones.
        drained: The aggregators that are drained.
        parked: The jobs that wait for Slurm to start an aggregator again.
    """

    manager: str
    jobs: RegisteredJobs
    clusters: AggregatorClusters
    members: Mapping[int, FleetMember]
    queue: Mapping[int, QueuedAggregator]
    bytes_on: Callable[[int], dict[str, int] | None]
    sizes: dict[str, tuple[Mapping[str, int], dict[str, int]]]
    used: Mapping[str, float]
    drained: Collection[int] = ()
    parked: Collection[str] = ()

    def shown_jobs(self) -> list[PublishedServiceJob]:
        """Return all jobs, in the order of their registration."""
        targets = self._targets()
        return [self._job(row, targets.get(job, {})) for job, row in self.jobs.rows.items()]

    def shown_aggregators(self) -> list[PublishedAggregator]:
        """Return all aggregators by number."""
        for job in self.sizes.keys() - self.jobs.rows.keys():
            del self.sizes[job]
        blocks: dict[int, list[tuple[str, int]]] = defaultdict(list)  # (job, bytes), by the place of the master copy
        for job, row in self.jobs.rows.items():
            sizes = self._sizes_of(row)
            for block, number in row.content.get("at", {}).items():
                blocks[number].append((job, sizes[block]))
        loads = self.clusters.loads
        return [self._aggregator(each, loads.get(number), blocks[number]) for number, each in self.members.items()]

    def totals(self, jobs: list[PublishedServiceJob], waiting: int) -> PublishedServiceTotals:
        """Return the sums over all jobs, with the number of those that wait for the budget."""
        servers, aggregators = sum(each["servers"] for each in jobs), self.clusters.allocated
        return {
            "users": len({each["uid"] for each in jobs}),
            "jobs": len(jobs),
            "waiting": waiting,
            "tensors": sum(each["tensors"] for each in jobs),
            "declared_bytes": sum(each["declared_bytes"] for each in jobs),
            "servers": servers,
            "aggregators": aggregators,
            "ratio": aggregators / servers if servers else None,
            "reverts": sum(each["reverts"] for each in jobs),
        }

    # inner

    def _targets(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for (job, block), number in self.clusters.assignment().items():
            found[job][block] = number
        return found

    def _job(self, row: ClientRow, target: dict[str, int]) -> PublishedServiceJob:
        content, at = row.content, row.content.get("at", {})
        measured_s, loss = self.jobs.speed(row.job)
        numbers = {*at.values(), *target.values()} or {*self.clusters.reserved(row.job)}
        return {
            "name": row.job,
            "uid": row.uid,
            "state": "parked" if row.job in self.parked else _state(row, target),
            "servers": content["servers"],
            "workers": content["workers"],
            "tensors": len(content.get("sizes", {})),
            "declared_bytes": sum(content.get("sizes", {}).values()),
            "bytes": self._bytes_of(row.job, numbers),
            "aggregators": [name_of(self.manager, number) for number in sorted(numbers)],
            "used": self.used.get(row.job, 0.0),
            "iteration_s": content.get("iteration_s"),
            "measured_s": measured_s,
            "loss": loss,
            "reverts": content.get("reverts", 0),
        }

    def _aggregator(
        self, member: FleetMember, load: AggregatorLoad | None, blocks: list[tuple[str, int]]
    ) -> PublishedAggregator:
        cycle_s, work_s = (load.cycle_s, load.work_s) if load else (0.0, 0.0)
        queued = self.queue.get(member.number)
        return {
            "name": name_of(self.manager, member.number),
            "slurm_job": member.slurm_job,
            "node": queued.node if queued else "",
            "state": "draining" if member.number in self.drained else _state_of_aggregator(member, queued),
            "cycle_s": cycle_s,
            "work_s": work_s,
            "free_s": max(cycle_s - work_s, 0.0),
            "jobs": len({job for job, _ in blocks}),
            "tensors": len(blocks),
            "declared_bytes": sum(size for _, size in blocks),
            "bytes": None if (held := self.bytes_on(member.number)) is None else sum(held.values()),
        }

    def _bytes_of(self, job: str, numbers: set[int]) -> int | None:
        """Return the bytes of a job on its aggregators, None where one of them did not report."""
        found = [self.bytes_on(number) for number in numbers]
        return None if None in found else sum(each.get(job, 0) for each in found if each)

    def _sizes_of(self, row: ClientRow) -> dict[str, int]:
        """Return the bytes of each block of a job. One that registered anew has another object of sizes."""
        tensors = row.content.get("sizes", {})
        known = self.sizes.get(row.job)
        if known is None or known[0] is not tensors:
            blocks = blocks_of(tensors, row.content["servers"]) if tensors else []
            known = self.sizes[row.job] = (tensors, {each.name: each.size for each in blocks})
        return known[1]


def _state(row: ClientRow, target: dict[str, int]) -> str:
    if "at" not in row.content:
        return "registered"
    if "iteration_s" not in row.content:
        return "profiled"
    return "assigned" if target == row.content["at"] else "moving"


def _state_of_aggregator(member: FleetMember, queued: QueuedAggregator | None) -> str:
    if member.state is FleetState.CANCELLING:
        return "ending"
    if queued is None:
        return "requested"
    return "running" if queued.is_running else "waiting"
