"""The state of a cycle as one dictionary: what `status`, `explain` and --watch render.

The controller publishes its newest objects after each cycle; the dictionary is made in the socket's thread at a request, so that
a cycle costs the same with and without viewers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.protocol import elastic_sizes
from tiresias.protocol.control import JobReport
from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.size_estimate import SizeEstimate
from tiresias.scheduler.evict.protection import remaining
from tiresias.scheduler.model import Ints, JobState, Plan, Snapshot
from tiresias.scheduler.place.placements import style_name
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.tenants.guarantees import Guarantee
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.job_estimates import NO_END, PredictedEnd
from tiresias.slurm_plugin.sockets.explain_requests import ExplainRequest, Explanations, decision, not_competing
from tiresias.slurm_plugin.sockets.history_pages import HistoryPages
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.privacy import OPEN, Privacy
from tiresias.slurm_plugin.sockets.shown_cells import CellAnswers, CellSource, guarantee_limit, virtual_clusters
from tiresias.slurm_plugin.sockets.shown_nodes import published_nodes
from tiresias.slurm_plugin.sockets.shown_queues import published_queues
from tiresias.slurm_plugin.sockets.shown_reasons import ShownReasons
from tiresias.slurm_plugin.state import job_reasons, own_size
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow

SHOWN_DECISIONS = 50
BRIEF = 250  # jobs: no terminal is higher
STATES = {int(state): state.name for state in JobState} | {int(JobState.RELEASING): "LEAVING"}  # the published name
SILENT = JobReport()


@dataclass(frozen=True, slots=True)
class Publication:
    """One cycle's results; nothing in it changes afterwards."""

    about: Mapping[str, Any]  # the daemon: cluster, mode, back end, cycle, alarms
    slurm: SlurmSnapshot
    snapshot: Snapshot
    plan: Plan
    rows: Mapping[str, JobRow]
    phases: Mapping[str, str]  # journal step of the jobs that are on the move
    unmovable: Mapping[str, str]
    reports: Mapping[str, JobReport]  # of the supervisors of running jobs
    decisions: tuple[Decision, ...]
    config: Config
    profiles: Mapping[str, Summary] = field(default_factory=dict)  # what is known of jobs' traffic
    due: Mapping[str, float] = field(
        default_factory=dict
    )  # by beneficiary: epoch second until when its victims may save
    parts: tuple[PoolDecision, ...] = ()  # what is decided in each pool of nodes; () for one pool of all
    confined: Mapping[str, str] = field(
        default_factory=dict
    )  # why jobs may not run beyond the cells of virtual clusters
    cells: CellSource | None = None  # reports the cells of the newest decision; None: there are no virtual clusters
    guarantees: Mapping[str, Guarantee] = field(default_factory=dict)  # of the virtual clusters
    ends: Mapping[str, PredictedEnd] = field(default_factory=dict)  # of running jobs that report their progress
    slow_nodes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of running jobs, by job id
    sizes: Mapping[str, SizeEstimate] = field(default_factory=dict)  # what is predicted of elastic jobs
    tenants: tuple[str, ...] = ()  # the virtual clusters of the parts; the last part is that of the other jobs

    def part_of(self, row: int) -> tuple[Snapshot, Plan, PolicyConfig, int, int]:
        """Where the job in that row is decided on first, its row there, and the number of queues of the pools before."""
        if len(self.parts) <= 1:
            config = self.parts[0].pool.config if self.parts else self.config.policy
            return self.snapshot, self.plan, config, row, 0
        part = next(part for part in self.parts if part.has(row))
        return part.snapshot, part.plan, part.pool.config, part.row(row), part.pool.queues_before

    def reasoned(self, row: int) -> tuple[Plan, Snapshot, int]:
        """The plan, the snapshot and the row there from which the reason of the job in that row follows. With virtual clusters it
        is the plan of all jobs: an opportunistic job has several parts."""
        if self.tenants:
            return self.plan, self.snapshot, row
        snapshot, plan, _, there, _ = self.part_of(row)
        return plan, snapshot, there

    def pools(self) -> Iterator[tuple[Ints, PolicyConfig, int]]:
        """The rows of the jobs that each pool decides on first, its policy, and the number of queues of the pools before."""
        if len(self.parts) <= 1:
            yield np.arange(len(self.snapshot.jobs)), self.config.policy, 0
            return
        known = np.zeros(len(self.snapshot.jobs), np.bool_)
        for part in self.parts:
            rows = part.pool.jobs[~known[part.pool.jobs]]
            known[rows] = True
            yield rows, part.pool.config, part.pool.queues_before


class Publisher:
    """Answers the control socket; `publish` is the daemon's side, everything else runs in the socket's thread."""

    def __init__(self, journal: Path, privacy: Privacy = OPEN) -> None:
        self._journal, self._privacy = journal, privacy
        self._history_pages = HistoryPages(journal, privacy)
        self._explanations = Explanations(journal, self._history_pages, privacy)
        self._newest: Publication | None = None
        self._rendered: tuple[Publication | None, dict[str, Any]] = (None, {})
        self._brief: tuple[Publication | None, dict[str, Any]] = (None, {})
        self._cells = CellAnswers(privacy)
        self._views: dict[int, dict[str, Any]] = {}  # by uid, of what is rendered

    def publish(self, publication: Publication) -> None:
        """Publish the results of a cycle."""
        self._newest = publication

    def answer(self, request: dict[str, Any], peer: Peer) -> Mapping[str, Any]:
        """Return the answer to a request of that user. Raises TiresiasError for an invalid one."""
        if request.get("op") == "status":
            return self._page(peer.uid) if request.get("brief") is True else self._view(peer.uid)
        if request.get("op") == "explain" and isinstance(request.get("job"), str):
            return self._explanations.answer(self._about(request["job"], peer.uid))
        if request.get("op") == "progress" and isinstance(request.get("job"), str):
            return self._explanations.progress(self._about(request["job"], peer.uid))
        if request.get("op") == "history":
            return self._history_pages.answer(request, peer.uid)
        if request.get("op") == "cells":
            return self._cells.answer(self._published(), peer.uid)
        raise TiresiasError(
            'the controller answers {"op": "status"}, {"op": "explain", "job": "ID"}, {"op": "progress", "job": "ID"}, '
            '{"op": "history"} and {"op": "cells"}'
        )

    def _about(self, job: str, uid: int) -> ExplainRequest:
        shown = {job["id"]: job for job in self._view(uid)["jobs"]}
        return ExplainRequest(job, uid, self._published(), shown)

    def _published(self) -> Publication:
        if self._newest is None:
            raise TiresiasError("the controller has not seen Slurm yet; try again in a moment")
        return self._newest

    def _status(self) -> dict[str, Any]:
        newest = self._published()
        if self._rendered[0] is not newest:
            self._rendered, self._views = (newest, status(newest)), {}
        return self._rendered[1]

    def _page(self, uid: int) -> dict[str, Any]:
        """What one page can show; where something is hidden all that the user may see."""
        newest = self._published()
        if self._privacy.hides_from(uid):
            return self._view(uid)
        if self._brief[0] is not newest:
            self._brief = newest, status(newest, BRIEF)
        return self._brief[1]

    def _view(self, uid: int) -> dict[str, Any]:
        """What that user may see of the status."""
        whole, newest = self._status(), self._rendered[0]
        if newest is None or not self._privacy.hides_from(uid):
            return whole
        if uid not in self._views:
            own = {job.id for job in newest.slurm.jobs if job.uid == uid}
            self._views[uid] = self._privacy.view(whole, uid, own)
        return self._views[uid]


def status(newest: Publication, whole: int | None = None) -> dict[str, Any]:
    """Return the status. whole: so many jobs are listed completely, the others as a page draws them; None: all."""
    jobs = _jobs(newest, whole)
    return {
        "version": 1,
        "time": newest.slurm.time,
        **newest.about,
        "policy": {
            "name": newest.config.policy.name,
            "thresholds": list(newest.config.policy.limits),
            "in_queue_order": newest.config.policy.in_queue_order,
        },
        "queues": published_queues(newest),
        "jobs": jobs,
        "blocked": _blocked(newest, whole),
        "nodes": published_nodes(newest.slurm, newest.snapshot),
        "decisions": [decision(one) for one in newest.decisions],
        "virtual_clusters": virtual_clusters(newest.cells, newest.guarantees, guarantee_limit(newest.config)),
    }


def _jobs(newest: Publication, whole: int | None) -> list[dict[str, Any]]:
    """Holders of GPUs first, then those who wait, each in the order of the walk. Ten thousand a time: lists, not arrays."""
    jobs, plan = newest.snapshot.jobs, newest.plan
    record_of = {job.id: job for job in newest.slurm.jobs}
    queue, protected = plan.queue.copy(), np.zeros(len(jobs))
    for rows, config, before in newest.pools():
        queue[rows] += before
        protected[rows] = remaining(newest.snapshot, config)[rows]
    walk = np.lexsort((plan.rank, jobs.state == JobState.WAITING))
    order, rest = walk[:whole], walk[:0] if whole is None else walk[whole:]
    columns = (
        order, jobs.state[order], queue[order], plan.rank[order], jobs.attained[order].round(3),
        jobs.ran[order].round(3), jobs.waited[order].round(3), jobs.submit[order], jobs.movable[order],
        np.full(len(order), np.nan) if jobs.preemption_cost is None else jobs.preemption_cost[order],
        np.zeros(len(order), np.int64) if jobs.style is None else jobs.style[order],
        protected[order],
        np.full(len(order), np.nan) if jobs.claimed_remaining is None else jobs.claimed_remaining[order],
    )  # fmt: skip
    reasons = ShownReasons(newest)
    return [
        _job(newest, reasons, record_of[jobs.id[row[0]]], *row)
        for row in zip(*(one.tolist() for one in columns), strict=True)
    ] + [
        _of_the_rest(record_of[jobs.id[row]], submit)
        for row, submit in zip(rest.tolist(), jobs.submit[rest].tolist(), strict=True)
    ]


def _blocked(newest: Publication, most: int | None) -> list[dict[str, Any]]:
    """The waiting jobs that do not compete, by submit time."""
    competing = set(newest.snapshot.jobs.id)
    found = [
        not_competing(newest.rows[job.id], job, newest.slurm.time) | {"state": "BLOCKED"}
        for job in newest.slurm.jobs
        if job.state == "PENDING" and not job.completing and job.id in newest.rows and job.id not in competing
    ]
    return sorted(found, key=lambda job: float(job["submit_time"]))[:most]


def _of_the_rest(job: SlurmJob, submit: float) -> dict[str, Any]:
    """Enough to count it, and to give it its letter on the map."""
    if not job.shares:
        return {"id": job.id}
    return {"id": job.id, "submit_time": submit, "nodes": [[share.node, share.gpus] for share in job.shares]}


def _job(
    newest: Publication, reasons: ShownReasons, job: SlurmJob, row: int, state: int, queue: int, rank: int,
    attained: float, ran: float, waited: float, submit: float, movable: bool, cost: float, style: int, protected: float,
    left: float,
) -> dict[str, Any]:  # fmt: skip
    """protected: seconds until its minimum run time is reached. left: claimed seconds of work."""
    known, unmovable = newest.rows.get(job.id), newest.unmovable.get(job.id, "")
    unmovable = unmovable or _protected(newest.slurm.time + protected if protected else 0.0)
    why, report = reasons.why(row), newest.reports.get(job.id, SILENT)
    return {
        "id": job.id, "name": job.name, "user": job.user, "partition": job.partition, "gpus": job.gpus,
        "state": STATES[state], "queue": queue, "rank": rank, "attained": attained, "ran": ran, "waited": waited,
        "submit_time": submit, "start_time": job.start_time if job.shares else 0,
        "nodes": [[share.node, share.gpus] for share in job.shares], "restarts": job.restarts,
        **_stated_sizes(known, job), **_sizes(newest, row), **_end(newest, job.id),
        "slow_nodes": [[node, round(ratio, 2)] for node, ratio in sorted(newest.slow_nodes.get(job.id, {}).items())],
        "rigid": job_reasons.text(known.rigid) if known else "",
        "preemptions": known.preemptions if known else 0, "preemptable": movable, "step": report.step,
        "checkpoint_time": report.saved_at, "placement": style_name(style),
        "phase": newest.phases.get(job.id, ""), "preemption_cost": None if cost != cost else round(cost, 3),
        "progress": known.progress if known else None, "total_steps": known.total_steps if known else None,
        "remaining": None if left != left else round(left, 3), **_cells(newest, row),
        "why": "; ".join(filter(None, [why, unmovable, _confined(newest, job)])), "profile": _profile(newest.profiles.get(job.id)),
    }  # fmt: skip


def _stated_sizes(known: JobRow | None, job: SlurmJob) -> dict[str, Any]:
    """The sizes that the owner of an elastic job states, and its parameter servers."""
    sizes = own_size.sizes(known) if known else None
    if known is None or sizes is None:
        return {"elastic": "", "servers": None, "server_counts": ""}
    counts = sizes.servers
    return {
        "elastic": elastic_sizes.without_servers(known.elastic),
        "servers": own_size.servers(known, job) if counts else None,
        "server_counts": f"{counts.least}-{counts.most}" if counts else "",
    }


def _sizes(newest: Publication, row: int) -> dict[str, Any]:
    """The sizes of an elastic job."""
    jobs = newest.snapshot.jobs
    if jobs.gpu_step is None or jobs.min_gpus is None or jobs.max_gpus is None or not jobs.gpu_step[row]:
        return {"min_gpus": None, "max_gpus": None}
    return {"min_gpus": int(jobs.min_gpus[row]), "max_gpus": int(jobs.max_gpus[row])}


def _end(newest: Publication, job_id: str) -> dict[str, Any]:
    """When a job is expected to end."""
    found = newest.ends.get(job_id, NO_END)
    names = ("end", "end_low", "end_high")
    return {
        name: round(moment, 3) if math.isfinite(moment) else None for name, moment in zip(names, found, strict=True)
    }


def _cells(newest: Publication, row: int) -> dict[str, Any]:
    """The virtual cluster of a job, and whether it holds cells there."""
    clusters, held = newest.snapshot.jobs.virtual_cluster, newest.snapshot.allocations
    if not newest.tenants or clusters is None or held.owned_cell is None:
        return {"virtual_cluster": "", "guaranteed": None}
    owned = [held.owned_cell[place] for place in np.flatnonzero(held.job == row).tolist()]
    return {"virtual_cluster": clusters[row], "guaranteed": bool(owned) and all(owned)}


def _confined(newest: Publication, job: SlurmJob) -> str:
    """Why a waiting job may not run beyond the cells of virtual clusters; "" where it may, or where there are none."""
    reason = newest.confined.get(job.id, "")
    return f"not opportunistically: {reason}" if reason else ""


def _protected(until: float) -> str:
    if not until:
        return ""
    return f"not preempted before {time.strftime('%H:%M:%S', time.localtime(until))}: minimum run time not reached"


def _profile(summary: Summary | None) -> dict[str, Any] | None:
    return summary and {
        "decision": summary.decision, "reasons": list(summary.reasons), "architecture": summary.architecture,
        "skew": summary.skew, "intensity": summary.intensity, "model_bytes": summary.model,
        "largest_bytes": summary.largest, "iteration": summary.iteration, "job": summary.job, "made": summary.made,
    }  # fmt: skip
