"""The last stage: what viewers and the comments of pending jobs show."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from tiresias import __version__
from tiresias.scheduler.model import JobState
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import id_of
from tiresias.slurm_plugin.cluster import sharing
from tiresias.slurm_plugin.cycle.cycle_context import CycleContext, Decided
from tiresias.slurm_plugin.cycle.job_memory import JobMemory
from tiresias.slurm_plugin.cycle.services import Services
from tiresias.slurm_plugin.cycle.waiting_jobs import comments_of
from tiresias.slurm_plugin.observation import unused_gpu_texts
from tiresias.slurm_plugin.sockets.publication import Publication
from tiresias.slurm_plugin.sockets.shown_cells import guarantee_limit
from tiresias.slurm_plugin.sockets.shown_remote_memory import license_of
from tiresias.slurm_plugin.state.intents import IntentKind
from tiresias.slurm_plugin.transitions.transition_table import row_of


class PublishStage:
    """Publishes a cycle, and sets comments with the calls that nothing else needs."""

    def __init__(self, services: Services, version: str) -> None:
        """version: Slurm's."""
        self._services, self._version = services, version

    def run(self, context: CycleContext) -> None:
        """Read what the stages before it have filled in."""
        decided = context.decided
        assert decided is not None  # decide_stage.py
        self._services.journal.sync()  # viewers read the journal, too
        if context.config.admits:
            limit = guarantee_limit(context.config)
            self._services.guarantees.follow(decided.snapshot, decided.plan, limit)
        self._services.times.add(self._services.clock() - context.began)
        self._services.publisher.publish(self._publication(context, decided))
        if context.config.admits and not self._services.allowance.postponed:
            self._comment(context, decided)

    def _publication(self, context: CycleContext, decided: Decided) -> Publication:
        memory = context.memory
        running = self._services.quarantine.sound(job for job in context.managed if job.state == "RUNNING")
        return Publication(
            reports=dict(zip(map(id_of, running), memory.observer.reports.of_each(running), strict=True)),
            about=self._about(context),
            slurm=context.slurm,
            snapshot=decided.snapshot,
            plan=decided.plan,
            parts=decided.parts,
            tenants=context.pools.tenants,
            rows=dict(memory.ledger.jobs),
            phases=_phases(memory),
            unmovable=_unmovable(context, running),
            confined=_confined(context, decided),
            decisions=self._services.decisions.newest_first(),
            config=context.config,
            profiles=decided.profiles,
            due=_deadlines(context),
            cells=cache(context.pools.report) if context.config.virtual_clusters else None,
            slow_nodes=dict(memory.observer.slow_nodes.found),
            gpu_use=dict(memory.observer.idle_gpus.found),
            memory_uses=dict(memory.observer.memory_reports.found),
            memory_license=license_of(self._services.rules.rules),
            failing_nodes=frozenset(memory.observer.failing_nodes.found),
            node_speeds=memory.observer.learned.node_speeds.nodes,
            ends=dict(memory.observer.estimates.ends),
            owners=memory.observer.owners.shown(decided.managed),
            sizes=dict(memory.observer.estimates.sizes),
            guarantees=dict(self._services.guarantees.by_cluster),
        )

    def _about(self, context: CycleContext) -> dict[str, object]:
        services, memory, shadow = self._services, context.memory, context.memory.shadow
        return {
            "cluster": context.site.cluster, "mode": context.config.mode, "backend": services.backend.name,
            "slurm": self._version, "tiresias": __version__, "pid": os.getpid(), "started": services.times.started,
            "alarms": self._alarms(context),
            "cycle": services.times.published(context.config.period),
            "rpc": services.traffic.published(services.allowance.postponed),
            "actions": dict(services.decisions.actions), "totals": memory.ledger.usage.totals.published(),
            "packlimit": memory.observer.packlimit.published(),
            "interference": memory.observer.learned.interference.published(),
            "weights": memory.observer.trained.published(),
            "node_speeds": memory.observer.learned.node_speeds.published(), "leader": services.leadership.published(),
            "paused": context.paused and context.paused.published(), "shadow": shadow and shadow.published(),
        }  # fmt: skip

    def _alarms(self, context: CycleContext) -> list[str]:
        services, memory = self._services, context.memory
        return [
            *context.site.alarms,
            *sharing.alarms(memory.observer.preemptability.unprotected),
            *services.traffic.alarms(services.allowance.postponed),
            *services.rules.alarms,
            *memory.actor.alarms,
            *services.quarantine.alarms(),
            *context.pools.alarms,
            *memory.observer.failing_nodes.alarms(),
            *memory.observer.trained.alarms(),
            *unused_gpu_texts.alarms(memory.observer.idle_gpus.unused().keys(), context.managed),
            *services.guarantees.alarms(guarantee_limit(context.config)),
            *services.events.publishes(),
        ]

    def _comment(self, context: CycleContext, decided: Decided) -> None:
        snapshot = decided.snapshot
        starting = {one.id for one in context.memory.actor.intents.values() if one.kind == IntentKind.START}
        promised = {snapshot.jobs.id[row] for row in np.flatnonzero(snapshot.jobs.state == JobState.STARTING)}
        ends, unused = context.memory.observer.estimates.ends, context.memory.observer.idle_gpus.unused()
        context.comments.write(
            lambda: comments_of(context.slurm, decided, ends, unused), decided.managed, starting, starting | promised
        )


def _phases(memory: JobMemory) -> dict[str, str]:
    if memory.shadow:
        return memory.shadow.phases()
    return {one.id: row_of(one).phase for one in memory.actor.intents.values()}


def _unmovable(context: CycleContext, running: Sequence[SlurmJob]) -> dict[str, str]:
    """Why running jobs may not be preempted now, by job id; "" for those that may."""
    memory, now = context.memory, context.slurm.time
    known = [job for job in running if job.id in memory.ledger.jobs]
    return dict(zip(map(id_of, known), memory.observer.preemptability.why_each(known, now), strict=True))


def _confined(context: CycleContext, decided: Decided) -> dict[str, str]:
    """Why waiting jobs may not run beyond the cells of virtual clusters, by job id; none where there are no virtual clusters."""
    jobs, why = decided.snapshot.jobs, context.memory.observer.preemptability.why_confined
    if jobs.opportunistic is None:
        return {}
    rows = np.flatnonzero(~jobs.opportunistic & (jobs.state == JobState.WAITING))
    waiting = {jobs.id[row] for row in rows.tolist()}
    return {job.id: why(job, context.slurm.time) for job in decided.managed if job.id in waiting}


def _deadlines(context: CycleContext) -> Mapping[str, float]:
    """Epoch second until when the victims of a beneficiary may save, by the beneficiary's id."""
    deadline = context.config.preemption.deadline
    return {one.beneficiary: one.began + deadline for one in context.memory.actor.intents.values() if one.beneficiary}
