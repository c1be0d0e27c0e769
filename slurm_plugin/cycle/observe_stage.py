"""The first stage: from Slurm's records to jobs with their history."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tiresias.protocol.control import JobReport
from tiresias.protocol.elastic_sizes import FIXED
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cycle.cycle_context import CycleContext
from tiresias.slurm_plugin.cycle.job_memory import JobMemory
from tiresias.slurm_plugin.cycle.services import Services
from tiresias.slurm_plugin.observation import unused_gpu_texts

PRUNE_INTERVAL_S = 3600.0  # between two prunings of the journal
DAY_S = 86400.0


class ObserveStage:
    """Continues what is under way, then takes a snapshot of Slurm."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._prune_at = services.clock() + PRUNE_INTERVAL_S

    def run(self, context: CycleContext) -> None:
        """Fill `slurm`, `managed` and `notes`."""
        memory, now = context.memory, context.began
        if context.config.acts:
            memory.actor.advance(now)  # before the snapshot, so that it shows what was done
        memory.topology.refresh(now, context.config.placement.topology)
        self._services.rules.refresh(now)
        self._prune(context.config.state.keep_days, now)
        memory.observer.packlimit.refit(memory.ledger, now)
        self._services.traffic.look(now)
        context.slurm, context.notes = self._snapshot(), self._services.leadership.notes()
        memory.actor.take_notes(context.notes)  # before a pin is taken for its owner's request
        context.managed = memory.ledger.apply(context.slurm)
        memory.actor.take_notes(context.notes)  # of jobs first seen in this snapshot
        if context.notes:
            self._services.journal.sync()  # before the notes are removed
        for note in context.notes:
            self._services.leadership.done(note)
        if context.config.acts:
            self._take_records(context)
        self._note_clusters(context)
        self._note_classes(memory, context.managed)
        self._note_costs(memory, context.managed)
        self._note_claims(memory, context.managed, context.slurm.time)
        if context.config.acts:
            self._note_demotions(memory, context.slurm.time)
        if context.config.admits:
            memory.actor.restore_sizes(context.managed, now)
        self._note_sizes(context)
        memory.observer.measured.write(context.slurm.time)

    def _snapshot(self) -> SlurmSnapshot:
        began = time.monotonic()
        found = self._services.backend.snapshot()
        self._services.times.add_snapshot(time.monotonic() - began)
        return found

    def _prune(self, keep_days: float, now: float) -> None:
        if keep_days and now >= self._prune_at:
            pruned = self._services.journal.prune(now - keep_days * DAY_S)
            self._prune_at = now + (0.0 if pruned else PRUNE_INTERVAL_S)

    def _take_records(self, context: CycleContext) -> None:
        """Find in the records what became of starts and preemptions, and hold what Slurm could start soon."""
        actor, now = context.memory.actor, self._services.clock()
        actor.see(context.managed, context.slurm.time, context.slurm.nodes)
        actor.confirm(now)
        if context.config.admits:
            soon = now + context.config.lease_seconds / 2
            actor.hold(context.memory.observer.waiting(context.managed, now), now, before=soon)
        actor.collect(context.managed, now)
        actor.release_unmanaged(now)

    def _note_clusters(self, context: CycleContext) -> None:
        """Journal the virtual cluster of jobs, where it has changed."""
        ledger, of = context.memory.ledger, context.config.virtual_cluster_of
        found = [(ledger.jobs[job.id], of(job.account, job.qos, job.partition)) for job in context.managed]
        if changed := [(row, name) for row, name in found if row.virtual_cluster != name]:
            with self._services.journal.batch():
                for row, name in changed:
                    ledger.note_cluster(row, name)

    def _note_classes(self, memory: JobMemory, managed: Sequence[SlurmJob]) -> None:
        """Journal the priority class of jobs, where it has changed."""
        rules, rows = self._services.rules.rules, memory.ledger.jobs
        found = [(rows[job.id], rules.priority_tier(job.partition)) for job in managed]
        changed = [(row, tier) for row, tier in found if tier not in (0, row.priority_class)]
        if changed:
            with self._services.journal.batch():
                for row, tier in changed:
                    memory.ledger.note_class(row, tier)

    def _note_costs(self, memory: JobMemory, managed: Sequence[SlurmJob]) -> None:
        """Journal what runs report of their starts, once they train."""
        for job in managed:
            if report := memory.observer.reports.known(job):
                with self._services.quarantine.guard("reading its report", job.id):
                    self._services.scripts.correct(job.id, report.script)
                    memory.ledger.note_script(job, report.script)
                    _note_cost(memory, job, report)

    def _note_claims(self, memory: JobMemory, managed: Sequence[SlurmJob], now: float) -> None:
        """Store what running jobs report of their progress and of their owners' choices."""
        reports, ledger, observer = memory.observer.reports, memory.ledger, memory.observer
        observer.rank_counts.begin_cycle(ledger.jobs)
        observer.progress.begin_cycle(ledger.jobs)
        observer.measured.begin_cycle({row.key for row in ledger.jobs.values()})
        running = {job.id for job in managed if job.state == "RUNNING"}
        observer.estimates.begin_cycle(running)
        observer.slow_nodes.begin_cycle(running)
        observer.idle_gpus.begin_cycle(running)
        observer.memory_reports.begin_cycle(running)
        for job in managed:
            if job.state == "RUNNING" and not job.completing:
                with self._services.quarantine.guard("reading its progress", job.id):
                    observer.memory_reports.poll(job, now)
                    if (report := reports.of(job)).restart == job.restarts:
                        row = ledger.jobs[job.id]
                        ledger.requests.note_choice(row, report.opportunistic)
                        stated = report.elastic or (FIXED if row.elastic else "")  # a note may be of another submission
                        ledger.requests.note_elastic(row, stated, job)
                        _note_ranks(memory, job, report, now)
                        observer.slow_nodes.poll(job, now)
                        observer.idle_gpus.poll(job, now)
                        if found := observer.progress.follow(job, row, ledger.runs_of(row), now):
                            observer.measured.take(row, job.restarts, found)
                            observer.estimates.take(row, job.restarts, found.pace, now)

    def _note_demotions(self, memory: JobMemory, now: float) -> None:
        """Add the jobs that are demoted now, or no longer, to the decisions."""
        changes = memory.observer.idle_gpus.changes()
        self._services.decisions.add(
            [unused_gpu_texts.decision(job_id, is_demoted, now) for job_id, is_demoted in changes]
        )

    def _note_sizes(self, context: CycleContext) -> None:
        """Note the sizes that elastic jobs can have, for their estimates."""
        estimates, rows = context.memory.observer.estimates, context.memory.ledger.jobs
        widest = max((node.gpus for node in context.slurm.nodes), default=0)
        for job in context.managed:
            if (row := rows[job.id]).elastic:
                with self._services.quarantine.guard("reading its sizes", job.id):
                    estimates.meet(job, row, widest)


def _note_ranks(memory: JobMemory, job: SlurmJob, report: JobReport, now: float) -> None:
    """Fix the size of an elastic job whose program ignores it."""
    ledger, row = memory.ledger, memory.ledger.jobs[job.id]
    if why := memory.observer.rank_counts.why_rigid(job, row, report, ledger.runs_of(row), now):
        ledger.requests.fix_size(row, why)


def _note_cost(memory: JobMemory, job: SlurmJob, report: JobReport) -> None:
    if not memory.observer.progress.is_reported(job):
        memory.ledger.note_progress(memory.ledger.jobs[job.id], report.at)
    memory.ledger.usage.note(
        memory.ledger.jobs[job.id],
        job.restarts,
        restore=report.restore,
        save=report.save,
        redone=report.redone,
        pace=report.pace,
    )
