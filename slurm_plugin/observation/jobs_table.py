"""The jobs table of a snapshot: a column for each field of `Jobs`."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from itertools import compress
from operator import not_

import numpy as np

from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.estimates.size_estimate import SizeEstimate
from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, JobState
from tiresias.slurm_plugin.admission.eligibility import Eligibility
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode
from tiresias.slurm_plugin.backends.record_values import id_of
from tiresias.slurm_plugin.backends.slurm_rules import FairShare
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation import server_numbers
from tiresias.slurm_plugin.observation.job_estimates import JobEstimates
from tiresias.slurm_plugin.observation.job_facts import JobFacts
from tiresias.slurm_plugin.observation.job_owners import JobOwners
from tiresias.slurm_plugin.observation.job_phases import decision_state
from tiresias.slurm_plugin.observation.job_requests import JobRequests, JobsWithFacts
from tiresias.slurm_plugin.observation.job_styles import JobStyles
from tiresias.slurm_plugin.observation.learned_from_runs import LearnedFromRuns
from tiresias.slurm_plugin.observation.learned_limit import LearnedLimit
from tiresias.slurm_plugin.observation.ledger_table import LedgerTable
from tiresias.slurm_plugin.observation.possible_sizes import Range
from tiresias.slurm_plugin.observation.preemptability import Beyond, Preemptability
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.observation.run_columns import KeptRuns, RunColumns
from tiresias.slurm_plugin.observation.unused_gpus import IdleGpus
from tiresias.slurm_plugin.state import job_claims, nodes_of_runs
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.job_claims import Expected
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger


class JobsTable:
    """Makes the table from the jobs' records, rows and runs, and from what is reported, learned and decided of them.

    What is computed of requests and runs is kept from cycle to cycle.
    """

    def __init__(
        self, config: Config, ledger: Ledger, reports: Reports, preemptability: Preemptability, owners: JobOwners,
        estimates: JobEstimates, packlimit: LearnedLimit, learned: LearnedFromRuns, idle_gpus: IdleGpus,
    ) -> None:  # fmt: skip
        self._config, self._ledger, self._reports, self._preemptability = config, ledger, reports, preemptability
        self._owners, self._estimates, self._learned, self._idle_gpus = owners, estimates, learned, idle_gpus
        self._styles = JobStyles(config.placement, packlimit)
        self._requests, self._kept_runs = JobRequests(), KeptRuns()

    def of(
        self, now: float, table: LedgerTable, facts: JobFacts, intents: Mapping[str, Intent],
        nodes: Sequence[SlurmNode], profiles: Mapping[str, Summary], allowed: Eligibility, sizes: Mapping[str, Range],
        shares: Sequence[FairShare],
    ) -> Jobs:  # fmt: skip
        """Return the table.

        Args:
            now: Epoch second.
            table: Records, rows and runs of the jobs.
            facts: Their facts, in the same order.
            intents: The open ones, by job id.
            nodes: The managed nodes.
            profiles: What is known of jobs' traffic, by job id.
            allowed: Which of the waiting jobs Slurm would start.
            sizes: The fewest and the most GPUs of elastic jobs, by job id.
            shares: Of accounts and users, as Slurm has them.
        """
        ledger, estimates = self._ledger, self._estimates
        shown, ids, rows, runs, row_of = table.jobs, table.ids, table.rows, table.runs, table.row_of
        states = _states(shown, facts.phase, intents, row_of)
        ran = self._kept_runs.columns(runs, facts.restarts, facts.since, now)
        eligible = facts.is_due(now) & allowed.allowed(row_of)
        waits = eligible & (states == JobState.WAITING)
        owned = self._owners.columns(shown, waits, now, shares)
        claims = {at: self._claim(rows[at], now) for at in np.flatnonzero(facts.claims).tolist()}
        predicted = [estimates.sizes.get(one) for one in ids] if estimates.sizes else [None] * len(ids)
        servers, cpus = _servers(shown, rows, facts, predicted)
        movable = self._movable(shown, states, intents, now)
        beyond = (
            self._preemptability.columns(shown, states, movable, now) if self._config.virtual_clusters else Beyond()
        )
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
            obstacle=_obstacles(shown, facts, allowed, row_of, now),
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
            interference_kind=self._learned.interference.kinds_of(facts.kind),
            speed_sensitivity=self._learned.node_speeds.sensitivity(facts.kind),
            locality_penalty=self._styles.locality_penalty(row_of, profiles),
        )

    def _claim(self, row: JobRow, now: float) -> Expected:
        found = job_claims.expected(row, self._ledger.runs_of(row), now, self._ledger.trust_in(row.uid))
        assert found is not None, "JobFacts.claims"
        return found

    def _movable(self, shown: Sequence[SlurmJob], states: Ints, intents: Mapping[str, Intent], now: float) -> Bools:
        found: Bools = np.logical_and(states == JobState.RUNNING, ~_has(intents, shown))
        running = list(compress(shown, found.tolist()))
        found[found] = list(map(not_, self._preemptability.why_each(running, now)))
        return found

    def _progress_from(self, table: LedgerTable, ran: RunColumns, states: Ints, now: float) -> Floats:
        """Return the time of the first step of each run, shape (jobs,); nan for jobs that do not run.

        It is `now` while a run reports none, the start where the program reports no steps.
        """
        runs = states == JobState.RUNNING
        found = np.where(runs, ran.first_step, np.nan)
        rows = np.flatnonzero(runs & ran.unrestored).tolist()
        jobs = list(map(table.jobs.__getitem__, rows))
        # possibly read for the first time; the ledger has it from the next cycle on
        for row, job, report in zip(rows, jobs, self._reports.of_each(jobs), strict=True):
            is_ready = report.ready and report.restart == job.restarts
            found[row] = table.runs[row][job.restarts].start + (report.restore or 0.0) if is_ready else now
        return found

    def _demoted(self, ids: Sequence[str]) -> Bools | None:
        """Return which jobs are ranked after all others, shape (jobs,); None: none is."""
        found = list(map(self._idle_gpus.is_demoted, ids)) if self._idle_gpus.found else []
        return np.array(found, dtype=bool) if any(found) else None


def _servers(
    shown: Sequence[SlurmJob], rows: Sequence[JobRow], facts: JobFacts,
    predicted: Sequence[SizeEstimate | None],
) -> tuple[dict[int, Ints], dict[int, Floats]]:  # fmt: skip
    """Return the servers of the jobs that have some, and the CPUs for each GPU, both by GPUs; by row."""
    found = {
        at: server_numbers.by_gpus(rows[at], shown[at], predicted[at])
        for at in np.flatnonzero(facts.has_servers).tolist()
    }
    servers = {at: one for at, one in found.items() if one is not None}
    return servers, {at: server_numbers.cpus_by_gpus(rows[at], shown[at], one) for at, one in servers.items()}


def _obstacles(
    shown: Sequence[SlurmJob], facts: JobFacts, allowed: Eligibility, row_of: Mapping[str, int], now: float
) -> tuple[str, ...]:
    """Return why Slurm would not start each job, in its own terms; "" for no reason."""
    found = allowed.reasons(row_of)
    for at in np.flatnonzero(facts.pending & (facts.begins > now)).tolist():
        begins = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(shown[at].begin_time))
        found[at] = found[at] or f"BeginTime, not before {begins}"
    return tuple(found)


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


def _filled(count: int, neutral: float, values: Mapping[int, float]) -> Floats:
    found = np.full(count, neutral)
    for at, value in values.items():
        found[at] = value
    return found
