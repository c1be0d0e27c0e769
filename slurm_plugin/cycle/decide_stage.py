"""The second stage: from a snapshot to a plan. It changes nothing, so it may be repeated for some of the jobs alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.admit.quotas import blocks_beside_free
from tiresias.scheduler.model import Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision, next_change_of
from tiresias.slurm_plugin.admission.known_rules import RULES_BEFORE_PREEMPTION_S
from tiresias.slurm_plugin.assist.assist_decision import assisted
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cycle.cycle_context import CycleContext, Decided
from tiresias.slurm_plugin.cycle.services import Services
from tiresias.slurm_plugin.state.quarantine import OF_ALL_JOBS

log = logging.getLogger("tiresias")


class DecideStage:
    """Observes the jobs and decides on them, without those that make either fail."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def run(self, context: CycleContext) -> None:
        """Fill `decided`; `managed` are then the jobs that it is about."""
        try:
            context.decided = self._sifted(context)
        except OF_ALL_JOBS:
            raise
        except Exception as error:
            if context.config.assists or not context.pools.fall_back(error):
                raise
            log.exception("scheduling fails whichever jobs are left out: las decides until a restart")
            context.decided = self._sifted(context)
        context.managed = context.decided.managed
        self._services.rules.watch(blocks_beside_free(context.decided.snapshot, context.decided.plan))

    def _sifted(self, context: CycleContext) -> Decided:
        sift = self._services.quarantine.sift
        return sift("scheduling it", context.slurm.jobs, lambda jobs: self._decided(context, jobs))

    def _decided(self, context: CycleContext, jobs: Sequence[SlurmJob]) -> Decided:
        slurm, managed = context.slurm, list(context.managed)
        if jobs is not slurm.jobs:
            ids = {job.id for job in jobs}
            slurm, managed = replace(slurm, jobs=tuple(jobs)), [job for job in managed if job.id in ids]
        profiles = self._services.profiles.poll(managed, slurm.time)
        snapshot = self._observed(context, slurm, managed, profiles)
        ledger = context.memory.ledger
        context.pools.learn(ledger.over, ledger.past, snapshot.jobs, int(snapshot.nodes.gpus.sum()))
        plan, parts = self._planned(context, snapshot, slurm)
        if plan.preemptions and self._services.rules.refresh(self._services.clock(), RULES_BEFORE_PREEMPTION_S):
            snapshot = self._observed(context, slurm, managed, profiles)
            plan, parts = self._planned(context, snapshot, slurm)
        return Decided(managed, profiles, snapshot, plan, parts, next_change_of(parts))

    def _planned(
        self, context: CycleContext, snapshot: Snapshot, slurm: SlurmSnapshot
    ) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the decisions on all jobs; in mode assist only those for the jobs that Slurm ranks first."""
        memory = context.memory
        if context.config.assists:
            memory.mean_run.learn(memory.ledger.over, memory.ledger.past, snapshot.jobs.ran)
            rules, intents = self._services.rules.rules, memory.actor.intents
            return assisted(snapshot, slurm, rules, context.config, intents, memory.mean_run.seconds)
        return context.pools.decide(snapshot, slurm)

    def _observed(
        self, context: CycleContext, slurm: SlurmSnapshot, managed: Sequence[SlurmJob], profiles: Mapping[str, Summary]
    ) -> Snapshot:
        memory = context.memory
        return memory.observer.observe(
            slurm,
            managed,
            memory.actor.intents,
            profiles,
            self._services.rules.rules,
            memory.topology.levels,
            context.why_paused,
        )
