"""What a controller would learn of the speeds of simulated nodes: its own estimator, on noisy step times of simulated runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tiresias.scheduler.estimates.co_located_runs import NodeRun
from tiresias.scheduler.estimates.learned_node_speeds import NO_SPEEDS, LearnedNodeSpeeds, speeds_learning
from tiresias.scheduler.estimates.speed_samples import speed_samples
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.learned_simulated_speeds import LearnedSimulatedSpeeds, kind_of
from tiresias.simulator.observation import EventKind, Observation
from tiresias.simulator.simulation import Simulation
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import Trace


def simulated_runs(trace: Trace, cluster: ClusterSize, rules: Rules) -> list[NodeRun]:
    """Replay a trace and return the runs of its jobs. O(events x jobs that wait or run).

    A step takes a second alone on median nodes; a run is as much slower as it took longer than its duration in the trace.

    Args:
        trace: The jobs.
        cluster: The nodes.
        rules: Node by node, without preemption, overhead and failures: each job has one run.
    """
    simulation, begun, found = Simulation(trace, cluster, rules), dict[int, tuple[float, tuple[str, ...]]](), []
    while simulation.step():
        seen = simulation.observe()
        for row in _rows_of(seen, EventKind.FINISH):
            start, nodes = begun.pop(row)
            seconds = (seen.time - start) / float(trace.duration[row])
            gpus = int(trace.gpus[row])
            kind = kind_of(trace.model[row], gpus)
            found.append(NodeRun(kind, gpus, nodes, start, seen.time, seconds, str(row)))
        begun |= {row: (seen.time, nodes) for row, nodes in _nodes(seen, _rows_of(seen, EventKind.START)).items()}
    return found


def learned_speeds(
    runs: Sequence[NodeRun], noise: float, seed: int, names: Sequence[str]
) -> tuple[LearnedSimulatedSpeeds, LearnedNodeSpeeds]:
    """Return what a controller learns of runs, after the last of them, as simulated placements use it and as it was learned.

    Args:
        runs: The runs.
        noise: Standard deviation of the logarithm of a measured step time.
        seed: Of the noise.
        names: Of the nodes.
    """
    factors = np.exp(np.random.default_rng(seed).normal(0.0, noise, len(runs))).tolist()
    measured = [run._replace(seconds=run.seconds * factor) for run, factor in zip(runs, factors, strict=True)]
    found = NO_SPEEDS
    for part in speeds_learning(speed_samples(measured, -np.inf), max((run.end for run in runs), default=0.0)):
        found = part or found
    if not found.nodes:
        return LearnedSimulatedSpeeds(None), found
    slowness = np.array([found.nodes[name].slowness if name in found.nodes else 1.0 for name in names])
    return LearnedSimulatedSpeeds(slowness, found.sensitivity), found


def _rows_of(seen: Observation, kind: EventKind) -> list[int]:
    return [event.row for event in seen.events if event.kind is kind]


def _nodes(seen: Observation, rows: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the names of the nodes of running jobs. rows: of the trace."""
    jobs, held, names = seen.snapshot.jobs, seen.snapshot.allocations, seen.snapshot.nodes.name
    found: dict[int, tuple[str, ...]] = dict.fromkeys(rows, ())
    for job, node in zip(held.job.tolist(), held.node.tolist(), strict=True):
        row = int(jobs.id[job])
        if row in found:
            found[row] = (*found[row], names[node])
    return found
