"""The memory of simulated nodes and jobs, and the remote memory that jobs use.

A job needs memory for each of its GPUs. Where remote memory is used, what exceeds its GPUs' part of a node may come from other
nodes, up to a share of its memory. The more of it is remote, the slower is the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.admit.remote_memory import lent_at_most, unpromised, with_remote_memory
from tiresias.scheduler.model import Allocations, Floats, Request, Snapshot
from tiresias.scheduler.resources import COLUMNS, Resources
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.occupancy import HeldGpus
from tiresias.simulator.trace import Trace

MIB_OF_GB = 1024.0
MEMORY = COLUMNS.index("memory")
SLOWDOWN = 1.24  # of PowerGraph with half of its memory (thesis, section 2.7.3); others: 1.03 to 1.5


@dataclass(frozen=True, slots=True)
class SimulatedMemory:
    """The memory of nodes, and what jobs do with remote memory.

    Attributes:
        node_gb: Memory of each node.
        per_gpu_gb: Median of the memory of a job for each of its GPUs, where the trace does not state it.
        sigma: Of the logarithm of it, which is normally distributed.
        remote_share: The part of its memory that a job has from other nodes at most; 0: there is no remote memory.
        slowdown: Seconds that a second of work takes with half of the memory remote; it grows linearly.
        seed: Of the amounts.
    """

    node_gb: float
    per_gpu_gb: float = 0.0
    sigma: float = 0.0
    remote_share: float = 0.0
    slowdown: float = SLOWDOWN
    seed: int = 1

    def demands(self, trace: Trace, cluster: ClusterSize) -> Floats:
        """Return the memory of each job of a trace, GB, shape (jobs,).

        Amounts of the distribution are limited so that each job fits on the empty cluster.

        Raises:
            UsageError: A job of the trace needs more than the cluster has.
        """
        most = np.maximum(self.node_gb * cluster.nodes / (2.0 * trace.gpus), self.node_gb / cluster.gpus_per_node)
        if not len(trace.memory):
            drawn = np.random.default_rng(self.seed).lognormal(0.0, self.sigma, len(trace)) * self.per_gpu_gb
            return np.asarray(trace.gpus * np.minimum(drawn, np.minimum(most, self.node_gb)), np.float64)
        fits = np.floor(self.node_gb * trace.gpus / np.maximum(trace.memory, 1e-9)) * cluster.nodes >= trace.gpus
        if not fits.all():
            row = int((~fits).argmax())
            raise UsageError(
                f"job {trace.job_id[row]} has {trace.memory[row]:g} GB for {trace.gpus[row]} GPUs, which do not fit on "
                f"{cluster.nodes} nodes with {self.node_gb:g} GB; give --node-memory more"
            )
        return trace.memory

    def remote(self, demand: Floats, trace: Trace, cluster: ClusterSize) -> Floats:
        """Return how much of the memory of each job is remote, GB, shape (jobs,)."""
        part = trace.gpus * (self.node_gb / cluster.gpus_per_node)
        return np.clip(demand - part, 0.0, self.remote_share * demand)


class MemoryUse:
    """The memory that the jobs of a simulation use, node by node.

    Args:
        memory: The rules.
        trace: The jobs.
        cluster: The nodes.
    """

    def __init__(self, memory: SimulatedMemory, trace: Trace, cluster: ClusterSize) -> None:
        demand = memory.demands(trace, cluster)
        remote = memory.remote(demand, trace, cluster)
        self._per_gpu = (demand - remote) / trace.gpus * MIB_OF_GB
        self._requests = [Request(memory_per_gpu=one, remote_memory=far) for one, far in zip(
            self._per_gpu.tolist(), (remote * MIB_OF_GB).tolist(), strict=True)]  # fmt: skip
        part = np.divide(remote, demand, out=np.zeros(len(demand)), where=demand > 0)
        self._slowdown: list[float] = (1.0 + (memory.slowdown - 1.0) * 2.0 * part).tolist()
        self._total = np.full(cluster.nodes, memory.node_gb * MIB_OF_GB)
        self._free = self._total.copy()
        self._promised, self._leaf = np.zeros(cluster.nodes), cluster.topology().nearest_groups[0]
        self._since, self._until = float("nan"), float(trace.submit.max(initial=0.0))
        self._seconds, self._use, self._over_median = 0.0, 0.0, 0.0  # sums over time
        self._mean, self._ratio = 0.0, 1.0

    def change(self, row: int, held: Sequence[HeldGpus], sign: float) -> None:
        """Take (sign 1) or free (sign -1) the memory of a job."""
        remote = self._requests[row].remote_memory / len(held)
        for node, gpus, _ in held:
            self._free[node] -= sign * gpus * self._per_gpu[row]
            self._promised[node] += sign * remote

    def slowdown(self, row: int) -> float:
        """Return the seconds that a second of work of a job takes."""
        return self._slowdown[row]

    def requests(self, rows: Sequence[int]) -> tuple[Request, ...]:
        """Return the requests of jobs."""
        return tuple(map(self._requests.__getitem__, rows))

    def shown(self, snapshot: Snapshot, rows: Sequence[int]) -> Snapshot:
        """Return the snapshot with memory. rows: of its jobs."""
        lent = lent_at_most(self._total, self._free)
        amount = snapshot.nodes.free.amount.copy()
        amount[:, MEMORY] = self._free
        nodes = replace(snapshot.nodes, free=Resources(amount, snapshot.nodes.free.names))
        held = self._held(snapshot.allocations, rows)
        return with_remote_memory(replace(snapshot, nodes=nodes, allocations=held), lent)

    def _held(self, held: Allocations, rows: Sequence[int]) -> Allocations:
        amount = held.resources.amount.copy()
        amount[:, MEMORY] = amount[:, 0] * self._per_gpu[np.asarray(rows, np.int64)[held.job]]
        return Allocations(held.job, held.node, Resources(amount, held.resources.names), held.owned_cell)

    def note(self, now: float) -> None:
        """Count the use until the next call; called after each decision. O(nodes)."""
        now = min(now, self._until)
        if now > self._since:
            self._seconds += now - self._since
            self._use += (now - self._since) * self._mean
            self._over_median += (now - self._since) * self._ratio
        lent = lent_at_most(self._total, self._free)
        used = (self._total - self._free + lent - unpromised(lent, self._leaf, self._promised)) / self._total
        median = float(np.median(used))
        self._since, self._mean = now, float(used.mean())
        self._ratio = float(used.max()) / median if median > 0 else 1.0

    def summary(self) -> dict[str, float]:
        """Return the means over time, until the last submission."""
        seconds = self._seconds or 1.0
        return {"memory_use": self._use / seconds, "memory_max_over_median": self._over_median / seconds}
