"""Placement style learned: a trained network places the job, task by task (marl-placement).

The snapshot carries the network. Without one the placement is that of `least_interference`. Pure.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.interference_table import UNKNOWN_KIND
from tiresias.scheduler.model import Request, Snapshot
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.free_capacity import GPUS
from tiresias.scheduler.place.learned.placement_agents import EmbeddedCluster, PlacementAgents, Select, best
from tiresias.scheduler.place.learned.task_observation import JobTerms
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.scheduler.place.least_interference import least_interference
from tiresias.scheduler.place.placement_context import PlacementContext


def learned(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return the placement of the network; None: the job does not fit."""
    snapshot = candidates.context.surroundings.snapshot
    weights = snapshot.trained
    if not isinstance(weights, PlacementWeights) or not weights.has_partitions(snapshot.nodes.topology):
        return least_interference(request, gpus, candidates)
    with np.errstate(over="ignore", invalid="ignore"):
        return placed_by(weights, request, gpus, candidates)


def placed_by(
    weights: PlacementWeights, request: Request, gpus: int, candidates: CandidateNodes, select: Select = best
) -> Placement | None:
    """Return the placement by some weights; None: the job does not fit. select: selects an action of an agent."""
    terms = job_terms(request, gpus, candidates.context)
    return PlacementAgents(_cluster(weights, candidates.context), terms, candidates.fit, select, weights.tasks).place()


def job_terms(request: Request, gpus: int, context: PlacementContext) -> JobTerms:
    """Return what holds for all tasks of a job."""
    own, others = context.interference
    table, kind = context.surroundings.snapshot.interference, context.kind.job_kind
    if table is None or kind == UNKNOWN_KIND:
        return JobTerms(request, gpus, own, others, context.capacity)
    sensitivity, aggressiveness = float(table.excess[kind].mean()), float(table.excess[:, kind].mean())
    return JobTerms(request, gpus, own, others, context.capacity, sensitivity, aggressiveness)


def _cluster(weights: PlacementWeights, context: PlacementContext) -> EmbeddedCluster:
    """Return the state of the free capacity and of the links as of now: only what changed since the last call is computed again."""
    kept, space = context.surroundings.by_space, context.space
    changes, started = space.changes, space.on_several
    if space not in kept:
        kept[space] = _begun(weights, context), len(changes), len(started)
    cluster, changed, placed = kept[space]
    if changed < len(changes):
        cluster.update(np.unique(changes[changed:]), context.free, started[placed:])
        kept[space] = cluster, len(changes), len(started)
    found: EmbeddedCluster = cluster
    return found


def _begun(weights: PlacementWeights, context: PlacementContext) -> EmbeddedCluster:
    """Return the state of the free capacity with the links of what was placed in it before."""
    cluster, started = embedded(weights, context), context.space.on_several
    if started:
        cluster.update(np.unique([node for each in started for node, _ in each]), context.free, started)
    return cluster


def embedded(weights: PlacementWeights, context: PlacementContext) -> EmbeddedCluster:
    """Return the state of the free capacity, all of it embedded."""
    snapshot = context.surroundings.snapshot
    graphs, gpus = weights.graphs(snapshot.nodes.topology), snapshot.nodes.topology.gpus
    load = _link_load(weights, snapshot)
    return EmbeddedCluster(weights.network(), graphs, gpus, context.free, context.capacity, load)


def _link_load(weights: PlacementWeights, snapshot: Snapshot) -> np.ndarray:
    held, graphs = snapshot.allocations, weights.graphs(snapshot.nodes.topology)
    found: np.ndarray = graphs.link_load(held.job, held.node, held.resources.amount[:, GPUS])
    return found
