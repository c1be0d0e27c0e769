"""Nodes on which no other start may count on free GPUs until Slurm has started a job there.

A pin names the nodes of a start, and not how many GPUs the job takes on each. Where several nodes have more free GPUs together
than the job requests, Slurm chooses: it fills one node after the other, and leaves one GPU for each of the rest. So the
distribution of such a start is *open*, and known only when the job runs, unless its request states GPUs for each node. A start
that shares a node with an open one would wait for a GPU that the other job has taken, perhaps for minutes, while GPUs stay idle
elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tiresias.slurm_plugin.state.intents import PREEMPTIONS, Intent, IntentKind
from tiresias.slurm_plugin.transitions.transition_context import NodeGpus, TransitionContext


class _Claim(NamedTuple):
    nodes: frozenset[str]
    is_open: bool


class NodeClaims:
    """The nodes of the starts that are under way, and of those that are taken in addition."""

    def __init__(self, context: TransitionContext) -> None:
        self._context, pending = context, list(_pending(context))
        self._free = _most_free(context)
        self._left = self._free - Counter(share for one in pending for share in _single_gpus(one.nodes))
        self._claims = [self._claim(one.id, one.nodes) for one in pending]

    def take(self, job_id: str, nodes: NodeGpus) -> bool:
        """Claim the nodes of a start; return whether it may begin now.

        One that may not keeps its nodes from later starts, so that these do not delay it again and again.
        """
        new = self._claim(job_id, nodes)
        is_compatible = not any((new.is_open or other.is_open) and new.nodes & other.nodes for other in self._claims)
        self._claims.append(new)
        return is_compatible

    def fit(self, nodes: NodeGpus) -> bool:
        """Return whether the nodes have so many GPUs beside those of the starts under way, once all preempted jobs have left."""
        return all(gpus <= self._left[node] for node, gpus in nodes if node in self._free)

    def _claim(self, job_id: str, nodes: NodeGpus) -> _Claim:
        names, job = frozenset(node for node, _ in nodes), self._context.record(job_id)
        is_stated = job is not None and any(each.per == "node" for each in job.stated_gpus)
        has_choice = len(names) > 1 and sum(self._free[node] for node in names) > sum(gpus for _, gpus in nodes)
        return _Claim(names, has_choice and not is_stated)


def _pending(context: TransitionContext) -> Iterable[Intent]:
    """Yield the starts under way of jobs that do not run yet."""
    starts = (one for one in context.intents.values() if one.kind == IntentKind.START)
    return (one for one in starts if not context.runs(one.id))


def _most_free(context: TransitionContext) -> Counter[str]:
    """Return the free GPUs of each node, with those of jobs that are being preempted."""
    free = Counter(context.free_gpus)
    for one in context.intents.values():
        if one.kind in PREEMPTIONS and context.runs(one.id) and (job := context.record(one.id)):
            free.update({share.node: share.gpus for share in job.shares})
    return free


def _single_gpus(nodes: NodeGpus) -> Iterable[str]:
    return (node for node, gpus in nodes for _ in range(gpus))
