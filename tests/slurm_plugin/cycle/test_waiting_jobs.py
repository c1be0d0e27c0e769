"""Comments of the waiting jobs of virtual clusters: each job has one, from what all parts of the decision mean for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.scheduler.conftest import Builder
from tests.scheduler.tenants.shared_cluster import CONFIG, DECLARED, GPUS, LEAVES, tenants_of, with_clusters
from tiresias.scheduler.model import JobState
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cycle.cycle_context import Decided
from tiresias.slurm_plugin.cycle.waiting_jobs import comments_of

FIFO = tenants_of(dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo")))


@pytest.fixture
def comments(pending: Callable[..., SlurmJob]) -> dict[str, str]:
    """Opportunistic jobs run on all six nodes; two jobs of `one`, which owns a node, and one of no virtual cluster wait."""
    make: Any = Builder()
    jobs = [make.Job(f"r{node}", GPUS, JobState.RUNNING, placement=((node, GPUS),)) for node in range(len(LEAVES))]
    jobs += [make.Job(str(name), GPUS, submit=float(name)) for name in (1, 2, 3)]
    snapshot = with_clusters(
        make(jobs, [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]),
        [OUTSIDE] * len(LEAVES) + ["one", "one", OUTSIDE],
    )
    snapshot = replace(snapshot, allocations=replace(snapshot.allocations, owned_cell=("",) * len(LEAVES)))
    plan, parts = VirtualClusterRule(DECLARED).decide(snapshot, FIFO)
    records = [pending(id=name, raw_id=int(name), gpus=GPUS, priority=0) for name in "123"]
    slurm = SlurmSnapshot(snapshot.time, tuple(records), ())
    found = [*comments_of(slurm, Decided(records, {}, snapshot, plan, parts, 0.0), {}, {})]
    assert len({one.name for one in found}) == len(found), "no job has two comments"
    return {one.name: one.text for one in found}


def test_a_job_that_is_to_start_in_a_cell_starts_next(comments: dict[str, str]) -> None:
    assert comments["1"] == "Tiresias: starts next; needs 4 GPUs, preempted jobs release them"


def test_places_are_those_of_the_virtual_cluster(comments: dict[str, str]) -> None:
    assert comments["2"].startswith("Tiresias: 2nd of 2 in virtual cluster one; needs 4 GPUs; about 1 h")
    assert comments["3"].endswith("needs 4 GPUs")
    assert "virtual cluster" not in comments["3"]
