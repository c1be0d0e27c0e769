"""The snapshot for `decide`: Slurm's records with attained service, the jobs' reports and open transitions."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import compress
from operator import attrgetter, not_

import numpy as np

from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.estimates.size_estimate import SizeEstimate
from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, JobState, Nodes, Snapshot
from tiresias.scheduler.rank.idle_gpus import IdleRule
from tiresias.slurm_plugin.admission.admissible import KeptShapes, admission, not_restartable
from tiresias.slurm_plugin.admission.eligibility import Eligibility
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.backends.record_values import id_of
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.cluster import begin_time, islands, sharing, topology
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation import server_numbers
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
from tiresias.slurm_plugin.observation.job_phases import counts_as_ended, decision_state
from tiresias.slurm_plugin.observation.job_requests import JobRequests, JobsWithFacts
from tiresias.slurm_plugin.observation.job_styles import JobStyles
from tiresias.slurm_plugin.observation.kept_nodes import KeptNodes
from tiresias.slurm_plugin.observation.learned_from_runs import LearnedFromRuns
from tiresias.slurm_plugin.observation.learned_limit import LearnedLimit
from tiresias.slurm_plugin.observation.ledger_table import KeptLedgerTable, LedgerTable
from tiresias.slurm_plugin.observation.measured_progress import MeasuredProgress
from tiresias.slurm_plugin.observation.node_failures import FailingNodesOfJournal
from tiresias.slurm_plugin.observation.pooled_memory import with_pooled_memory
from tiresias.slurm_plugin.observation.possible_sizes import Range, possible_sizes
from tiresias.slurm_plugin.observation.preemptability import Beyond, Preemptability
from tiresias.slurm_plugin.observation.progress_reports import ProgressReports
from tiresias.slurm_plugin.observation.rank_counts import RankCounts
from tiresias.slurm_plugin.observation.remote_memory_reports import RemoteMemoryReports
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.observation.run_columns import KeptRuns, RunColumns
from tiresias.slurm_plugin.observation.slow_nodes import SlowNodes
from tiresias.slurm_plugin.observation.trained_network import TrainedNetwork
from tiresias.slurm_plugin.observation.unused_gpus import IdleGpus
from tiresias.slurm_plugin.observation.whole_nodes import WholeNodes
from tiresias.slurm_plugin.state import job_claims, nodes_of_runs
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.job_claims import Expected
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
        self._held_by_all, self._held_by_shown, self._kept_runs = KeptHeldRows(), KeptHeldRows(), KeptRuns()
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
        self._requests, self._shapes, self._whole_nodes = JobRequests(), KeptShapes(), WholeNodes()
        self._known = KeptLedgerTable(ledger)
        self._facts = FactTable(self._facts_of)
        self._styles = JobStyles(config.placement, self.packlimit)
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
            self._jobs(slurm.time, table, facts, intents, nodes, profiles, allowed, sizes),
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

    def _jobs(
        self, now: float, table: LedgerTable, facts: JobFacts, intents: Mapping[str, Intent],
        nodes: Sequence[SlurmNode], profiles: Mapping[str, Summary], allowed: Eligibility, sizes: Mapping[str, Range],
    ) -> Jobs:  # fmt: skip
        ledger, estimates = self._ledger, self.estimates
        shown, ids, rows, runs, row_of = table.jobs, table.ids, table.rows, table.runs, table.row_of
        states = _states(shown, facts.phase, intents, row_of)
        ran = self._kept_runs.columns(runs, facts.restarts, facts.since, now)
        eligible = facts.is_due(now) & allowed.allowed(row_of)
        waits = eligible & (states == JobState.WAITING)
        owned = self.owners.columns(shown, waits, now, self._rules.fair_shares)
        claims = {at: self._claim(rows[at], now) for at in np.flatnonzero(facts.claims).tolist()}
        predicted = [estimates.sizes.get(one) for one in ids] if estimates.sizes else [None] * len(ids)
        servers, cpus = self._servers(shown, rows, facts, predicted)
        movable = self._movable(shown, states, intents, now)
        beyond = self.preemptability.columns(shown, states, movable, now) if self._config.virtual_clusters else Beyond()
        sized = [(row_of[one], *each) for one, each in sizes.items()]
        least, most = facts.min_gpus.copy(), facts.max_gpus.copy()
        for at, fewest, largest in sized:
            least[at], most[at] = fewest, largest
        return Jobs(
            id=ids,
            gpus=facts.gpus,
            submit=facts.submit,
            state=states,
            attained=ran.attained + owned.others,
            ran=ran.ran,
            waited=ran.waited,
            first_start=ran.first_start,
            last_start=ran.last_start,
            preempted=facts.preempted,
            movable=movable,
            eligible=eligible,
            obstacle=self._obstacles(shown, facts, allowed, row_of, now),
            free_only=allowed.refused(row_of),
            request=self._requests.of(JobsWithFacts(shown, rows, facts), allowed, nodes, cpus, now),
            preemption_cost=_filled(
                len(ids), np.nan, {row_of[one]: cost for one, cost in ledger.usage.costs.items() if one in row_of}
            ),
            progress_from=self._progress_from(table, ran, states, now),
            virtual_cluster=tuple(facts.virtual_cluster.tolist()),
            priority_class=facts.priority_class,
            min_gpus=least,
            max_gpus=most,
            gpu_step=facts.gpu_step,
            progress=facts.progress,
            claimed_remaining=_filled(len(ids), np.nan, {at: one.remaining for at, one in claims.items()})
            if claims
            else None,
            claim_trust=_filled(len(ids), 1.0, {at: one.weight for at, one in claims.items()}),
            opportunistic=beyond.opportunistic,
            reclaimable=beyond.reclaimable,
            saves=beyond.saves,
            seconds_by_size=tuple(one and one.seconds for one in predicted) if any(predicted) else None,
            uncertain=np.array([one is not None and one.uncertain for one in predicted], dtype=bool)
            if any(predicted)
            else None,
            servers_by_gpus=None if not servers else tuple(map(servers.get, range(len(ids)))),
            sizes_timed=estimates.all_sizes_timed(rows),
            starts=ran.starts,
            cpus_by_gpus=None if not cpus else tuple(map(cpus.get, range(len(ids)))),
            seconds_now=np.array([estimates.present.get(one, np.nan) for one in ids]) if estimates.present else None,
            demoted=self._demoted(ids),
            owner_excess=owned.excess,
            style=self._styles.of(row_of, facts.kind.tolist(), profiles, ledger.kinds),
            last_nodes=nodes_of_runs.column(
                runs, np.flatnonzero((states == JobState.WAITING) & (ran.starts > 0)).tolist()
            ),
            packed_until=self._styles.packed_until(row_of, np.fmax(facts.submit, facts.preempted), profiles),
            interference_kind=self.learned.interference.kinds_of(facts.kind),
            speed_sensitivity=self.learned.node_speeds.sensitivity(facts.kind),
            locality_penalty=self._styles.locality_penalty(row_of, profiles),
        )

    def _claim(self, row: JobRow, now: float) -> Expected:
        found = job_claims.expected(row, self._ledger.runs_of(row), now, self._ledger.trust_in(row.uid))
        assert found is not None, "JobFacts.claims"
        return found

    def _servers(
        self, shown: Sequence[SlurmJob], rows: Sequence[JobRow], facts: JobFacts,
        predicted: Sequence[SizeEstimate | None],
    ) -> tuple[dict[int, Ints], dict[int, Floats]]:  # fmt: skip
        """Return the servers of the jobs that have some, and the CPUs for each GPU, both by GPUs; by row."""
        found = {
            at: server_numbers.by_gpus(rows[at], shown[at], predicted[at])
            for at in np.flatnonzero(facts.has_servers).tolist()
        }
        servers = {at: one for at, one in found.items() if one is not None}
        return servers, {at: server_numbers.cpus_by_gpus(rows[at], shown[at], one) for at, one in servers.items()}

    def _movable(self, shown: Sequence[SlurmJob], states: Ints, intents: Mapping[str, Intent], now: float) -> Bools:
        found: Bools = np.logical_and(states == JobState.RUNNING, ~_has(intents, shown))
        running = list(compress(shown, found.tolist()))
        found[found] = list(map(not_, self.preemptability.why_each(running, now)))
        return found

    def _obstacles(
        self, shown: Sequence[SlurmJob], facts: JobFacts, allowed: Eligibility, row_of: Mapping[str, int], now: float
    ) -> tuple[str, ...]:
        """Return why Slurm would not start each job, in its own terms; "" for no reason."""
        found = allowed.reasons(row_of)
        for at in np.flatnonzero(facts.pending & (facts.begins > now)).tolist():
            begins = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(shown[at].begin_time))
            found[at] = found[at] or f"BeginTime, not before {begins}"
        return tuple(found)

    def _progress_from(self, table: LedgerTable, ran: RunColumns, states: Ints, now: float) -> Floats:
        """Return the time of the first step of each run, shape (jobs,); nan for jobs that do not run.

        It is `now` while a run reports none, the start where the program reports no steps.
        """
        runs = states == JobState.RUNNING
        found = np.where(runs, ran.first_step, np.nan)
        rows = np.flatnonzero(runs & ran.unrestored).tolist()
        jobs = list(map(table.jobs.__getitem__, rows))
        # possibly read for the first time; the ledger has it from the next cycle on
        for row, job, report in zip(rows, jobs, self.reports.of_each(jobs), strict=True):
            is_ready = report.ready and report.restart == job.restarts
            found[row] = table.runs[row][job.restarts].start + (report.restore or 0.0) if is_ready else now
        return found

    def _nodes(self, nodes: Nodes) -> Nodes:
        avoids = self._config.placement.failing_nodes == "avoid"
        avoided = self.failing_nodes.last_resort(nodes.name) if avoids else None
        return replace(nodes, last_resort=avoided, slowness=self.learned.node_speeds.slowness(nodes.name))

    def _demoted(self, ids: Sequence[str]) -> Bools | None:
        """Return which jobs are ranked after all others, shape (jobs,); None: none is."""
        found = list(map(self.idle_gpus.is_demoted, ids)) if self.idle_gpus.found else []
        return np.array(found, dtype=bool) if any(found) else None

    def _facts_of(self, job: SlurmJob, row: JobRow) -> JobFacts:
        return facts_of(job, row, self._competes(job), begin_time.has_begun(job, -math.inf, self._admission_waits))


def _states(shown: Sequence[SlurmJob], phases: Ints, intents: Mapping[str, Intent], row_of: Mapping[str, int]) -> Ints:
    """Return the state of each job, shape (jobs,)."""
    found: Ints = phases.copy()
    for job_id, intent in intents.items():
        if job_id in row_of:
            found[row_of[job_id]] = decision_state(shown[row_of[job_id]], intent)
    return found


def _has(ids: Container[str], jobs: Sequence[SlurmJob]) -> Bools:
    """Return which jobs are among these ids, shape (jobs,)."""
    return np.fromiter(map(ids.__contains__, map(id_of, jobs)), np.bool_, len(jobs))


def _without_ended(slurm: SlurmSnapshot) -> Sequence[SlurmJob]:
    """Return the jobs that do not count as ended."""
    if not any(map(attrgetter("completing"), slurm.jobs)):
        return slurm.jobs
    return [job for job in slurm.jobs if not counts_as_ended(job, slurm.time)]


def _filled(count: int, neutral: float, values: Mapping[int, float]) -> Floats:
    found = np.full(count, neutral)
    for at, value in values.items():
        found[at] = value
    return found
