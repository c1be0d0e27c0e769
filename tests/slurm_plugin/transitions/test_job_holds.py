"""Holds of many jobs at once, and their release."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness, Make
from tiresias.slurm_plugin.act import HOLDS
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmJob


def storm(harness: ActorHarness, jobs: list[SlurmJob], before: float = math.inf) -> list[str]:
    """Let the actor hold these new jobs; return the names of those that it holds."""
    harness.slurm.jobs = {job.id: job for job in jobs}
    held: list[str] = []
    harness.slurm.hold = held.append  # type: ignore[method-assign,assignment]
    harness.actor.hold(harness.refresh(), 1100.0, before)
    return held


def test_many_arrivals_are_held_in_the_order_in_which_slurm_could_start_them(
    held_job: ActorHarness, pending: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiresias.slurm_plugin.act.time", SimpleNamespace(monotonic=lambda: 0.0))
    jobs = [pending(id=str(n), raw_id=n, priority=1, begin_time=9000 - n) for n in range(2, HOLDS + 102)]
    assert storm(held_job, jobs) == [job.id for job in reversed(jobs)][:HOLDS]
    assert held_job.actor.context.allowance.postponed == 100
    assert sum(row.held for row in held_job.ledger.jobs.values()) == HOLDS


def test_an_array_is_held_with_one_call(held_job: ActorHarness, pending: Make) -> None:
    tasks = [pending(id=f"7_{n}", raw_id=7, array_id=7, priority=1) for n in range(5000)]
    assert storm(held_job, tasks) == ["7_[0-4999]"]
    assert all(row.held for row in held_job.ledger.jobs.values())


def test_on_a_slow_slurmctld_holds_take_a_second_and_urgent_ones_longer(
    held_job: ActorHarness, pending: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = itertools.count(step=0.3)  # seconds between two readings of the clock
    monkeypatch.setattr("tiresias.slurm_plugin.act.time", SimpleNamespace(monotonic=lambda: next(steady)))
    jobs = [pending(id=str(n), raw_id=n, priority=1) for n in range(2, 32)]
    assert storm(held_job, jobs) == ["2", "3", "4"]
    assert held_job.actor.context.allowance.postponed == 27
    assert len(storm(held_job, jobs, before=1e9)) == 16


def test_a_job_that_slurm_cannot_start_soon_is_held_later(held_job: ActorHarness, pending: Make) -> None:
    soon, late = (pending(id=str(n), raw_id=n, priority=1, begin_time=1000 * n) for n in (2, 3))
    assert storm(held_job, [late, soon], before=2500.0) == ["2"]
    assert held_job.actor.context.allowance.postponed == 0


def test_jobs_held_by_the_controller_are_released_without_a_poll_of_each(held_job: ActorHarness, pending: Make) -> None:
    tasks = [pending(id=f"7_{n}", raw_id=7, array_id=7, priority=1, reason="None") for n in range(50)]
    storm(held_job, tasks)
    held_job.slurm.jobs = {job.id: replace(job, priority=0, reason="JobHeldAdmin") for job in tasks}
    lifted: list[str] = []
    held_job.slurm.lift = lifted.append  # type: ignore[method-assign,assignment]
    assert held_job.actor.release_all(1200.0) == []
    assert lifted == ["7_[0-49]"]
    assert not any(row.held for row in held_job.ledger.jobs.values())


def test_a_job_delayed_by_job_submit_may_start_at_once_after_the_release(held_job: ActorHarness, pending: Make) -> None:
    """Job 2 has just ended, 3 is held, 4 is not, and the owner of 5 requested a later begin time."""
    jobs = [pending(id=str(number), raw_id=number, priority=1, begin_time=1290) for number in range(2, 6)]
    storm(held_job, jobs[1:2])
    held = replace(jobs[1], priority=0, reason="JobHeldAdmin")
    held_job.slurm.jobs = {job.id: job for job in (jobs[0], held, *jobs[2:])}
    held_job.slurm.fail("begin_now", JobRefused("it has ended"))
    assert held_job.actor.release_all(1200.0, lambda job: job.id != "5") == []
    assert [job.begin_time for job in held_job.slurm.jobs.values()] == [1290, 0, 0, 1290]
    assert held_job.slurm.jobs["3"].priority == 1
