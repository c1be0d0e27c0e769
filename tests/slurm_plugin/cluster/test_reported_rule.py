"""The cells of the controller's rule are no work for the garbage collector, and cells of other nodes are released."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scheduler.conftest import Builder
from tests.scheduler.tenants.shared_cluster import DECLARED, GPUS, LEAVES, tenants_of, with_clusters
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell
from tiresias.slurm_plugin.cluster.reported_rule import ReportedRule


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def idle(gpus: int = GPUS) -> Snapshot:
    make: Any = Builder()
    return with_clusters(make([make.Job("1", 1)], [make.Node(gpus=gpus, leaf=leaf) for leaf in LEAVES]), ["one"])


def visited() -> int:
    """Return the cells that a garbage collection visits."""
    return sum(isinstance(each, PhysicalCell) for each in gc.get_objects())


def test_cells_are_frozen_when_they_are_built() -> None:
    rule = ReportedRule(VirtualClusterRule(DECLARED))
    before = visited()
    rule.decide(idle(), tenants_of())
    assert visited() <= before, "get_objects leaves out what is frozen"
    frozen = gc.get_freeze_count()
    assert frozen > 0
    rule.decide(idle(), tenants_of())
    assert gc.get_freeze_count() <= frozen, "the same cells are not frozen again"


def test_cells_of_other_nodes_are_released() -> None:
    inner = VirtualClusterRule(DECLARED)
    rule = ReportedRule(inner)
    rule.decide(idle(), tenants_of())
    assert inner._cells is not None
    old = weakref.ref(inner._cells.occupancy)
    rule.decide(idle(2 * GPUS), tenants_of())
    assert old() is None
    assert inner.cells_built == 2


def test_a_rule_without_cells_freezes_nothing() -> None:
    ReportedRule(GpuQuotas(DECLARED)).decide(idle(), tenants_of())
    assert gc.get_freeze_count() == 0
