"""Which running jobs would lose cells by other declarations of virtual clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scheduler.tenants.shared_cluster import DECLARED, Drawn, cluster_of
from tiresias.errors import UsageError
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.running_guarantees import lost_guarantees

OF = {"0": "one", "1": "two", "2": "two"}
ONE, TWO = DECLARED


@pytest.fixture
def running(snapshot_of: Any) -> Snapshot:
    """Job 0 of `one` on a node that it owns; jobs 1 of `two` on its node and 2 of `two` without cells."""
    jobs = [Drawn(name, 4, JobState.RUNNING, 0.0, node, False) for node, name in enumerate(("one", "two", "two"))]
    found = cluster_of(snapshot_of, jobs)
    return replace(found, allocations=replace(found.allocations, owned_cell=("node", "node", "")))


def cells(*owned: tuple[str, int]) -> tuple[DeclaredCells, ...]:
    return tuple(DeclaredCells(level, count) for level, count in owned)


def test_the_same_declarations_take_nothing(running: Snapshot) -> None:
    assert lost_guarantees(running, DECLARED, OF) == ()


def test_a_job_loses_cells_that_its_virtual_cluster_owns_no_more(running: Snapshot) -> None:
    assert lost_guarantees(running, (replace(ONE, cells=cells(("leaf", 1))), TWO), OF) == ("0",)
    assert lost_guarantees(running, (TWO,), OF) == ("0",)


def test_a_job_loses_cells_when_it_belongs_to_another_virtual_cluster(running: Snapshot) -> None:
    other = DeclaredTenant("three", cells(("leaf", 1)))
    assert lost_guarantees(running, (*DECLARED, other), OF | {"0": "three"}) == ("0",)
    assert lost_guarantees(running, DECLARED, OF | {"0": ""}) == ("0",)


def test_more_cells_take_nothing(running: Snapshot) -> None:
    assert lost_guarantees(running, (ONE, replace(TWO, cells=cells(("leaf", 1), ("node", 2)))), OF) == ()


def test_cells_that_do_not_fit_are_refused(running: Snapshot) -> None:
    with pytest.raises(UsageError, match="virtual clusters own 4 cells of type leaf"):
        lost_guarantees(running, (ONE, replace(TWO, cells=cells(("leaf", 4)))), OF)
