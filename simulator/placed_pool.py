"""A simulated cluster whose caller places the jobs: a pool decides which jobs start, the caller decides where."""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.errors import UsageError
from tiresias.scheduler.job_queue import Choice
from tiresias.scheduler.model import Snapshot, Start
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.contention_tracker import ContentionTracker
from tiresias.simulator.contention.server_loads import PartOfServer
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.pool_allocator import PoolAllocator
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.snapshots import job_rows


class PlacedPool(PoolAllocator):
    """The jobs run to their end, so each chosen one fits. The caller places it before it starts.

    Args:
        rules: The policy, which must not preempt, and the contention.
        cluster: The nodes.
        models: The model of each row of the trace.
        gpus: The GPUs of each row.
        jobs: Those that wait or run, by row; the event loop updates them.

    Attributes:
        occupancy: The GPUs that jobs hold.

    Raises:
        UsageError: The policy preempts.
    """

    def __init__(
        self, rules: Rules, cluster: ClusterSize, models: Sequence[str], gpus: list[int], jobs: dict[int, SimulatedJob]
    ) -> None:
        super().__init__(rules, cluster.gpus, gpus, jobs)
        if self._preempts:
            raise UsageError("a placed job runs to its end; give a policy that does not preempt, such as fifo")
        self._models, self._nodes = models, cluster.names
        self.occupancy = Occupancy(cluster)
        contention, network = rules.contention, cluster.network
        if contention:
            links = network if contention.network else None
            self.contention = ContentionTracker(models, cluster.kinds, links, contention.interference)

    def place(self, row: int, parts: Sequence[PartOfServer]) -> None:
        """Let a chosen job have these GPUs once it starts.

        Raises:
            UsageError: Some of them are not free.
        """
        nodes = tuple((self._nodes[part.server], sum(part.gpus)) for part in parts)
        if not self.occupancy.take(row, Start(str(row), nodes, parts=tuple(part.gpus for part in parts))):
            raise UsageError(f"job {row} is placed on GPUs that are not free; place it on free ones")

    def admit(self, choice: Choice) -> list[SimulatedJob]:
        """Return the chosen jobs, each of which is placed."""
        started = super().admit(choice)
        assert len(started) == len(choice.starts), "no job is preempted, so a chosen job fits"
        return started

    def release(self, job: SimulatedJob) -> None:
        """Free the GPUs of a job that ends."""
        super().release(job)
        self.occupancy.release(job.row)

    def parts(self, job: SimulatedJob) -> tuple[PartOfServer, ...]:
        """Return what a job has of its nodes."""
        return tuple(PartOfServer(held.node, held.parts) for held in self.occupancy.held(job.row))

    def snapshot(self, now: float) -> Snapshot:
        """Return the jobs and nodes at `now`, as `decide` sees them."""
        jobs = list(self._jobs.values())
        columns = JobColumns(jobs)
        columns.now = now
        places = {job.row: place for place, job in enumerate(jobs)}
        nodes, held = self.occupancy.nodes(), self.occupancy.allocations(places)
        kinds = self.contention.kinds(columns.row) if self.contention else None
        shown = job_rows(jobs, columns, now, interference_kind=kinds)
        return Snapshot(now, shown, nodes, held, interference=self.contention.table if self.contention else None)
