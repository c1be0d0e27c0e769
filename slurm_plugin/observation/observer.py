"""The snapshot for `decide`: Slurm's records with attained service, the jobs' reports and open transitions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.attained_service import service
from tiresias.scheduler.model import Floats, Ints, Jobs, JobState, Nodes, Snapshot, Style
from tiresias.scheduler.place.placements import style_code
from tiresias.slurm_plugin.admission.admissible import admission, not_restartable
from tiresias.slurm_plugin.admission.eligibility import Eligibility
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.cluster import begin_time, islands, sharing, topology
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation import server_numbers
from tiresias.slurm_plugin.observation.allocations import (
    allocations,
    held_by_node,
    promised,
    scheduler_nodes,
    selected_parts,
)
from tiresias.slurm_plugin.observation.held_cells import cells_of
from tiresias.slurm_plugin.observation.job_estimates import JobEstimates
from tiresias.slurm_plugin.observation.job_phases import counts_as_ended, decision_state, settled_at
from tiresias.slurm_plugin.observation.learned_limit import LearnedLimit
from tiresias.slurm_plugin.observation.measured_progress import MeasuredProgress
from tiresias.slurm_plugin.observation.possible_sizes import Range, possible_sizes
from tiresias.slurm_plugin.observation.preemptability import Beyond, Preemptability
from tiresias.slurm_plugin.observation.progress_reports import ProgressReports
from tiresias.slurm_plugin.observation.rank_counts import RankCounts
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.observation.requests import RequestCache
from tiresias.slurm_plugin.observation.slow_nodes import SlowNodes
from tiresias.slurm_plugin.state import job_claims, own_size
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
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
        self._part_types = config.placement.part_types if selects_parts else ()
        self._config, self._ledger = config, ledger
        self._admission_waits = admission_waits or frozenset({config.admission_wait})
        self._refusals = refusals or Refusals(config.preemption.backoff)
        self.reports = Reports(config.paths.control)
        self.preemptability = Preemptability(config, ledger, self.reports)
        self.rank_counts = RankCounts(config.paths.control, config.preemption.rank_timeout)
        self.progress = ProgressReports(config.paths.control, config.progress.timed)
        self.slow_nodes = SlowNodes(config.paths.control, config.progress.timed)
        self.measured = MeasuredProgress(ledger)
        self.estimates = JobEstimates(ledger, self.measured)
        self.packlimit = LearnedLimit(config.paths.control, config.placement.packlimit)
        self._switches: Sequence[topology.Level] = ()  # of the newest snapshot, as all below
        self._requests = RequestCache()
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
        self._switches = switches
        if rules is not self._rules:
            self.preemptability.unprotected = sharing.unprotected(rules.partitions.values(), self._config.partitions)
        self._rules = rules
        running = [job for job in managed if job.state == "RUNNING" and not job.completing]
        self.preemptability.begin_cycle(not_restartable(rules, running, slurm.time), paused)
        self.reports.begin_cycle(self._ledger.jobs, slurm.time)
        intents = {**promised(intents), **intents}
        shown = [job for job in managed if self._competes(job) and not counts_as_ended(job, slurm.time)]
        nodes = [node for node in slurm.nodes if set(node.partitions) & set(self._config.partitions)]
        row_of = {node.name: row for row, node in enumerate(nodes)}
        there = [job for job in slurm.jobs if not counts_as_ended(job, slurm.time)]
        taken = held_by_node(there, shown, intents, row_of, len(nodes))
        shown_ids = {job.id for job in shown}
        allowed = self._eligibility(slurm, shown, intents)
        sizes = possible_sizes(rules, slurm, shown, self._ledger.jobs)
        cells = cells_of(shown, intents, self._ledger) if self._config.virtual_clusters else None
        snapshot = Snapshot(
            slurm.time,
            self._jobs(slurm.time, shown, intents, {node.name: node.gpus for node in nodes}, profiles, allowed, sizes),
            self._nodes(nodes, taken),
            allocations(shown, intents, row_of, cells),
            allowed.of_rows([job.id for job in shown]),
        )
        others = [job for job in there if job.id not in shown_ids]
        part_types = islands.PartTypes(self._part_types, selected_parts(intents))
        return islands.with_islands(snapshot, nodes, shown, others, self._config.placement.islands, part_types)

    def waiting(self, managed: Sequence[SlurmJob], now: float) -> list[SlurmJob]:
        """Return the pending jobs that only the controller, or nothing yet, keeps waiting."""
        return [
            job
            for job in managed
            if job.state == "PENDING" and self._competes(job) and not job.completing and self.has_begun(job, now)
        ]

    def next_settled(self, managed: Sequence[SlurmJob], now: float) -> float:
        """Return when the next requeued job may start again, or the next one that Slurm refused or that a reservation blocks; inf
        for never."""
        waiting = [settled_at(job, now) for job in managed if job.state == "PENDING" and not job.completing]
        others = (self._refusals.next_change(now), self._admission_changes)
        return min([moment for moment in (*waiting, *others) if moment > now], default=math.inf)

    def _eligibility(
        self, slurm: SlurmSnapshot, shown: Sequence[SlurmJob], intents: Mapping[str, Intent]
    ) -> Eligibility:
        waiting = [job for job in shown if job.state == "PENDING" and not job.completing]
        waiting.sort(key=lambda job: self._ledger.jobs[job.id].submit)
        starting = {job.id for job in waiting if job.id in intents}
        found = admission(self._rules, slurm.jobs, waiting, slurm.time, starting)
        self._admission_changes = found.changes_at

        def may_start(job: SlurmJob) -> bool:
            return job.id not in found.obstacle and self._is_due(job, slurm.time)

        trial = self._refusals.sort_out(waiting, starting, slurm.time, may_start)
        return Eligibility(found.obstacle, found.closed, found.quotas, trial)

    def _is_due(self, job: SlurmJob, now: float) -> bool:
        """Return whether neither a begin time, nor the back-off, nor the clean-up of its last run delays the waiting job."""
        not_before = max(self._ledger.jobs[job.id].not_before, settled_at(job, now))
        return not_before <= now and self.has_begun(job, now)

    def has_begun(self, job: SlurmJob, now: float) -> bool:
        """Return whether the job's begin time has passed or was set by job_submit.lua."""
        return begin_time.has_begun(job, now, self._admission_waits)

    def is_set_aside(self, job: SlurmJob) -> bool:
        """Return whether job_submit.lua delays the job."""
        return begin_time.is_set_aside(job, self._admission_waits)

    def _obstacle(self, job: SlurmJob, allowed: Eligibility, now: float) -> str:
        """Return why Slurm would not start the job, in its own terms; "" for no reason."""
        if reason := allowed.reason(job.id):
            return reason
        if job.state != "PENDING" or self.has_begun(job, now):
            return ""
        return f"BeginTime, not before {time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(job.begin_time))}"

    def _competes(self, job: SlurmJob) -> bool:
        """Return whether the job competes for GPUs: not while its owner or an administrator holds it, or it depends on others."""
        if job.completing or job.state in ("RUNNING", "SUSPENDED"):
            return True
        return self._ledger.free(job) and not self._ledger.jobs[job.id].unpinnable

    def _avoided(self, job: SlurmJob, now: float, gpus: Mapping[str, int]) -> frozenset[str]:
        """Return the nodes that the job does not retry yet, if the others suffice. `gpus`: of each node."""
        one = self._ledger.avoids.get(job.id)
        if (
            one is None
            or now >= one.until
            or sum(gpus.values()) - sum(gpus.get(name, 0) for name in one.nodes) < job.gpus
        ):
            return frozenset()
        return one.nodes

    def _jobs(
        self, now: float, shown: Sequence[SlurmJob], intents: Mapping[str, Intent], gpus: Mapping[str, int],
        profiles: Mapping[str, Summary], allowed: Eligibility, sizes: Mapping[str, Range],
    ) -> Jobs:  # fmt: skip
        rows = [self._ledger.jobs[job.id] for job in shown]
        ranges = [
            sizes.get(job.id) or (row.min_gpus or job.gpus, row.max_gpus or job.gpus)
            for job, row in zip(shown, rows, strict=True)
        ]
        states = [decision_state(job, intents.get(job.id)) for job in shown]
        runs = [self._ledger.runs_of(row) for row in rows]
        tick = float(int(now))  # as Slurm counts when the run ends: a preemption must not reduce attained service
        served = [
            service(
                [(run.start, run.end or max(tick, run.start), run.gpus) for run in row_runs],
                row.submit,
                row.reset,
                now,
            )
            for row, row_runs in zip(rows, runs, strict=True)
        ]
        starts = [[run.start for run in row_runs] or [np.nan] for row_runs in runs]
        claims = [
            job_claims.expected(row, row_runs, now, self._ledger.trust_in(row.uid))
            for row, row_runs in zip(rows, runs, strict=True)
        ]
        predicted = [self.estimates.sizes.get(job.id) for job in shown]
        servers = tuple(map(server_numbers.by_gpus, rows, shown, predicted))
        movable = np.array(
            [
                state == JobState.RUNNING and job.id not in intents and not self.preemptability.why_unmovable(job, now)
                for job, state in zip(shown, states, strict=True)
            ],
            dtype=bool,
        )
        beyond = (
            self.preemptability.columns(shown, np.array(states, dtype=np.int64), movable, now)
            if self._config.virtual_clusters
            else Beyond()
        )
        return Jobs(
            id=tuple(job.id for job in shown),
            gpus=np.array([job.gpus for job in shown], dtype=np.int64),
            submit=np.array([row.submit for row in rows], dtype=float),
            state=np.array(states, dtype=np.int64),
            attained=np.array([one.attained for one in served], dtype=float),
            ran=np.array([one.ran for one in served], dtype=float),
            waited=np.array([one.waited for one in served], dtype=float),
            first_start=np.array([min(one) for one in starts], dtype=float),
            last_start=np.array([max(one) for one in starts], dtype=float),
            preempted=np.array([row.last_preempted or np.nan for row in rows], dtype=float),
            movable=movable,
            eligible=np.array([self._is_due(job, now) and allowed.allows(job.id) for job in shown], dtype=bool),
            obstacle=tuple(self._obstacle(job, allowed, now) for job in shown),
            free_only=np.array([allowed.is_refused(job.id) for job in shown], dtype=bool),
            request=self._requests.of(
                shown,
                rows,
                [self._avoided(job, now, gpus) | allowed.closed_to(job.id) for job in shown],
                [
                    job.cpus / job.gpus if counts is None else server_numbers.cpus_per_gpu(row, job, counts)
                    for job, row, counts in zip(shown, rows, servers, strict=True)
                ],
            ),
            preemption_cost=np.array([self._ledger.costs.get(job.id, np.nan) for job in shown], dtype=float),
            progress_from=np.array(
                [
                    self._progress_from(job, row_runs, now) if state == JobState.RUNNING else np.nan
                    for job, row_runs, state in zip(shown, runs, states, strict=True)
                ],
                dtype=float,
            ),
            virtual_cluster=tuple(row.virtual_cluster for row in rows),
            priority_class=np.array([row.priority_class for row in rows], dtype=np.int64),
            min_gpus=np.array([least for least, _ in ranges], dtype=np.int64),
            max_gpus=np.array([most for _, most in ranges], dtype=np.int64),
            gpu_step=np.array([own_size.step(row, job) for job, row in zip(shown, rows, strict=True)], dtype=np.int64),
            progress=np.array([np.nan if row.progress is None else row.progress for row in rows], dtype=float),
            claimed_remaining=np.array([one.remaining if one else np.nan for one in claims]) if any(claims) else None,
            claim_trust=np.array([one.weight if one else 1.0 for one in claims], dtype=float),
            opportunistic=beyond.opportunistic,
            reclaimable=beyond.reclaimable,
            seconds_by_size=tuple(one and one.seconds for one in predicted) if any(predicted) else None,
            uncertain=np.array([one is not None and one.uncertain for one in predicted], dtype=bool)
            if any(predicted)
            else None,
            servers_by_gpus=None if all(one is None for one in servers) else servers,
            style=self._styles(shown, profiles),
            packed_until=np.array(
                [self._packed_until(row, profiles.get(job.id)) for job, row in zip(shown, rows, strict=True)],
                dtype=float,
            ),
        )

    def _progress_from(self, job: SlurmJob, runs: Sequence[RunRow], now: float) -> float:
        """Return the time of the run's first step; `now` while it reports none, the start where the program reports no steps."""
        run = next((run for run in runs if run.restart == job.restarts), None)
        if run is None:
            return math.nan
        if run.restore is not None:
            return run.start + run.restore
        report = self.reports.of(job)  # possibly read for the first time; the ledger has it from the next cycle on
        if not report.ready or report.restart != job.restarts:
            return now
        return run.start + (report.restore or 0.0)

    def _nodes(self, nodes: Sequence[SlurmNode], taken: Floats) -> Nodes:
        near = self._switches or topology.from_features(nodes, self._config.placement.levels)
        return scheduler_nodes(nodes, taken, topology.groups(nodes, near))

    def _styles(self, shown: Sequence[SlurmJob], profiles: Mapping[str, Summary]) -> Ints:
        """Return the placement style of each job; the first job of an unknown kind runs its trial."""
        if self._config.placement.style != "skew":
            return np.full(len(shown), style_code(self._config.placement.style), dtype=np.int64)
        styles, tried, unknown = [], set(self._ledger.kinds), Style[self._config.placement.unknown.upper()]
        for job in shown:
            kind = (job.uid, self._ledger.jobs[job.id].kind)
            profile = profiles.get(job.id)
            on_trial = self._config.placement.trial == "two_nodes" and kind[1] and kind not in tried
            styles.append(Style.APART if on_trial and not profile else self._style(profile, unknown))
            tried.add(kind)
        return np.array(styles, dtype=np.int64)

    def _style(self, profile: Summary | None, unknown: Style) -> Style:
        suffers = self.packlimit.consolidates(profile) if profile else None
        if suffers is None:
            return unknown
        return Style.CONSOLIDATE if suffers else Style.SPREAD

    def _packed_until(self, row: JobRow, profile: Summary | None) -> float:
        """Return until when a job waits for the fewest nodes, if it is known to be slow on many."""
        known = profile is not None and self.packlimit.consolidates(profile)
        if not known or self._config.placement.style != "skew":
            return -math.inf
        return max(row.submit, row.last_preempted) + self._config.placement.patience
