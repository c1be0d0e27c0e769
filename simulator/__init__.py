"""Discrete-event replay of traces through the same `decide` that the controller runs.

The public names are imported at their first use, so that a module of this package costs what it imports itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiresias.simulator.cluster_size import ClusterSize
    from tiresias.simulator.elastic_job import ElasticJob, JobSize
    from tiresias.simulator.observation import Event, EventKind, Observation
    from tiresias.simulator.outcome import Outcome, Timeline
    from tiresias.simulator.simulation import Simulation, simulate
    from tiresias.simulator.simulation_rules import Cost, Rules
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
    "Rules",
    "Simulation",
    "Timeline",
    "Trace",
    "TraceJob",
    "read_trace",
    "simulate",
]
_MODULES = {
    "ClusterSize": "cluster_size", "Cost": "simulation_rules", "ElasticJob": "elastic_job", "Event": "observation",
    "EventKind": "observation", "JobSize": "elastic_job", "Observation": "observation", "Outcome": "outcome",
    "Rules": "simulation_rules", "Simulation": "simulation", "Timeline": "outcome", "Trace": "trace", "TraceJob": "trace",
    "read_trace": "trace", "simulate": "simulation",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
