"""An example of a package that adds a policy, an admission rule, a sizing, a placement, an eviction and a trace format."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.eviction import Walk
from tiresias.scheduler.model import Bools, Ints, Request, Snapshot
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.rank.policy import Ranking
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat


def out_of_range(stage: str) -> bool:
    """Return whether the stage is to return a wrong result, for tests of failures; raise or hang where it is to do that.

    The file that the variable ACME_FAILS names has the stage and the failure: `sizing raises`, `sizing hangs`, `sizing range`.
    """
    file = Path(os.environ.get("ACME_FAILS", "/nonexistent"))
    failing, _, failure = (file.read_text() if file.exists() else "").partition(" ")
    if failing != stage:
        return False
    if failure == "raises":
        raise RuntimeError("out of\nluck")
    if failure == "hangs":
        time.sleep(60)
    return failure == "range"


class LatestFirst:
    """The job that was submitted last goes first."""

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        order = np.argsort(-snapshot.jobs.submit, kind="stable")
        return Ranking.of(order + 1 if out_of_range("policy") else order)


class SmallOnly:
    """Jobs of up to 4 GPUs."""

    def admitted(self, snapshot: Snapshot, order: Ints) -> Bools:
        small: Bools = snapshot.jobs.gpus <= 4
        return small


class Halves:
    """Half of the requested GPUs, at least one."""

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        half: Ints = np.maximum(snapshot.jobs.gpus // 2, 1)
        return half + 1000 if out_of_range("sizing") else half


class NoPreemption:
    """All running jobs keep their GPUs."""

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
        return np.zeros(len(walk.rows) + out_of_range("eviction"), np.bool_)


def last_node(request: Request, gpus: int, nodes: CandidateNodes) -> Placement | None:
    """The last node with enough GPUs."""
    if out_of_range("placement"):
        return ((1000, gpus),)
    rows = np.flatnonzero(nodes.fit >= gpus)
    return ((int(rows[-1]), gpus),) if len(rows) else None


def _read(file: TraceFile) -> TraceColumns:
    rows = [line.split() for line in file.lines() if not line.startswith("#")]
    numbers = np.array([row[1:] for row in rows], np.float64).reshape(-1, 3)
    return TraceColumns([row[0] for row in rows], *numbers.T.copy())


FORMAT = TraceFormat("an example", lambda head: head.startswith("#acme"), _read)
