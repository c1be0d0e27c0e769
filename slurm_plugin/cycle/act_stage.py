"""The third stage: carries the plan out, or notes what would be done (mode shadow)."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Effect, JobState, Plan, Snapshot
from tiresias.scheduler.reasons import reason
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cycle.cycle_context import CycleContext, Decided
from tiresias.slurm_plugin.cycle.giving_back import release, remove_comments
from tiresias.slurm_plugin.cycle.job_memory import JobMemory
from tiresias.slurm_plugin.cycle.services import Services
from tiresias.slurm_plugin.cycle.straggler_replacement import replacements
from tiresias.slurm_plugin.shadow import Gpus
from tiresias.slurm_plugin.state import owned_cells
from tiresias.slurm_plugin.state.intents import Notice

log = logging.getLogger("tiresias")


class ActStage:
    """Begins and continues starts and preemptions, then does what can be deferred until after the starts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def run(self, context: CycleContext) -> None:
        """Fill `next_change` and `unmanaged_releases`."""
        decided = context.decided
        assert decided is not None  # decide_stage.py
        self._carry_out(context, decided)
        if context.config.acts:
            self._defer(context, self._services.quarantine.sound(context.managed))
        else:
            self._give_back(context)
        context.next_change = self._next_change(context, decided)
        intents = context.memory.actor.intents
        context.unmanaged_releases = any(one not in intents for one in _ids(decided.snapshot, JobState.RELEASING))

    def _carry_out(self, context: CycleContext, decided: Decided) -> None:
        memory = context.memory
        promote(decided.plan, memory, self._services)
        if memory.shadow:
            gpus = Gpus.of(decided.snapshot)
            plan = (
                replace(decided.plan, reserved=()) if context.config.assists else decided.plan
            )  # Slurm starts the jobs
            memory.actor.add_news(memory.shadow.record(context.slurm, plan, memory.ledger.jobs, gpus))
        elif not context.config.admits:
            self._assist(context, decided)
        else:
            memory.actor.rebind(owned_cells.of_rebindings(decided.plan.rebindings, decided.snapshot))
            memory.actor.begin(decided.plan, self._services.clock())
            self._replace_stragglers(context, decided)
            memory.actor.advance(self._services.clock())
        self._services.decisions.add(memory.actor.take_news())

    def _assist(self, context: CycleContext, decided: Decided) -> None:
        """Begin the preemptions for the jobs that Slurm ranks first (mode assist)."""
        plan, snapshot, now = decided.plan, decided.snapshot, self._services.clock()
        rows = np.flatnonzero(plan.effect == Effect.PREEMPT).tolist()
        why = {snapshot.jobs.id[row]: reason(plan, snapshot, row) for row in rows}
        context.memory.actor.assist(plan, why, now)
        context.memory.actor.advance(now)

    def _replace_stragglers(self, context: CycleContext, decided: Decided) -> None:
        if context.config.placement.stragglers == "replace":
            slow, policy = context.memory.observer.slow_nodes.found, context.config.policy
            for job, nodes, why in replacements(decided.snapshot, decided.plan, slow, policy):
                context.memory.actor.replace(job, nodes, why, self._services.clock())

    def _defer(self, context: CycleContext, managed: Sequence[SlurmJob]) -> None:
        """Hold, unpin and release pending jobs, in mode assist only release them; signal jobs whose time limit was reduced."""
        if context.config.admits:
            self._hold(context, managed)
        else:
            context.memory.actor.release_waiting(managed, self._services.clock())
        context.memory.actor.signal_reduced_limits(managed, self._services.clock())

    def _hold(self, context: CycleContext, managed: Sequence[SlurmJob]) -> None:
        memory = context.memory
        waiting = memory.observer.waiting(managed, context.slurm.time)
        now = self._services.clock()
        memory.actor.hold(waiting, now)
        memory.actor.unpin(waiting, now)
        memory.actor.release_left_to_slurm(managed, now)

    def _give_back(self, context: CycleContext) -> None:
        """Mode shadow holds nothing: lift what a controller in another mode left when it was killed, as its own end would have."""
        memory = context.memory
        rows = [(memory.ledger.jobs[job.id], job.state == "PENDING") for job in context.managed]
        if memory.actor.intents or any(row.held or (row.pinned and pending) for row, pending in rows):
            for problem in release(self._services, memory, context.comments, admits=False):
                log.warning("%s", problem)
            remove_comments(self._services, memory, context.comments)

    def _next_change(self, context: CycleContext, decided: Decided) -> float:
        """Epoch second at which the plan changes though nothing happens: a threshold is crossed, a wait limit passes."""
        services, memory = self._services, context.memory
        settled = memory.observer.next_settled(context.managed, context.slurm.time)
        postponed = -math.inf if services.allowance.postponed else math.inf
        rules = services.rules.due if services.rules.blocks else math.inf
        return min(decided.change, settled, memory.actor.next_check(services.clock()), postponed, rules)


def _ids(snapshot: Snapshot, state: JobState) -> list[str]:
    return [snapshot.jobs.id[row] for row in np.flatnonzero(snapshot.jobs.state == state)]


def promote(plan: Plan, memory: JobMemory, services: Services) -> None:
    """Reset the service of promoted jobs; the decisions are journaled first, so that no kill leaves a reset without one."""
    now = services.clock()
    for job_id in plan.promoted:
        memory.actor.context.add_news(now, job_id, Notice.PROMOTE, "waited too long: its service counts from 0")
    if plan.promoted:
        services.decisions.add(memory.actor.take_news())
    for job_id in plan.promoted:
        with services.quarantine.guard("its promotion", job_id):
            row = memory.ledger.jobs[job_id]
            row.reset = now
            memory.ledger.save(row)
