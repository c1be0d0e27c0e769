"""The GPUs of waiting jobs that get whole nodes (`--exclusive`): all GPUs of their nodes, whatever they request.

Slurm starts such a job only on nodes without other jobs, and gives it all GPUs there. So a decision sees it as a job of whole
nodes. Where the managed nodes have different numbers of GPUs, or the request allows fewer nodes than its GPUs need, the request
stays as it is. CPU-only jobs on a node are not considered: Slurm then refuses the start, and another node is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from tiresias.scheduler.model import Request
from tiresias.slurm_plugin.backends.interface import SlurmNode
from tiresias.slurm_plugin.observation.job_facts import JobFacts

_Key: TypeAlias = tuple[int, int, int]  # the identity of a request, its GPUs, the GPUs of a node


class WholeNodes:
    """Replaces what such jobs request; requests that have not changed are the same objects in each cycle."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[Request, Request]] = {}  # as its owner stated it, and of whole nodes

    def counted(self, facts: JobFacts, nodes: Sequence[SlurmNode]) -> JobFacts:
        """Return the facts with the GPUs and the requests of whole nodes. O(jobs in numpy + such jobs + nodes).

        Args:
            facts: Of the jobs of a snapshot.
            nodes: The managed nodes.
        """
        rows, sizes = np.flatnonzero(facts.takes_whole_nodes).tolist(), {node.gpus for node in nodes if node.gpus}
        before, self._known = self._known, {}
        if not rows or len(sizes) != 1:
            return facts
        gpus, least, most, requests = (
            column.copy() for column in (facts.gpus, facts.min_gpus, facts.max_gpus, facts.request)
        )
        (of_node,) = sizes
        for at in rows:
            request = self._whole(requests[at], int(gpus[at]), of_node, before)
            if request is not requests[at]:
                requests[at], taken = request, request.min_nodes * request.gpus_per_node
                gpus[at] = least[at] = most[at] = taken
        return facts._replace(gpus=gpus, min_gpus=least, max_gpus=most, request=requests)

    def _whole(
        self, request: Request, gpus: int, of_node: int, before: Mapping[_Key, tuple[Request, Request]]
    ) -> Request:
        key = (id(request), gpus, of_node)
        known = before.get(key)
        if known is None or known[0] is not request:
            known = (request, whole_nodes(request, gpus, of_node))
        self._known[key] = known
        return known[1]


def whole_nodes(request: Request, gpus: int, of_node: int) -> Request:
    """Return the request of all GPUs of as few nodes as it needs; the same one where its nodes are too few.

    Args:
        request: As its owner stated it.
        gpus: The GPUs that it requests.
        of_node: GPUs of each node.
    """
    nodes = max(request.min_nodes, math.ceil(gpus / of_node), 1)
    if request.max_nodes and nodes > request.max_nodes:
        return request
    share = gpus / (nodes * of_node)  # its CPUs and memory for each GPU that it takes
    return replace(
        request,
        min_nodes=nodes,
        max_nodes=nodes,
        gpus_per_node=of_node,
        cpus_per_gpu=request.cpus_per_gpu * share,
        memory_per_gpu=request.memory_per_gpu * share,
    )
