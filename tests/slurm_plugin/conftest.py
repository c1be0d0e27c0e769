"""Records as the back ends deliver them, for tests of what comes after the back ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.durable.leadership import Leadership
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

PENDING = SlurmJob(
    id="1", raw_id=1, array_id=0, het_id=0, name="train", user="alice", uid=1001, account="", partition="gpu",
    state="PENDING", completing=False, reason="JobHeldAdmin", priority=0, restarts=0, submit_time=1000, begin_time=1000,
    start_time=0, end_time=0, time_limit=3600, gpus=4, gpu_type="", gpus_per_node=0, min_nodes=1, max_nodes=0, cpus=4,
    memory_per_node=0, memory_per_cpu=100, features="", required_nodes=(), excluded_nodes=(), shares=(), requeue=True,
    batch=True, reservation="", dependency="", exit_code=-1, tasks=4,
)  # fmt: skip


@pytest.fixture
def pending() -> Callable[..., SlurmJob]:
    return lambda **changes: replace(PENDING, **changes)


@pytest.fixture
def running() -> Callable[..., SlurmJob]:
    """A run from `start`, on gpu01, all GPUs there."""

    def make(start: int, **changes: object) -> SlurmJob:
        gpus = changes.get("gpus", PENDING.gpus)
        share = NodeShare("gpu01", int(str(gpus)), 4, 400)
        alive = {"state": "RUNNING", "reason": "None", "priority": 100, "start_time": start, "shares": (share,)}
        return replace(PENDING, **(alive | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path)
    yield journal
    journal.close()


@pytest.fixture
def leadership(tmp_path: Path) -> Iterator[Leadership]:
    """That has the lead."""
    leadership = Leadership(tmp_path / "leader", seconds=60.0)
    assert leadership.take()
    yield leadership
    leadership.step_down()


@pytest.fixture
def ledger(journal: Journal) -> Ledger:
    return Ledger(journal, Scope(frozenset({"gpu"})))
