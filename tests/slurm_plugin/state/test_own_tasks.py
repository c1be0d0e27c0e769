"""A waiting job keeps the tasks that it was submitted with, where Slurm takes some of them in an update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.state import own_tasks
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
HELD: dict[str, Any] = {"priority": 0, "reason": "JobHeldAdmin"}


def submitted(pending: Make) -> SlurmJob:
    """-n4 --ntasks-per-node=2 --gres=gpu:1 --nodelist=..., as Slurm 24.11 shows it."""
    return pending(tasks=4, tasks_per_node=2, cpus=4, gpus=2, gpus_per_node=1, min_nodes=2, max_nodes=0)


def after_hold(job: SlurmJob) -> SlurmJob:
    return replace(job, tasks=2, cpus=2, gpus=1, min_nodes=1, **HELD)


def see(ledger: Ledger, job: SlurmJob) -> SlurmJob:
    return ledger.apply(SlurmSnapshot(1001.0, (job,), ()))[0]


def hold(ledger: Ledger, job: SlurmJob) -> None:
    ledger.jobs[job.id].held = True


def shape(job: SlurmJob) -> tuple[int, int, int, int]:
    return job.tasks, job.cpus, job.gpus, job.min_nodes


def test_tasks_that_the_hold_has_taken_are_planned_with(ledger: Ledger, pending: Make) -> None:
    job = submitted(pending)
    assert see(ledger, job) == job
    hold(ledger, job)
    found = see(ledger, after_hold(job))
    assert shape(found) == shape(job)
    assert (found.priority, found.reason) == (0, "JobHeldAdmin")
    assert ledger.jobs[job.id].min_nodes == 2, "the number of nodes after the hold is no request of the owner"


def test_a_request_that_its_owner_changes_before_the_hold_counts(ledger: Ledger, pending: Make) -> None:
    see(ledger, submitted(pending))
    changed = replace(submitted(pending), tasks=6, cpus=6, gpus=3, min_nodes=3)
    see(ledger, changed)
    hold(ledger, changed)
    assert shape(see(ledger, after_hold(changed))) == shape(changed)


@pytest.mark.parametrize("changes", [{"tasks": 6, "min_nodes": 3}, {"tasks": 3}, {"tasks_per_node": 1, "tasks": 1}])
def test_a_request_that_its_owner_changes_while_it_is_held_counts(
    ledger: Ledger, pending: Make, changes: dict[str, Any]
) -> None:
    job = submitted(pending)
    see(ledger, job)
    hold(ledger, job)
    changed = replace(after_hold(job), **changes)
    assert see(ledger, changed) == changed
    assert own_tasks.read(ledger.jobs[job.id])["tasks"] == changed.tasks


def test_the_stored_request_survives_the_controller(ledger: Ledger, pending: Make) -> None:
    job = submitted(pending)
    see(ledger, job)
    hold(ledger, job)
    ledger.save(ledger.jobs[job.id])
    again = Ledger(ledger._journal, ledger._scope)
    assert shape(see(again, after_hold(job))) == shape(job)


COUNTS = st.integers(0, 8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture is a function
@given(st.tuples(COUNTS, COUNTS, COUNTS), st.tuples(COUNTS, COUNTS, COUNTS), st.booleans(), st.booleans())
def test_a_restored_job_never_has_fewer_tasks_and_only_under_a_hold_of_the_controller(
    pending: Make, own: tuple[int, int, int], shown: tuple[int, int, int], held: bool, waits: bool
) -> None:
    first = pending(tasks=own[0], tasks_per_node=own[1], tasks_per_gpu=own[2])
    now = pending(
        tasks=shown[0], tasks_per_node=shown[1], tasks_per_gpu=shown[2], state="PENDING" if waits else "RUNNING"
    )
    row = JobRow("1@1000", "1", 0, 0.0, held=held, asked=own_tasks.write(first), min_nodes=first.min_nodes)
    found = own_tasks.restored(row, now)
    assert found.tasks >= now.tasks
    assert found == now or (held and waits and found.tasks == first.tasks)
