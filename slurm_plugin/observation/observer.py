"""The snapshot for `decide`: Slurm's records with attained service, the jobs' reports and open transitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import compress
from operator import attrgetter

import numpy as np

from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.model import Nodes, Snapshot
from tiresias.scheduler.rank.idle_gpus import IdleRule
from tiresias.slurm_plugin.admission.admissible import KeptShapes, admission, not_restartable
from tiresias.slurm_plugin.admission.eligibility import Eligibility
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.backends.record_values import id_of
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.cluster import begin_time, islands, sharing, topology
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.allocations import (
    allocations,
    held_by_node,
    promised,
    selected_parts,
)
from tiresias.slurm_plugin.observation.held_cells import cells_of
from tiresias.slurm_plugin.observation.held_rows import KeptHeldRows
from tiresias.slurm_plugin.observation.job_estimates import JobEstimates
from tiresias.slurm_plugin.observation.job_facts import FactTable, JobFacts, facts_of
from tiresias.slurm_plugin.observation.job_owners import JobOwners
from tiresias.slurm_plugin.observation.job_phases import counts_as_ended
from tiresias.slurm_plugin.observation.jobs_table import JobsTable
from tiresias.slurm_plugin.observation.kept_nodes import KeptNodes
from tiresias.slurm_plugin.observation.learned_from_runs import LearnedFromRuns
from tiresias.slurm_plugin.observation.learned_limit import LearnedLimit
from tiresias.slurm_plugin.observation.ledger_table import KeptLedgerTable
from tiresias.slurm_plugin.observation.measured_progress import MeasuredProgress
from tiresias.slurm_plugin.observation.node_failures import FailingNodesOfJournal
from tiresias.slurm_plugin.observation.pooled_memory import with_pooled_memory
from tiresias.slurm_plugin.observation.possible_sizes import possible_sizes
from tiresias.slurm_plugin.observation.preemptability import Preemptability
from tiresias.slurm_plugin.observation.progress_reports import ProgressReports
from tiresias.slurm_plugin.observation.rank_counts import RankCounts
from tiresias.slurm_plugin.observation.remote_memory_reports import RemoteMemoryReports
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.observation.slow_nodes import SlowNodes
from tiresias.slurm_plugin.observation.trained_network import TrainedNetwork
from tiresias.slurm_plugin.observation.unused_gpus import IdleGpus
from tiresias.slurm_plugin.observation.whole_nodes import WholeNodes
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger

NOTHING: Mapping[str, Summary] = {}
NO_RULES = SlurmRules()


class Observer:
    """Makes the snapshot that `decide` reads of Slurm's snapshot, the ledger, the open intents and the jobs' reports."""

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        refusals: Refusals | None = None,
        admission_waits: frozenset[int] | None = None,
        selects_parts: bool = False,
    ) -> None:
        """Start without records.

        Args:
            config: The configuration.
            ledger: The jobs.
            refusals: What Slurm refused.
            admission_waits: Seconds that job_submit.lua may have given to a job; None: those of the configuration.
            selects_parts: Whether this Slurm lets starts select parts of nodes by placement.part_types.
        """
        self._kept_nodes = KeptNodes(config, config.placement.part_types if selects_parts else ())
        self._held_by_all, self._held_by_shown = KeptHeldRows(), KeptHeldRows()
        self._config, self._ledger = config, ledger
        self._admission_waits = admission_waits or frozenset({config.admission_wait})
        self._refusals = refusals or Refusals(config.preemption.backoff)
        self.reports = Reports(config.paths.control)
        self.preemptability = Preemptability(config, ledger, self.reports)
        self.rank_counts = RankCounts(config.paths.control, config.preemption.rank_timeout)
        self.progress = ProgressReports(config.paths.control, config.progress.timed)
        self.slow_nodes = SlowNodes(config.paths.control, config.progress.timed)
        self.failing_nodes = FailingNodesOfJournal(ledger.history)
        self.learned = LearnedFromRuns(ledger.history, config.placement)
        idle = config.idle_gpus
        rule = IdleRule(idle.action, idle.warn_after, idle.demote_after)
        self.idle_gpus = IdleGpus(config.paths.control, rule, idle.interval)
        self.memory_reports = RemoteMemoryReports(config.paths.control)
        self.owners = JobOwners(config, ledger)
        self.measured = MeasuredProgress(ledger)
        self.estimates = JobEstimates(ledger, self.measured)
        self.packlimit = LearnedLimit(config.paths.control, config.placement.packlimit)
        self._shapes, self._whole_nodes = KeptShapes(), WholeNodes()
        self._known = KeptLedgerTable(ledger)
        self._facts = FactTable(self._facts_of)
        self._jobs_table = JobsTable(
            config, ledger, self.reports, self.preemptability, self.owners, self.estimates, self.packlimit, self.learned,
            self.idle_gpus,
        )  # fmt: skip
        self.trained = TrainedNetwork(config.placement)
        self._rules, self._admission_changes = NO_RULES, math.inf

    def observe(
        self, slurm: SlurmSnapshot, managed: Sequence[SlurmJob], intents: Mapping[str, Intent],
        profiles: Mapping[str, Summary] = NOTHING, rules: SlurmRules = NO_RULES, switches: Sequence[topology.Level] = (),
        paused: str = "",
    ) -> Snapshot:  # fmt: skip
        """Return what `decide` sees.

        Args:
            slurm: the records, as Slurm has them.
            managed: the live jobs that the ledger returned for this snapshot.
            intents: the open ones, by job id.
            profiles: what is known of jobs' traffic, by job id.
            rules: Slurm's, as they are now.
            switches: Slurm's topology; () where it has none.
            paused: why no job is preempted at all; "" where jobs are.
        """
        if rules is not self._rules:
            self.preemptability.unprotected = sharing.unprotected(rules.partitions.values(), self._config.partitions)
        self._rules = rules
        facts = self._facts_now(managed)
        running = list(compress(managed, facts.runs.tolist()))
        why_not = not_restartable(rules, running, slurm.time, self._shapes)
        self.preemptability.begin_cycle(why_not, paused, slurm.time)
        self.reports.begin_cycle(self._ledger.jobs, slurm.time)
        intents = {**promised(intents), **intents}
        is_shown = facts.competes & ~facts.counts_as_ended(slurm.time)
        table, facts = self._known.where(managed, is_shown), facts.of_rows(is_shown)
        shown = table.jobs
        nodes, row_of, _ = managed_nodes = self._kept_nodes.of(slurm.nodes, switches)
        facts = self._whole_nodes.counted(facts, nodes)
        there = _without_ended(slurm)
        taken = held_by_node(there, shown, intents, row_of, self._held_by_all)
        allowed = self._eligibility(slurm, shown, facts, intents)
        elastic = list(compress(shown, (facts.gpu_step > 0).tolist()))
        sizes = possible_sizes(rules, slurm, elastic, self._ledger.jobs)
        cells = cells_of(shown, intents, self._ledger) if self._config.virtual_clusters else None
        snapshot = Snapshot(
            slurm.time,
            self._jobs_table.of(slurm.time, table, facts, intents, nodes, profiles, allowed, sizes, rules.fair_shares),
            self._nodes(managed_nodes.with_taken(taken)),
            allocations(shown, intents, row_of, self._held_by_shown, cells),
            allowed.of_rows(table.ids),
            self.learned.interference.table,
            self.trained.of(managed_nodes.empty.topology, slurm.time),
        )
        snapshot = with_pooled_memory(snapshot, nodes, there, rules)
        if not snapshot.nodes.topology.parts:
            return snapshot
        others = [job for job in there if job.id not in table.row_of]
        return islands.with_islands(snapshot, nodes, shown, others, selected_parts(intents))

    def waiting(self, managed: Sequence[SlurmJob], now: float) -> list[SlurmJob]:
        """Return the pending jobs that only the controller, or nothing yet, keeps waiting."""
        managed = self._alive(managed)
        facts = self._facts_now(managed)
        rows = facts.pending & facts.competes & np.isneginf(facts.ended) & (facts.begins <= now)
        return list(compress(managed, rows.tolist()))

    def next_settled(self, managed: Sequence[SlurmJob], now: float) -> float:
        """Return when the next requeued job may start again, or the next one that Slurm refused or that a reservation blocks; inf
        for never."""
        facts = self._facts_now(self._alive(managed))
        waiting = facts.settled(now)[facts.pending & np.isneginf(facts.ended)]
        decision = self.preemptability.decision_times.next_due()
        others = (self._refusals.next_change(now), self._admission_changes, decision)
        return min([moment for moment in (*waiting[waiting > now].tolist(), *others) if moment > now], default=math.inf)

    def _alive(self, managed: Sequence[SlurmJob]) -> Sequence[SlurmJob]:
        """Return the jobs that have not ended since the snapshot: the ledger forgets a job whose end is seen while it acts."""
        if self._known.has(managed):
            return managed
        return list(compress(managed, map(self._ledger.jobs.__contains__, map(id_of, managed))))

    def _facts_now(self, managed: Sequence[SlurmJob]) -> JobFacts:
        return self._facts.of(managed, self._known.of(managed).rows)

    def _eligibility(
        self, slurm: SlurmSnapshot, shown: Sequence[SlurmJob], facts: JobFacts, intents: Mapping[str, Intent]
    ) -> Eligibility:
        rows = np.flatnonzero(facts.pending & np.isneginf(facts.ended))
        rows = rows[np.argsort(facts.submit[rows], kind="stable")].tolist()
        waiting = list(map(shown.__getitem__, rows))
        starting = intents.keys() & set(map(id_of, waiting)) if intents else set[str]()
        found = admission(self._rules, slurm.jobs, waiting, slurm.time, starting, self._shapes)
        self._admission_changes = found.changes_at
        due = cache(lambda: set(compress(map(id_of, waiting), facts.is_due(slurm.time)[rows].tolist())))

        def may_start(job: SlurmJob) -> bool:
            return job.id not in found.obstacle and job.id in due()

        trial = self._refusals.sort_out(waiting, starting, slurm.time, may_start)
        return Eligibility(found.obstacle, found.closed, found.quotas, trial)

    def has_begun(self, job: SlurmJob, now: float) -> bool:
        """Return whether the job's begin time has passed or was set by job_submit.lua."""
        return begin_time.has_begun(job, now, self._admission_waits)

    def is_set_aside(self, job: SlurmJob) -> bool:
        """Return whether job_submit.lua delays the job."""
        return begin_time.is_set_aside(job, self._admission_waits)

    def _competes(self, job: SlurmJob) -> bool:
        """Return whether the job competes for GPUs: not while its owner or an administrator holds it, or it depends on others."""
        if job.completing or job.state in ("RUNNING", "SUSPENDED"):
            return True
        return self._ledger.free(job) and not self._ledger.jobs[job.id].unpinnable

    def _nodes(self, nodes: Nodes) -> Nodes:
        avoids = self._config.placement.failing_nodes == "avoid"
        avoided = self.failing_nodes.last_resort(nodes.name) if avoids else None
        return replace(nodes, last_resort=avoided, slowness=self.learned.node_speeds.slowness(nodes.name))

    def _facts_of(self, job: SlurmJob, row: JobRow) -> JobFacts:
        return facts_of(job, row, self._competes(job), begin_time.has_begun(job, -math.inf, self._admission_waits))


def _without_ended(slurm: SlurmSnapshot) -> Sequence[SlurmJob]:
    """Return the jobs that do not count as ended."""
    if not any(map(attrgetter("completing"), slurm.jobs)):
        return slurm.jobs
    return [job for job in slurm.jobs if not counts_as_ended(job, slurm.time)]
