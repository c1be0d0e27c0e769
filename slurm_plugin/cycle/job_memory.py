"""All that the controller remembers of jobs, as the journal has it."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.scheduler.estimates.completed_jobs import MeanRun
from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.interface import CommentField
from tiresias.slurm_plugin.cluster.part_types import types_can_change
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.cycle.known_topology import KnownTopology
from tiresias.slurm_plugin.cycle.services import Services
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.observation.resize_reasons import ResizeReasons
from tiresias.slurm_plugin.shadow import Shadow
from tiresias.slurm_plugin.state.ledger import Ledger


@dataclass(frozen=True, slots=True)
class JobMemory:
    """Made anew from the journal where memory may be a step ahead of it.

    Attributes:
        shadow: in mode shadow, what the controller would do.
        mean_run: of completed jobs, for mode assist.
    """

    ledger: Ledger
    refusals: Refusals
    observer: Observer
    actor: Actor
    topology: KnownTopology
    shadow: Shadow | None
    mean_run: MeanRun


def recall(
    services: Services, config: Config, admission_waits: frozenset[int], comment_field: CommentField | None
) -> JobMemory:
    """Return what the journal has.

    `admission_waits`: seconds that job_submit.lua may have given to a job. `comment_field`: the one in which pending jobs have a
    comment of the controller.
    """
    ledger = Ledger(services.journal, Scope.of(config), services.quarantine)
    refusals = Refusals(config.preemption.backoff)
    for row in ledger.jobs.values():
        if row.failures:
            refusals.recall(row.id, row.failures, row.not_before)
    part_types = config.placement.part_types
    selects_parts = bool(part_types) and types_can_change(services.backend.version())
    observer = Observer(config, ledger, refusals, admission_waits, selects_parts)
    actor = Actor(
        services.backend, services.journal, ledger, config.preemption, observer.reports.fresh, services.allowance, refusals,
        services.quarantine, observer.has_begun, comment_field, services.events.progress,
        observer.preemptability.kind_of_preemption, part_types, ResizeReasons(ledger, observer.estimates).why,
    )  # fmt: skip
    shadow = Shadow(services.journal, config.lease_seconds) if not config.acts else None
    return JobMemory(ledger, refusals, observer, actor, KnownTopology(services.backend.topology), shadow, MeanRun())
