"""Discrete-event replay of traces through the same `decide` that the controller runs.

The public names are imported at their first use, so that a module of this package costs what it imports itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiresias.simulator.cluster_size import ClusterSize
    from tiresias.simulator.contention.simulated_contention import SimulatedContention
    from tiresias.simulator.elastic_job import ElasticJob, JobSize
    from tiresias.simulator.observation import Event, EventKind, Observation
    from tiresias.simulator.outcome import Outcome, Timeline
    from tiresias.simulator.placement_environment import PlacementEnvironment, PlacementStep, PlacementView
    from tiresias.simulator.placement_workloads import PlacementWorkload
    from tiresias.simulator.simulation import Simulation, simulate
    from tiresias.simulator.simulation_rules import Cost, Rules
    from tiresias.simulator.topologies.named_topologies import network_of
    from tiresias.simulator.trace import Trace, TraceJob, read_trace

__all__ = [
    "ClusterSize",
    "Cost",
    "ElasticJob",
    "Event",
    "EventKind",
    "JobSize",
    "Observation",
    "Outcome",
    "PlacementEnvironment",
    "PlacementStep",
    "PlacementView",
    "PlacementWorkload",
    "Rules",
    "SimulatedContention",
    "Simulation",
    "Timeline",
    "Trace",
    "TraceJob",
    "network_of",
    "read_trace",
    "simulate",
]
_MODULES = {
    "ClusterSize": "cluster_size", "Cost": "simulation_rules", "ElasticJob": "elastic_job", "Event": "observation",
    "EventKind": "observation", "JobSize": "elastic_job", "Observation": "observation", "Outcome": "outcome",
    "PlacementEnvironment": "placement_environment", "PlacementStep": "placement_environment",
    "PlacementView": "placement_environment", "PlacementWorkload": "placement_workloads",
    "Rules": "simulation_rules", "SimulatedContention": "contention.simulated_contention", "Simulation": "simulation",
    "Timeline": "outcome", "Trace": "trace", "TraceJob": "trace", "network_of": "topologies.named_topologies",
    "read_trace": "trace", "simulate": "simulation",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
