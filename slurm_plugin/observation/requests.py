"""The requests of jobs as `scheduler` reads them, made from Slurm's records and kept from cycle to cycle."""

from __future__ import annotations

import re
from dataclasses import replace

from tiresias.scheduler.model import Request
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation.pooled_memory import remote_memory
from tiresias.slurm_plugin.state import own_size, pins
from tiresias.slurm_plugin.state.journal_rows import JobRow

_PLAIN_FEATURES = re.compile(r"[\w.:-]+(&[\w.:-]+)*")


class ClosedRequests:
    """Requests with nodes that jobs do not use now: the same objects as in the cycle before where nothing has changed."""

    def __init__(self) -> None:
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._known: dict[tuple[int, int], tuple[Request, Request]] = {}  # by identity of request and set
        self._last = self._known
        self._unions: dict[tuple[int, ...], tuple[frozenset[str], ...]] = {}  # of this cycle: the union, then its sets

    def begin_cycle(self) -> None:
        """Forget the requests that the cycle before did not use."""
        used = {id(one.closed): one.closed for _, one in self._known.values()}
        self._sets = {one: one for one in used.values()}
        self._last, self._known, self._unions = self._known, {}, {}

    def of(self, request: Request, *closed: frozenset[str]) -> Request:
        """Return the request with the nodes of several sets closed. The sets stay in use during the cycle."""
        nodes = self._union([one for one in closed if one])
        key = (id(request), id(nodes))
        known = self._known.get(key) or self._last.get(key)
        if known is None or known[0] is not request or known[1].closed is not nodes:
            known = (request, replace(request, closed=nodes))
        self._known[key] = known
        return known[1]

    def _union(self, sets: list[frozenset[str]]) -> frozenset[str]:
        key = tuple(map(id, sets))
        if key not in self._unions:
            union = sets[0] if len(sets) == 1 else frozenset[str]().union(*sets)
            self._unions[key] = (self._sets.setdefault(union, union), *sets)
        return self._unions[key][0]


def base_request(job: SlurmJob, row: JobRow, cpus_per_gpu: float | None = None) -> Request:
    """Return the request of a job while no nodes are closed to it.

    Args:
        job: Its record.
        row: Its row.
        cpus_per_gpu: CPUs for each GPU on a node; None: those of the record.
    """
    plain = bool(_PLAIN_FEATURES.fullmatch(job.features))
    is_elastic = own_size.sizes(row) is not None  # its nodes are those of its size
    cpus = job.cpus / job.gpus if cpus_per_gpu is None else cpus_per_gpu
    return Request(
        min_nodes=0 if is_elastic else row.min_nodes,
        max_nodes=0 if is_elastic else row.max_nodes,
        gpus_per_node=own_size.per_node(job) if is_elastic else job.gpus_per_node,
        cpus_per_gpu=cpus,
        memory_per_gpu=job.memory_per_cpu * cpus,
        memory_per_node=float(job.memory_per_node),
        remote_memory=remote_memory(job),
        gpu_type=pins.own_gpu_type(row, job),
        features=frozenset(job.features.split("&")) if plain else frozenset(),
        nodes=frozenset(row.required.split(",")) if row.required else frozenset(),
        excluded=frozenset(row.excluded.split(",")) if row.excluded else frozenset(),
    )
