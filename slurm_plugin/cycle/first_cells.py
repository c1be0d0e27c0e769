"""A stage of a controller's first cycle: which running jobs have lost their cells by a configuration that was changed meanwhile."""

from __future__ import annotations

import logging

from tiresias.errors import UsageError
from tiresias.slurm_plugin.cluster.tenant_pools import guarantees_cells, jobs_without_cells, words_at_start
from tiresias.slurm_plugin.cycle.cycle_context import CycleContext, Decided
from tiresias.slurm_plugin.cycle.services import Services
from tiresias.slurm_plugin.observation.held_cells import cells_of
from tiresias.slurm_plugin.state.intents import Notice
from tiresias.slurm_plugin.state.journal_rows import Decision

log = logging.getLogger("tiresias")


class FirstCells:
    """Reports before anything is changed what a reload would have refused: a controller that starts has no old configuration."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def run(self, context: CycleContext) -> None:
        """Log and journal it; nothing where all jobs keep their cells, or where cells do not fit the nodes, for which there is an
        alarm."""
        assert context.decided is not None
        try:
            lost = _lost(context, context.decided)
        except UsageError:
            return
        if lost:
            log.warning("%s", words_at_start(lost))
            decision = Decision(context.slurm.time, "", Notice.RELOAD, words_at_start(lost))
            self._services.decisions.add_uncounted(decision)


def _lost(context: CycleContext, decided: Decided) -> tuple[str, ...]:
    """Return the ids of the running jobs that have lost their cells. Raises UsageError where cells do not fit the nodes."""
    config, of = context.config, context.config.virtual_cluster_of
    if guarantees_cells(config):
        clusters = {job.id: of(job.account, job.qos, job.partition) for job in decided.managed}
        return jobs_without_cells(config, decided.snapshot, clusters)
    running = [job for job in decided.managed if job.state == "RUNNING" and not job.completing]
    held = cells_of(running, {}, context.memory.ledger)  # the snapshot has no cells where there are no virtual clusters
    return tuple(job.id for job, cells in zip(running, held, strict=True) if cells)
