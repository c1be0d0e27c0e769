"""From Slurm's records to what `decide` sees: adds the service a job has had, what it says of itself, what we do to it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiresias.protocol import control
from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.attained_service import service
from tiresias.scheduler.model import Allocations, Floats, Ints, Jobs, JobState, Nodes, Request, Snapshot, Style
from tiresias.scheduler.place.placements import style_code
from tiresias.slurm_plugin.admission.admissible import admission, not_restartable
from tiresias.slurm_plugin.admission.eligibility import Eligibility
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.protocol import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.backends.rules import SlurmRules
from tiresias.slurm_plugin.cluster import begin_time, islands, sharing, topology
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.learned_limit import LearnedLimit
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

PROGRESS = 120.0  # seconds between two looks at the progress of a run that is ready
PATIENCE = 10.0  # a run that is not ready is looked at again after a tenth of the time that it has run
SAME_START = 2  # seconds between what Slurm tells a job and us of its start, at most
SETTLE = 2.0  # seconds between two runs of a job
CLEAN_UP = 5.0  # seconds that COMPLETING takes at most where nothing hangs
NOTHING: Mapping[str, Summary] = {}
NO_RULES = SlurmRules()
_PLAIN_FEATURES = re.compile(r"[\w.:-]+(&[\w.:-]+)*")


class _Read(NamedTuple):
    """A report, the run that was asked for it, and until when it will do (on the monotonic clock)."""

    report: control.JobReport
    restart: int
    until: float


class _Asked(NamedTuple):
    """What a job asks for, and what that was made from."""

    job: SlurmJob
    wishes: tuple[int, int, str, str, frozenset[str]]
    request: Request


@dataclass(slots=True)
class Reports:
    """What jobs say of themselves, read from their control folders. A run that was ready stays ready, and is asked for its
    progress now and then; one that is not is asked the less often the longer it runs. So a steady cluster costs the shared file
    system few reads, also where most jobs have no control folder."""

    root: Path
    _read: dict[str, _Read] = field(default_factory=dict)
    _now: float = 0.0  # of the cycle

    def of(self, job: SlurmJob) -> control.JobReport:
        last = self._read.get(job.id)
        if last and last.restart == job.restarts and time.monotonic() < last.until:
            return last.report
        known, found = self.known(job), self.fresh(job)
        ready = found.ready and found.restart == job.restarts
        if known and not ready:
            ready, found = True, known
        wait = PROGRESS if ready else min(max(self._now - job.start_time, 0.0) / PATIENCE, PROGRESS)
        self._read[job.id] = _Read(found, job.restarts, time.monotonic() + wait)
        return found

    def known(self, job: SlurmJob) -> control.JobReport | None:
        """What this run said since it was ready, where that was read."""
        last = self._read.get(job.id)
        return last.report if last and last.report.ready and last.report.restart == job.restarts else None

    def fresh(self, job: SlurmJob) -> control.JobReport:
        """Nothing, where an older job with this id speaks: Slurm reuses ids, and until the supervisor has begun, what that one left
        lies there. Who believed it would signal a job that does not listen yet."""
        found = control.report(self.root, job.uid, job.id)
        older = found.start and job.start_time and abs(found.start - job.start_time) > SAME_START
        return control.JobReport() if older else found

    def begin_cycle(self, alive: Mapping[str, object], now: float) -> None:
        """What has ended is forgotten."""
        self._now = now
        for job_id in [one for one in self._read if one not in alive]:
            del self._read[job_id]


class Observer:
    def __init__(self, config: Config, ledger: Ledger, refusals: Refusals | None = None) -> None:
        self._config, self._ledger = config, ledger
        self._refusals = refusals or Refusals(config.preemption.backoff)
        self.reports = Reports(config.paths.control)
        self.packlimit = LearnedLimit(config.paths.control, config.placement.packlimit)
        self.switches: tuple[topology.Level, ...] = ()  # what Slurm knows of them
        self._requests: dict[str, _Asked] = {}
        self.unprotected: Mapping[str, str] = {}  # nodes on which nothing is preempted (sharing.py)
        self._rules, self._admission_changes = NO_RULES, math.inf
        self._not_restartable: Mapping[str, str] = {}
        self.admission_waits = frozenset({config.admission_wait})  # seconds
        self.paused = ""  # why nothing at all is to be preempted

    def observe(
        self, slurm: SlurmSnapshot, managed: Sequence[SlurmJob], intents: Mapping[str, Intent],
        profiles: Mapping[str, Summary] = NOTHING, rules: SlurmRules = NO_RULES,
    ) -> Snapshot:  # fmt: skip
        """`managed`: the live jobs that the ledger returned for this snapshot. `intents`: open ones by job id. `profiles`: what is
        known of jobs' traffic, by job id. `rules`: of Slurm, as they are now."""
        if rules is not self._rules:
            self.unprotected = sharing.unprotected(rules.partitions.values(), self._config.partitions)
        self._rules = rules
        running = [job for job in managed if job.state == "RUNNING" and not job.completing]
        self._not_restartable = not_restartable(rules, running, slurm.time)
        self.reports.begin_cycle(self._ledger.jobs, slurm.time)
        intents = {**_promised(intents), **intents}
        shown = [job for job in managed if self._competes(job) and not _cleaned_up_soon(job, slurm.time)]
        nodes = [node for node in slurm.nodes if set(node.partitions) & set(self._config.partitions)]
        row_of = {node.name: row for row, node in enumerate(nodes)}
        there = [job for job in slurm.jobs if not _cleaned_up_soon(job, slurm.time)]
        taken = _taken(there, shown, intents, row_of, len(nodes))
        ours = {job.id for job in shown}
        allowed = self._eligibility(slurm, shown, intents)
        snapshot = Snapshot(
            slurm.time,
            self._jobs(slurm.time, shown, intents, {node.name: node.gpus for node in nodes}, profiles, allowed),
            self._nodes(nodes, taken),
            _allocations(shown, intents, row_of),
            allowed.of_rows([job.id for job in shown]),
        )
        others = [job for job in there if job.id not in ours]
        return islands.told(snapshot, nodes, shown, others, self._config.placement.islands)

    def why_unmovable(self, job: SlurmJob, now: float) -> str:
        """Why a running job may not be preempted now; "" when it may."""
        row, policy = self._ledger.jobs[job.id], self._config.policy_of(job.partition)
        if not job.batch:
            return "an srun or salloc allocation cannot be requeued"
        if not job.requeue:
            return "submitted with --no-requeue"
        if row.unmovable:
            return row.unmovable
        if now < (until := self._ledger.late_until(row)):
            return f"a job of its kind did not save in time: not preempted for another {until - now:.0f} s"
        if found := next((share.node for share in job.shares if share.node in self.unprotected), ""):
            return f"partition {self.unprotected[found]} comes before its own on {found} (PriorityTier)"
        if policy.max_preemptions and row.preemptions >= policy.max_preemptions:
            return f"was preempted {row.preemptions} times already (policy.max_preemptions)"
        if now - row.last_preempted < policy.cooldown:
            return "was preempted a short while ago (policy.cooldown)"
        report = self.reports.of(job)
        if report.restart == job.restarts and report.refused:
            return report.refused
        if report.restart != job.restarts or not report.ready:
            return "has not shown that it can checkpoint"
        if reason := self._not_restartable.get(job.id):
            return f"could not start again now: {reason}"
        return self.paused

    def waiting(self, managed: Sequence[SlurmJob], now: float) -> list[SlurmJob]:
        """The pending jobs that nothing but us keeps waiting, or that nothing keeps waiting yet."""
        return [
            job
            for job in managed
            if job.state == "PENDING" and self._competes(job) and not job.completing and self.has_begun(job, now)
        ]

    def next_settled(self, managed: Sequence[SlurmJob], now: float) -> float:
        """When the next requeued job may be started again, or the next one that Slurm refused or that a reservation keeps
        waiting; inf for never."""
        waiting = [_settled(job, now) for job in managed if job.state == "PENDING" and not job.completing]
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
        """Whether neither a begin time nor our own back-off nor the clean-up of its last run keeps the waiting job."""
        not_before = max(self._ledger.jobs[job.id].not_before, _settled(job, now))
        return not_before <= now and self.has_begun(job, now)

    def has_begun(self, job: SlurmJob, now: float) -> bool:
        return begin_time.has_begun(job, now, self.admission_waits)

    def is_set_aside(self, job: SlurmJob) -> bool:
        return begin_time.is_set_aside(job, self.admission_waits)

    def _obstacle(self, job: SlurmJob, allowed: Eligibility, now: float) -> str:
        """In Slurm's words; "" for none."""
        if reason := allowed.reason(job.id):
            return reason
        if job.state != "PENDING" or self.has_begun(job, now):
            return ""
        return f"BeginTime, not before {time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(job.begin_time))}"

    def _competes(self, job: SlurmJob) -> bool:
        """Not while its owner or an admin holds it or it depends on others: then it has to wait for them first."""
        if job.completing or job.state in ("RUNNING", "SUSPENDED"):
            return True
        return self._ledger.free(job) and not self._ledger.jobs[job.id].unpinnable

    def _avoided(self, job: SlurmJob, now: float, gpus: Mapping[str, int]) -> frozenset[str]:
        """Nodes that the job does not try again yet, where the others would be enough. `gpus`: of each node."""
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
        profiles: Mapping[str, Summary], allowed: Eligibility,
    ) -> Jobs:  # fmt: skip
        rows = [self._ledger.jobs[job.id] for job in shown]
        states = [_state(job, intents.get(job.id)) for job in shown]
        runs = [self._ledger.runs_of(row) for row in rows]
        tick = float(int(now))  # as Slurm will count when the run ends: no job gets service back for being preempted
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
            movable=np.array(
                [
                    state == JobState.RUNNING and job.id not in intents and not self.why_unmovable(job, now)
                    for job, state in zip(shown, states, strict=True)
                ],
                dtype=bool,
            ),
            eligible=np.array([self._is_due(job, now) and allowed.allows(job.id) for job in shown], dtype=bool),
            obstacle=tuple(self._obstacle(job, allowed, now) for job in shown),
            free_only=np.array([allowed.is_refused(job.id) for job in shown], dtype=bool),
            request=self._asked(
                shown, rows, [self._avoided(job, now, gpus) | allowed.closed_to(job.id) for job in shown]
            ),
            preemption_cost=np.array([self._ledger.costs.get(job.id, np.nan) for job in shown], dtype=float),
            progress_from=np.array(
                [
                    self._progress_from(job, row_runs, now) if state == JobState.RUNNING else np.nan
                    for job, row_runs, state in zip(shown, runs, states, strict=True)
                ],
                dtype=float,
            ),
            style=self._styles(shown, profiles),
            packed_until=np.array(
                [self._packed_until(row, profiles.get(job.id)) for job, row in zip(shown, rows, strict=True)],
                dtype=float,
            ),
        )

    def _progress_from(self, job: SlurmJob, runs: Sequence[RunRow], now: float) -> float:
        """When the present run made its first step; `now` while it reports none, the start where the program reports no steps."""
        run = next((run for run in runs if run.restart == job.restarts), None)
        if run is None:
            return math.nan
        if run.restore is not None:
            return run.start + run.restore
        report = self.reports.of(job)  # read for the first time perhaps: the ledger has it from the next cycle on
        if not report.ready or report.restart != job.restarts:
            return now
        return run.start + (report.restore or 0.0)

    def _asked(
        self, shown: Sequence[SlurmJob], rows: Sequence[JobRow], closed: Sequence[frozenset[str]]
    ) -> tuple[Request, ...]:
        """Of ten thousand jobs few have changed since the last cycle: the back ends give the same records again."""
        last, self._requests = self._requests, {}
        for job, row, nodes in zip(shown, rows, closed, strict=True):
            wishes = (row.min_nodes, row.max_nodes, row.required, row.excluded, nodes)
            known = last.get(job.id)
            if known is None or known.job is not job or known.wishes != wishes:
                known = _Asked(job, wishes, _request(job, row, nodes))
            self._requests[job.id] = known
        return tuple(self._requests[job.id].request for job in shown)

    def _nodes(self, nodes: Sequence[SlurmNode], taken: Floats) -> Nodes:
        near = self.switches or topology.from_features(nodes, self._config.placement.levels)
        leaf, *above = topology.groups(nodes, near)
        return _nodes(nodes, taken, leaf, tuple(above))

    def _styles(self, shown: Sequence[SlurmJob], profiles: Mapping[str, Summary]) -> Ints:
        """Of jobs of one kind of which nothing is known yet the first makes its trial run."""
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
        """Only of jobs of which it is known that they suffer, counted from when they came or came back."""
        known = profile is not None and self.packlimit.consolidates(profile)
        if not known or self._config.placement.style != "skew":
            return -math.inf
        return max(row.submit, row.last_preempted) + self._config.placement.patience


def _settled(job: SlurmJob, now: float) -> float:
    """A run that began the moment its predecessor was cleaned up failed once on Slurm 24.11. The submit time of a requeued
    job is when its clean-up was over; where that lies ahead the clock was set back since."""
    return job.submit_time + SETTLE if job.restarts and job.submit_time <= now + SETTLE else 0.0


def _cleaned_up_soon(job: SlurmJob, now: float) -> bool:
    """What Slurm has begun to clean up counts as gone: a successor that is released by then is started by Slurm at the very
    end of the clean-up, one that is released after it only at Slurm's next look, up to a second later (job_scheduler.c)."""
    return job.completing and now - job.end_time < CLEAN_UP


def _state(job: SlurmJob, intent: Intent | None) -> JobState:
    if intent and intent.kind == IntentKind.START:
        return JobState.STARTING
    if job.completing or (intent and job.state == "RUNNING"):  # preempted, or parked for its time limit
        return JobState.RELEASING
    return JobState.RUNNING if job.state in ("RUNNING", "SUSPENDED") else JobState.WAITING


def _request(job: SlurmJob, row: JobRow, closed: frozenset[str]) -> Request:
    plain = bool(_PLAIN_FEATURES.fullmatch(job.features))
    return Request(
        min_nodes=row.min_nodes,
        max_nodes=row.max_nodes,
        gpus_per_node=job.gpus_per_node,
        cpus_per_gpu=job.cpus / job.gpus,
        memory_per_gpu=job.memory_per_cpu * job.cpus / job.gpus,
        memory_per_node=float(job.memory_per_node),
        gpu_type=job.gpu_type,
        features=frozenset(job.features.split("&")) if plain else frozenset(),
        nodes=frozenset(row.required.split(",")) if row.required else frozenset(),
        excluded=frozenset(row.excluded.split(",")) if row.excluded else frozenset(),
        closed=closed,
    )


def _promised(intents: Mapping[str, Intent]) -> dict[str, Intent]:
    """The starts that hand-overs under way will come to, by beneficiary: it is not planned for again meanwhile."""
    preemptions = [one for one in intents.values() if one.kind == IntentKind.PREEMPT and one.beneficiary]
    return {
        one.beneficiary: Intent("", one.beneficiary, 0, IntentKind.START, IntentStep.START, one.nodes)
        for one in preemptions
        if one.nodes and one.step != IntentStep.SPARE
    }


def _shares(job: SlurmJob, intent: Intent | None) -> list[tuple[str, int, float, float]]:
    """(node, GPUs, CPUs, MB) that the job holds or was promised."""
    if job.shares or not intent:
        return [(share.node, share.gpus, share.cpus, share.memory) for share in job.shares]
    per_gpu = job.cpus / job.gpus
    return [
        (node, gpus, gpus * per_gpu, job.memory_per_node or gpus * per_gpu * job.memory_per_cpu)
        for node, gpus in intent.nodes
    ]


def _promise(job: SlurmJob, intents: Mapping[str, Intent]) -> Intent | None:
    intent = intents.get(job.id)
    return intent if intent and intent.kind == IntentKind.START else None


def _taken(
    jobs: Sequence[SlurmJob],
    shown: Sequence[SlurmJob],
    intents: Mapping[str, Intent],
    row_of: Mapping[str, int],
    nodes: int,
) -> Floats:
    """GPUs, CPUs and MB held on each node by anybody, shape (nodes, 3)."""
    ours = {job.id for job in shown}
    rows = [
        (row_of[node], *amounts)
        for job in jobs
        if job.shares or job.id in intents
        for node, *amounts in _shares(job, _promise(job, intents) if job.id in ours else None)
        if node in row_of
    ]
    held, taken = np.array(rows, dtype=float).reshape(len(rows), 4), np.zeros((nodes, 3))
    np.add.at(taken, held[:, 0].astype(np.int64), held[:, 1:])
    return taken


def _nodes(nodes: Sequence[SlurmNode], taken: Floats, leaf: Ints, above: tuple[Ints, ...]) -> Nodes:
    usable = np.array([node.usable and "RESERVED" not in node.flags for node in nodes], dtype=bool)
    total = np.array([(node.gpus, node.cpus, node.memory) for node in nodes], dtype=float).reshape(len(nodes), 3)
    # Below 0 where a beneficiary was promised what its victims still hold: what these release is not free for others.
    free = np.where(usable[:, None], total - taken, 0.0)
    return Nodes(
        name=tuple(node.name for node in nodes),
        gpus=total[:, 0].astype(np.int64),
        free=free[:, 0].astype(np.int64),
        free_cpus=free[:, 1],
        free_memory=free[:, 2],
        usable=usable,
        leaf=leaf,
        above=above,
        gpu_type=tuple(node.gpu_type for node in nodes),
        features=tuple(frozenset(node.features) for node in nodes),
    )


def _allocations(shown: Sequence[SlurmJob], intents: Mapping[str, Intent], row_of: Mapping[str, int]) -> Allocations:
    rows = [
        (row, row_of[node], gpus, cpus, memory)
        for row, job in enumerate(shown)
        if job.shares or job.id in intents
        for node, gpus, cpus, memory in _shares(job, _promise(job, intents))
        if node in row_of
    ]
    job, node, gpus, cpus, memory = np.array(rows, dtype=float).reshape(len(rows), 5).T
    return Allocations(job.astype(np.int64), node.astype(np.int64), gpus.astype(np.int64), cpus, memory)
