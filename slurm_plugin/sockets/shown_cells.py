"""The cells of virtual clusters as the control socket publishes them: protocol/published_cells.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tiresias.errors import TiresiasError
from tiresias.protocol.status_version import VERSION
from tiresias.scheduler.tenants.cell_report import CellLevelReport, CellReport, VirtualClusterReport
from tiresias.scheduler.tenants.cell_trees import ShownCell
from tiresias.scheduler.tenants.guarantees import Guarantee
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.sockets.privacy import Privacy

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication

NO_VIRTUAL_CLUSTERS = (
    'no virtual clusters are configured: give [[virtual_cluster]] tables and policy.admission = "virtual_clusters"'
)
NO_CELLS = (
    'no cells are bound to hardware: policy.admission is not "virtual_clusters", or the cells do not fit the nodes; then tiresias '
    "status shows an alarm"
)


class CellSource(Protocol):
    """Reports the cells of the newest decision; called in the thread of the control socket."""

    def __call__(self, *, trees: bool) -> CellReport | None:
        """Return the report; None: no decision yet, or a rule without cells."""


def guarantee_limit(config: Config) -> float:
    """Return the seconds within which a job that fits into free cells of its virtual cluster is to run."""
    return config.preemption.deadline + config.preemption.start_timeout


def virtual_clusters(
    source: CellSource | None, guarantees: Mapping[str, Guarantee], limit_s: float
) -> list[dict[str, Any]]:
    """Return the sums of each virtual cluster, without trees."""
    report = source(trees=False) if source is not None else None
    return [_cluster(each, guarantees, limit_s) for each in report.clusters] if report is not None else []


class CellAnswers:
    """Answers requests for the cells, which are read once a cycle; used by the socket's thread only."""

    def __init__(self, privacy: Privacy) -> None:
        self._privacy = privacy
        self._newest: tuple[Publication | None, Mapping[str, Any]] = (None, {})

    def answer(self, newest: Publication, uid: int) -> Mapping[str, Any]:
        """Return the cells as the user may see them. Raises TiresiasError where there are none."""
        if self._newest[0] is not newest:
            self._newest = newest, _cells(newest)
        if not self._privacy.hides_from(uid):
            return self._newest[1]
        own = {job.id for job in newest.slurm.jobs if job.uid == uid}
        return self._privacy.cells(self._newest[1], uid, own)


def _cells(newest: Publication) -> dict[str, Any]:
    if newest.cells is None:
        raise TiresiasError(NO_VIRTUAL_CLUSTERS)
    if (report := newest.cells(trees=True)) is None:
        raise TiresiasError(NO_CELLS)
    about = {
        "version": VERSION,
        "time": newest.slurm.time,
        "cluster": newest.about["cluster"],
        "period": newest.config.period,
    }
    return about | published_cells(report, newest.guarantees, guarantee_limit(newest.config))


def published_cells(report: CellReport, guarantees: Mapping[str, Guarantee], limit_s: float) -> dict[str, Any]:
    """Return a report with its trees as it is published. O(cells)."""
    return {
        "virtual_clusters": [
            _cluster(each, guarantees, limit_s) | {"cells": [_cell(cell) for cell in each.cells]}
            for each in report.clusters
        ],
        "outside": report.outside,
        "unmanaged": report.unmanaged,
        "levels": [_level(each) for each in report.levels],
        "hardware": [_cell(cell) for cell in report.hardware],
    }


def _cluster(report: VirtualClusterReport, guarantees: Mapping[str, Guarantee], limit_s: float) -> dict[str, Any]:
    guarantee = guarantees.get(report.name, Guarantee())
    return {
        "name": report.name,
        "gpus": report.gpus,
        "guaranteed": report.guaranteed,
        "free": report.free,
        "opportunistic": report.opportunistic,
        "nodes": report.nodes,
        "fragmented": report.fragmented,
        "levels": [_level(each) for each in report.levels],
        "waiting": guarantee.waiting,
        "longest_wait": round(guarantee.longest_s, 3),
        "wait_limit": limit_s,
        "kept": guarantee.kept,
        "broken": guarantee.broken,
    }


def _level(report: CellLevelReport) -> dict[str, Any]:
    return {
        "type": report.cell_type,
        "gpus": report.gpus,
        "owned": report.owned,
        "cells": report.cells,
        "free": report.free,
        "largest": report.largest,
    }


def _cell(cell: ShownCell) -> dict[str, Any]:
    """Return a cell without the keys that are empty or 0."""
    kind, name, state, gpus, guaranteed, opportunistic, unmanaged, cluster, bound, nodes, pinned, jobs, children = cell
    found: dict[str, Any] = {"type": kind, "name": name, "state": state.value, "gpus": gpus}
    if guaranteed:
        found["guaranteed"] = guaranteed
    if opportunistic:
        found["opportunistic"] = opportunistic
    if unmanaged:
        found["unmanaged"] = unmanaged
    if cluster:
        found["cluster"] = cluster
    if bound:
        found["bound"] = bound
    if nodes:
        found["nodes"] = list(nodes)
    if pinned:
        found["pinned"] = pinned
    if jobs:
        found["jobs"] = [list(job) for job in jobs]
    if children:
        found["parts"] = [_cell(part) for part in children]
    return found
