"""The requests of jobs as `scheduler` reads them, made from Slurm's records and kept from cycle to cycle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tiresias.scheduler.model import Request
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state import own_size, pins
from tiresias.slurm_plugin.state.journal_rows import JobRow

_PLAIN_FEATURES = re.compile(r"[\w.:-]+(&[\w.:-]+)*")


class _KnownRequest(NamedTuple):
    """What a job asks for, and what that was made from."""

    job: SlurmJob
    terms: tuple[int, int, str, str, bool, str, str, frozenset[str], float]
    request: Request


class RequestCache:
    """Makes a request again only where the job's record or its terms have changed."""

    def __init__(self) -> None:
        self._known: dict[str, _KnownRequest] = {}

    def of(
        self,
        shown: Sequence[SlurmJob],
        rows: Sequence[JobRow],
        closed: Sequence[frozenset[str]],
        cpus: Sequence[float],
    ) -> tuple[Request, ...]:
        """Return the request of each job; `closed`: nodes that it does not use now; `cpus`: for each GPU on a node.

        Of ten thousand jobs few have changed since the last cycle: the back ends give the same records again.
        """
        last, self._known = self._known, {}
        for job, row, nodes, cpus_per_gpu in zip(shown, rows, closed, cpus, strict=True):
            terms = (
                row.min_nodes,
                row.max_nodes,
                row.required,
                row.excluded,
                row.pinned,
                row.elastic,
                row.rigid,
                nodes,
                cpus_per_gpu,
            )
            known = last.get(job.id)
            if known is None or known.job is not job or known.terms != terms:
                known = _KnownRequest(job, terms, _request(job, row, nodes, cpus_per_gpu))
            self._known[job.id] = known
        return tuple(self._known[job.id].request for job in shown)


def _request(job: SlurmJob, row: JobRow, closed: frozenset[str], cpus_per_gpu: float) -> Request:
    plain = bool(_PLAIN_FEATURES.fullmatch(job.features))
    is_elastic = own_size.sizes(row) is not None  # its nodes are those of its size
    return Request(
        min_nodes=0 if is_elastic else row.min_nodes,
        max_nodes=0 if is_elastic else row.max_nodes,
        gpus_per_node=own_size.per_node(job) if is_elastic else job.gpus_per_node,
        cpus_per_gpu=cpus_per_gpu,
        memory_per_gpu=job.memory_per_cpu * cpus_per_gpu,
        memory_per_node=float(job.memory_per_node),
        gpu_type=pins.own_gpu_type(row, job),
        features=frozenset(job.features.split("&")) if plain else frozenset(),
        nodes=frozenset(row.required.split(",")) if row.required else frozenset(),
        excluded=frozenset(row.excluded.split(",")) if row.excluded else frozenset(),
        closed=closed,
    )
