"""The status for one screen: what `tiresias status` draws in so many lines and cells, and sums of the rest.

The document of 100,000 jobs takes seconds to make, to send and to read; a terminal shows a hundred of them. The part that does not
depend on the screen or the user is made once for each publication.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.scheduler.model import Bools, Ints
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import id_of
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.sockets.shown_jobs import (
    blocked_records,
    not_shown,
    owner_of,
    published_blocked,
    published_jobs,
    walk,
)
from tiresias.slurm_plugin.sockets.shown_nodes import gpus_held, published_nodes
from tiresias.slurm_plugin.sockets.status_document import status_with

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication

MAX_LINES, MAX_CELLS = 1000, 2000  # of a screen
MAX_NODES = 2000  # in one answer
MAX_KEPT = 32  # answers kept for one publication
_NAME_CELLS, _GAP_CELLS = 14, 4  # cells of a node on the map beside one for each GPU: of a long name; around a name
_MAP_SHARE = 3  # the map takes at most this part of a screen


class ScreenRequest(NamedTuple):
    """What a client draws.

    Attributes:
        lines: of its screen
        cells: of a line
        user: name of the user whose jobs are listed; "": all users
    """

    lines: int
    cells: int
    user: str = ""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> ScreenRequest:
        """Return the checked request; larger screens get what the largest one gets.

        Raises:
            TiresiasError: a value is missing or of another type.
        """
        lines, cells, user = request.get("lines"), request.get("cells", 80), request.get("user", "")
        numbers = [one for one in (lines, cells) if isinstance(one, int) and not isinstance(one, bool) and one > 0]
        if len(numbers) < 2 or not isinstance(user, str):
            raise TiresiasError('a request for one screen is {"op": "status", "lines": 24, "cells": 80, "user": ""}')
        return cls(min(numbers[0], MAX_LINES), min(numbers[1], MAX_CELLS), user[:256])


class ScreenAnswers:
    """Answers requests for a screen; used by the socket's thread only."""

    def __init__(self, privacy: Privacy) -> None:
        self._privacy = privacy
        self._table: _JobTables | None = None
        self._kept: dict[tuple[ScreenRequest, int | None], dict[str, Any]] = {}

    def answer(self, newest: Publication, request: ScreenRequest, uid: int) -> Mapping[str, Any]:
        """Return the document, the same object for the same screen while nothing is published."""
        if self._table is None or self._table.newest is not newest:
            self._table, self._kept = _JobTables(newest), {}
        key = request, uid if self._privacy.hides_from(uid) else None
        if key not in self._kept:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[key] = self._made(self._table, request, uid)
        return self._kept[key]

    def _made(self, table: _JobTables, request: ScreenRequest, uid: int) -> dict[str, Any]:
        newest, hides = table.newest, self._privacy.hides_jobs_from(uid)
        visible = table.of_uid(uid) if hides else np.ones(len(table.records), np.bool_)
        competing = _Listed(table, visible & table.of_user(request.user))
        may_see = [job for job in table.blocked if not hides or job.uid == uid]
        blocked = [job for job in may_see if request.user in ("", job.user)]
        jobs = competing.published(request.lines)
        shown = [*published_blocked(newest, blocked[: request.lines - len(jobs)])]
        nodes = published_nodes(
            newest.slurm, newest.snapshot, newest.failing_nodes, newest.node_speeds, _nodes_on(request, table)
        )
        own = {job.id for job in newest.slurm.jobs if job.uid == uid} if hides else ()
        whole = status_with(newest, jobs, shown, nodes)
        seen = self._privacy.view(whole, uid, own) if self._privacy.hides_from(uid) else whole
        if request.user:
            ids = {job.id for job in blocked}
            seen["decisions"] = [one for one in seen["decisions"] if one["job"] in ids or competing.has(one["job"])]
        beyond = competing.rows[len(jobs) :]
        held = int(table.holds[beyond].sum())
        seen["rest"] = {
            "on_nodes": held,
            "waiting": len(beyond) - held,
            "blocked": len(blocked) - len(shown),
            "all_blocked": len(may_see) - len(shown),
            "holders": table.holders(seen["nodes"], {job["id"] for job in jobs}),
            **_owners(table, visible, request.lines),
            **_node_sums(table, visible, seen["nodes"], self._privacy.hides_nodes_from(uid)),
        }
        return seen


class _JobTables:
    """What the answers of one publication have in common. O(jobs + nodes)."""

    def __init__(self, newest: Publication) -> None:
        self.newest, jobs = newest, newest.snapshot.jobs
        self.record_of = dict(zip(map(id_of, newest.slurm.jobs), newest.slurm.jobs, strict=True))
        self.records = list(map(self.record_of.__getitem__, jobs.id))
        self.row_of = dict(zip(jobs.id, range(len(jobs.id)), strict=True))
        self.order = walk(newest)
        self.holds = np.fromiter(map(bool, map(attrgetter("shares"), self.records)), np.bool_, len(self.records))
        others = not_shown(newest)
        self.blocked = blocked_records(newest, others)
        self.node_names = frozenset(newest.snapshot.nodes.name)
        self.widest = int(max(newest.snapshot.nodes.gpus, default=0))
        self.shortest_name = min(map(len, self.node_names), default=0)
        self.managed_gpus = gpus_held(self.holding(self.holds), self.node_names)
        self.used_gpus = self.managed_gpus + gpus_held(others, self.node_names)

    def holding(self, visible: Bools) -> list[SlurmJob]:
        """Return the records of the jobs that hold nodes, of those that are visible."""
        return [self.records[row] for row in np.flatnonzero(visible & self.holds).tolist()]

    def of_uid(self, uid: int) -> Bools:
        """Return which jobs are the user's, by row."""
        return np.fromiter((job.uid == uid for job in self.records), np.bool_, len(self.records))

    def of_user(self, user: str) -> Bools:
        """Return which jobs the user of that name has, by row; "": all."""
        if not user:
            return np.ones(len(self.records), np.bool_)
        return np.fromiter((job.user == user for job in self.records), np.bool_, len(self.records))

    def holders(self, nodes: list[dict[str, Any]], listed: Collection[str]) -> list[dict[str, Any]]:
        """Return what a map needs of the jobs on these nodes that are not listed, in the order of the plan."""
        ids = {job for node in nodes for job, _ in node["allocations"]} - set(listed)
        rank = self.newest.plan.rank
        ordered = sorted(ids, key=lambda job: (int(rank[self.row_of[job]]), job))
        return [
            {
                "id": job,
                "submit_time": float(self.newest.snapshot.jobs.submit[self.row_of[job]]),
                "nodes": [[share.node, share.gpus] for share in self.record_of[job].shares],
            }
            for job in ordered
        ]


class _Listed(NamedTuple):
    """The competing jobs that a request lists, by row of the snapshot."""

    table: _JobTables
    chosen: Bools

    @property
    def rows(self) -> Ints:
        """In the order of the plan."""
        order: Ints = self.table.order[self.chosen[self.table.order]]
        return order

    def published(self, most: int) -> list[dict[str, Any]]:
        """Return the first of them."""
        return published_jobs(self.table.newest, self.rows[:most], self.table.record_of)

    def has(self, job_id: str) -> bool:
        """Return whether the job is one of them."""
        row = self.table.row_of.get(job_id)
        return row is not None and bool(self.chosen[row])


def _nodes_on(request: ScreenRequest, table: _JobTables) -> int:
    """Return how many nodes the map of such a screen can show at most."""
    cells = min(table.shortest_name, _NAME_CELLS) + table.widest + _GAP_CELLS
    return min(request.lines * (request.cells + _GAP_CELLS) // (_MAP_SHARE * cells) + 1, MAX_NODES)


def _owners(table: _JobTables, visible: Bools, most: int) -> dict[str, Any]:
    """Return the owners between which GPUs are shared, those that used most first, and the number of the others."""
    if not table.newest.owners:
        return {"owners": [], "more_owners": 0}
    rows = np.flatnonzero(visible).tolist()
    found = {one["owner"]: one for row in rows if (one := owner_of(table.newest, table.records[row].id))}
    ordered = sorted(found.values(), key=lambda one: (-(one["owner_use"] or 0.0), one["owner"]))
    return {"owners": ordered[:most], "more_owners": max(len(ordered) - most, 0)}


def _node_sums(table: _JobTables, visible: Bools, listed: list[dict[str, Any]], hides_nodes: bool) -> dict[str, Any]:
    """Return the sums of the nodes that are not listed. GPUs of jobs that the user may not see are those of unmanaged jobs."""
    gpus = table.newest.snapshot.nodes.gpus
    if hides_nodes:
        return {"nodes": 0, "gpus": 0, "managed_gpus": 0, "other_gpus": 0, "widest": 0}
    managed = table.managed_gpus if visible.all() else gpus_held(table.holding(visible), table.node_names)
    shown = sum(count for node in listed for _, count in node["allocations"])
    others = sum(node["other_gpus"] for node in listed)
    return {
        "nodes": len(gpus) - len(listed),
        "gpus": int(gpus.sum()) - sum(node["gpus"] for node in listed),
        "managed_gpus": managed - shown,
        "other_gpus": table.used_gpus - managed - others,
        "widest": table.widest,
    }
