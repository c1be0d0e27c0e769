"""The state of a cycle as one dictionary: what `status`, `explain` and --watch render.

The controller publishes its newest objects after each cycle; the dictionary is made in the socket's thread at a request, so that
a cycle costs the same with and without viewers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.protocol.control import JobReport
from tiresias.protocol.profile_summary import Summary
from tiresias.protocol.remote_memory_use import RemoteMemoryUse
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.learned_node_speeds import NodeSpeed
from tiresias.scheduler.estimates.predicted_end import PredictedEnd
from tiresias.scheduler.estimates.size_estimate import SizeEstimate
from tiresias.scheduler.estimates.stragglers import SlowNode
from tiresias.scheduler.model import Ints, Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.tenants.guarantees import Guarantee
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import License
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.job_owners import JobOwner
from tiresias.slurm_plugin.observation.unused_gpus import GpuUse
from tiresias.slurm_plugin.sockets.explain_requests import ExplainRequest, Explanations
from tiresias.slurm_plugin.sockets.history_pages import HistoryPages
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.privacy import OPEN, Privacy
from tiresias.slurm_plugin.sockets.screen_answers import ScreenAnswers, ScreenRequest
from tiresias.slurm_plugin.sockets.shown_cells import CellAnswers, CellSource
from tiresias.slurm_plugin.sockets.status_document import whole_status
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow

SHOWN_DECISIONS = 50


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
    gpu_use: Mapping[str, GpuUse] = field(default_factory=dict)  # of running jobs that report it
    memory_uses: Mapping[str, tuple[RemoteMemoryUse, ...]] = field(
        default_factory=dict
    )  # of running jobs that have some
    memory_license: License | None = None  # of remote memory
    ends: Mapping[str, PredictedEnd] = field(default_factory=dict)  # of running jobs that report their progress
    slow_nodes: Mapping[str, Mapping[str, SlowNode]] = field(default_factory=dict)  # of running jobs, by job id
    failing_nodes: Collection[str] = ()  # on which runs fail
    node_speeds: Mapping[str, NodeSpeed] = field(default_factory=dict)  # of nodes, where these surely differ
    owners: Mapping[str, JobOwner] = field(default_factory=dict)  # of jobs whose policy shares GPUs between owners
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
        self._screens = ScreenAnswers(privacy)
        self._cells = CellAnswers(privacy)
        self._views: dict[int, dict[str, Any]] = {}  # by uid, of what is rendered

    def publish(self, publication: Publication) -> None:
        """Publish the results of a cycle."""
        self._newest = publication

    def answer(self, request: dict[str, Any], peer: Peer) -> Mapping[str, Any]:
        """Return the answer to a request of that user. Raises TiresiasError for an invalid one."""
        if request.get("op") == "status":
            if "lines" in request:
                return self._screens.answer(self._published(), ScreenRequest.of(request), peer.uid)
            return self._view(peer.uid)
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
            self._rendered, self._views = (newest, whole_status(newest)), {}
        return self._rendered[1]

    def _view(self, uid: int) -> dict[str, Any]:
        """What that user may see of the status."""
        whole, newest = self._status(), self._rendered[0]
        if newest is None or not self._privacy.hides_from(uid):
            return whole
        if uid not in self._views:
            own = {job.id for job in newest.slurm.jobs if job.uid == uid}
            self._views[uid] = self._privacy.view(whole, uid, own)
        return self._views[uid]
