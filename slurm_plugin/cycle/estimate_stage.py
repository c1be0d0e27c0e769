"""After a cycle: what jobs report, for a bounded time, and how runs ended is learned from. The next cycle decides with it."""

from __future__ import annotations

from tiresias.slurm_plugin.cycle.cycle_context import CycleContext
from tiresias.slurm_plugin.cycle.services import Services

SHARE = 0.02  # of the time between two cycles
LEAST_S, MOST_S = 0.01, 0.2


class EstimateStage:
    """Learns from the jobs that have waited longest for it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def run(self, context: CycleContext) -> None:
        """Change the estimates of the observer."""
        seconds = min(max(SHARE * context.config.period, LEAST_S), MOST_S)
        observer = context.memory.observer
        observer.estimates.learn(seconds, context.slurm.time)
        observer.failing_nodes.learn(context.slurm.time)
        observer.learned.learn(context.slurm.time)
